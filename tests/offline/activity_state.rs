//! State files of `gpumap activity --state`: counts are taken from one that can be
//! believed, and from no other, whatever bytes it has.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};
use serde_json::Value;

fn node(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/nodes").join(name)
}

fn counts() -> Value {
    serde_json::from_slice(&fs::read(node("slurm-activity.json")).unwrap()).unwrap()
}

/// A file with these bytes that only its owner may read.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("activity-state-{name}"));
    let _none = fs::remove_file(&path);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    path
}

fn kept(name: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
    let mut state = counts();
    change(&mut state);
    file(name, state.to_string().as_bytes())
}

/// Asks about the node of the counts, as it was seen without them.
fn gpumap(command: &[&str], state: &Path) -> Output {
    let from = node("slurm-jobs.json");
    let mut gpumap = Command::new(env!("CARGO_BIN_EXE_gpumap"));
    gpumap.args(["--json", "--from"]).arg(from).args(command).arg("--state").arg(state);
    gpumap.stdin(Stdio::null()).output().unwrap()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Why a file is refused, with exit code 2 and a document that says it.
fn refused(state: &Path) -> String {
    let output = gpumap(&["node"], state);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let document = document(&output);
    assert!(document["activity"].is_null());
    document["errors"][0]["why"].as_str().unwrap().to_owned()
}

/// Make sure that what is used stands beside the four sets, for each command that
/// takes a state file.
#[test]
fn fifth_column() {
    let state = kept("good", |_| {});
    let node = document(&gpumap(&["node"], &state));
    let job = node["owners"].as_array().unwrap().iter().find(|row| row["owner"]["job_id"] == 4711).unwrap();
    assert_eq!((&job["used"]["gpus"], &job["idle_seconds"]), (&job["allowed"]["gpus"], &0.into()));
    assert_eq!(node["activity"]["processes"].as_array().unwrap().len(), 3);
    let job = document(&gpumap(&["job", "4711"], &state));
    assert_eq!(job["activity"]["processes"][0]["pid"], 115);
    assert_eq!(job["activity"]["processes"][0]["gpus"][0]["counts"]["launches"], 120_000);
    let pid = document(&gpumap(&["pid", "115"], &state));
    assert_eq!(pid["activity"]["processes"][0]["gpus"][0]["by"], "driver");
    let audit = document(&gpumap(&["audit"], &state));
    let ids: Vec<&Value> =
        audit["findings"].as_array().unwrap().iter().map(|finding| &finding["id"]).collect();
    assert!(!ids.contains(&&"gpu-idle".into()), "{ids:?}");
}

/// Make sure that a process is the one with the same start, whatever pid it has.
#[test]
fn another_of_this_pid() {
    let state = kept("pid", |state| {
        for process in state["activity"]["sums"]["processes"].as_array_mut().unwrap() {
            process["start_time"] = 1.into();
        }
    });
    let node = document(&gpumap(&["node"], &state));
    assert_eq!(node["activity"]["processes"], Value::Array(Vec::new()));
}

/// Make sure that a file which others may write or which is another user's is not
/// believed, and that one is not waited for.
#[test]
fn untrusted() {
    let state = kept("writable", |_| {});
    fs::set_permissions(&state, PermissionsExt::from_mode(0o620)).unwrap();
    assert_eq!(refused(&state), "others than its owner may write it");
    if geteuid().is_root() {
        let state = kept("foreign", |_| {});
        chown(&state, Some(65534), None).unwrap();
        assert_eq!(refused(&state), "belongs to another user, who may have written anything into it");
    }
    let fifo = file("fifo", b"");
    fs::remove_file(&fifo).unwrap();
    mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    assert_eq!(refused(&fifo), "not a regular file");
}

/// Make sure that counts of another boot are refused, that old ones are left out and
/// this said, and that a file without counts is no state file.
#[test]
fn of_another_moment() {
    let boot = kept("boot", |state| state["host"]["boot_id"] = "another".into());
    assert_eq!(refused(&boot), "written on another host or boot");
    let none = kept("none", |state| state["activity"] = Value::Null);
    assert_eq!(refused(&none), "holds no counts of calls");
    let old =
        "its counts are 51 seconds old and not used: the gpumap that kept it has ended, or does not get on";
    let early = "its counts are of 68 seconds from now and not used: the clock was set back, so how old they are is \
                 not known";
    for (at, expected) in [("2026-11-21T09:16:00Z", old), ("2026-11-21T09:18:00Z", early)] {
        let state = kept("old", |state| state["activity"]["at"] = at.into());
        let output = gpumap(&["node"], &state);
        assert_eq!(output.status.code(), Some(3));
        let document = document(&output);
        assert!(document["activity"].is_null());
        assert_eq!(document["errors"][0]["why"], expected);
    }
}

/// Make sure that no bytes make a bug: the file cut off anywhere, and with bytes of
/// it changed.
#[test]
fn any_bytes() {
    let whole = counts().to_string().into_bytes();
    let activity = counts()["activity"].to_string().len();
    let end = whole.len();
    let mut cases: Vec<Vec<u8>> = (0..20).map(|cut| whole[..end * cut / 20].to_vec()).collect();
    for case in 0..60 {
        let mut bytes = whole.clone();
        let start = bytes.windows(11).position(|part| part == b"\"activity\":").unwrap();
        let place = start + (case * 7919) % activity;
        bytes[place] = [b'9', b'-', b'"', 0, 0xff][case % 5];
        cases.push(bytes);
    }
    for (number, bytes) in cases.iter().enumerate() {
        let output = gpumap(&["node"], &file("any", bytes));
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 2 | 3)), "case {number}: {output:?}");
        let document = document(&output);
        let is_bug = document["errors"].as_array().unwrap().iter().any(|error| error["code"] == "bug");
        assert!(!is_bug, "case {number}: {document}");
    }
}

/// Make sure that numbers as large as they can be are shown, and not computed with
/// until they overflow.
#[test]
fn largest_numbers() {
    fn raise(value: &mut Value) {
        match value {
            Value::Number(number) if number.as_u64().is_some_and(|number| number > 1_000) => {
                *value = u64::MAX.into();
            }
            Value::Array(all) => all.iter_mut().for_each(raise),
            Value::Object(all) => {
                let named = |name: &String| !matches!(name.as_str(), "start_time" | "pid" | "id" | "uid");
                all.iter_mut().filter(|(name, _)| named(name)).for_each(|(_, value)| raise(value));
            }
            _ => {}
        }
    }
    let state = kept("largest", |state| {
        for process in state["activity"]["sums"]["processes"].as_array_mut().unwrap() {
            for part in ["streams", "contexts"] {
                if let Some(all) = process.get_mut(part) {
                    all.as_array_mut().unwrap().iter_mut().for_each(raise);
                }
            }
        }
    });
    let document = document(&gpumap(&["node"], &state));
    assert!(document["activity"]["total"]["launches"].as_u64().is_some_and(|launches| launches > 1 << 60));
}

/// Make sure that `gpumap activity` shows a saved file, and refuses one without
/// counts and options that mean nothing there.
#[test]
fn shown() {
    let activity = |from: &str, further: &[&str]| {
        let mut gpumap = Command::new(env!("CARGO_BIN_EXE_gpumap"));
        gpumap.args(["--json", "--from"]).arg(node(from)).arg("activity").args(further);
        gpumap.stdin(Stdio::null()).output().unwrap()
    };
    let all = document(&activity("slurm-activity.json", &["-v"]));
    let processes = all["activity"]["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 4);
    assert_eq!(processes[0]["gpus"][0]["streams"].as_array().unwrap().len(), 2);
    let ended = processes.iter().find(|process| process["pid"] == 216).unwrap();
    assert!(ended["ended_at"].is_string());
    for (from, further) in [("slurm-jobs.json", vec![]), ("slurm-activity.json", vec!["--job", "1"])] {
        let output = activity(from, &further);
        assert_eq!(
            (output.status.code(), &document(&output)["errors"][0]["code"]),
            (Some(2), &"usage".into())
        );
    }
}
