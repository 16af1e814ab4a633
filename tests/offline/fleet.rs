//! `gpumap fleet` and `gpumap node --compact` from outside: reports over several
//! nodes in every form of input, exit codes, hostile and huge input.
//!
//! Expected texts lie in `fixtures/fleet`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use snapbox::data::DataFormat;
use snapbox::{Data, assert_data_eq};

use crate::support::fleet::{compact, named, with_jobs};

/// An empty directory of a test's own.
fn dir(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fleet-{name}"));
    let _absent = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn gpumap(args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
    command.args(args).env_remove("CLICOLOR_FORCE").stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdin, bytes) = (child.stdin.take().unwrap(), input.to_vec());
    let writer = std::thread::spawn(move || drop(stdin.write_all(&bytes)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn golden(actual: &str, name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/fleet").join(name);
    assert_data_eq!(actual, Data::read_from(&path, Some(DataFormat::Text)).raw());
}

/// What a command prints of a saved node.
fn answer(node: &Value, args: &[&str]) -> Vec<u8> {
    gpumap(&[&["--from", "-"], args].concat(), node.to_string().as_bytes()).stdout
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    packed_by(bytes, Compression::fast())
}

fn packed_by(bytes: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Nodes that differ as nodes do: the one has the GPUs of two jobs changed over and
/// an old kernel, one an older driver and another gres.conf, one could not be seen.
fn nodes() -> [Value; 5] {
    let mut swapped = named("gpu03").to_string();
    for (from, to) in [("4711", "471x"), ("4713", "4711"), ("471x", "4713"), ("6.18.44", "6.12.1")] {
        swapped = swapped.replace(from, to);
    }
    let mut old = named("gpu04");
    old["gpu_facts"]["files"]["/proc/driver/nvidia/version"] =
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build\n".into();
    old["slurm"]["gres_conf"]["text"] = "Name=gpu File=/dev/nvidia[0-3] Type=h200\n".into();
    old["taken_at"] = "2026-11-20T00:00:00Z".into();
    let mut blind = named("gpu05");
    blind["errors"] = serde_json::json!([
        { "code": "no-right", "what": "program 17", "why": "not allowed to open it", "needs": "CAP_SYS_ADMIN" },
        { "code": "no-right", "what": "program 18", "why": "not allowed to open it", "needs": "CAP_SYS_ADMIN" },
    ]);
    [named("gpu01"), named("gpu02"), serde_json::from_str(&swapped).unwrap(), old, blind]
}

/// A directory with a document of each form.
fn saved_nodes(name: &str) -> PathBuf {
    let dir = dir(name);
    let [one, two, three, four, five] = nodes();
    fs::write(dir.join("a.json"), one.to_string()).unwrap();
    fs::write(dir.join("two.json"), two.to_string()).unwrap();
    let report = dir.join("b.json");
    gpumap(
        &["--from", dir.join("two.json").to_str().unwrap(), "audit", "--report", report.to_str().unwrap()],
        b"",
    );
    fs::remove_file(dir.join("two.json")).unwrap();
    let pretty: Value = serde_json::from_slice(&answer(&three, &["node", "--json"])).unwrap();
    let both = [serde_json::to_vec_pretty(&pretty).unwrap(), answer(&three, &["audit", "--json"])].concat();
    fs::write(dir.join("c.json"), both).unwrap();
    let compact = answer(&four, &["node", "--json", "--compact"]);
    fs::create_dir(dir.join("below")).unwrap();
    fs::write(dir.join("below/d.json"), &compact).unwrap();
    fs::write(dir.join("e.json.gz"), packed(&answer(&five, &["node", "--json", "--compact"]))).unwrap();
    fs::write(dir.join(".f.json.tmp"), "half a docu").unwrap();
    dir
}

/// Make sure that every form of document is read, and that the report says what is
/// alike and what is not, in text and in JSON.
#[test]
fn report() {
    let dir = saved_nodes("report");
    let dir = dir.to_str().unwrap();
    let output = gpumap(&["fleet", dir, "--expect", "gpu[01-06]"], b"");
    golden(&format!("{}--\n{}", text(&output.stdout), text(&output.stderr)), "report.txt");
    // A job lacks a GPU on a node.
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(gpumap(&["fleet", dir, "--fail-on", "critical"], b"").status.code(), Some(3));
    assert_eq!(gpumap(&["fleet", dir, "--fail-on", "note"], b"").status.code(), Some(1));
    let output = gpumap(&["fleet", dir, "-v", "--fail-on", "never"], b"");
    golden(&format!("{}--\n{}", text(&output.stdout), text(&output.stderr)), "report-v.txt");
    assert_eq!(output.status.code(), Some(3));
    let mut document = json(&gpumap(&["fleet", dir, "--json"], b""));
    document["taken_at"] = "".into();
    golden(&format!("{}\n", serde_json::to_string_pretty(&document).unwrap()), "report.json");
}

/// Make sure that alike nodes without findings are clean.
#[test]
fn clean() {
    let all: Vec<u8> =
        (1..4).flat_map(|node| compact(node, 3, "2026-11-23T01:00:00Z").into_bytes()).collect();
    let output = gpumap(&["fleet", "-", "--expect", "gpu[00001-00003]"], &all);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    golden(&text(&output.stdout), "clean.txt");
    let output = gpumap(&["fleet", "-", "--json"], b"");
    assert_eq!((output.status.code(), &json(&output)["complete"]), (Some(3), &Value::Bool(false)));
}

/// Make sure that findings of a former report are left out, and new ones are not.
#[test]
fn baseline() {
    let dir = saved_nodes("baseline");
    let former = dir.join("former");
    let inputs = dir.to_str().unwrap().to_owned();
    let report = gpumap(&["fleet", &inputs, "--json"], b"");
    let outside = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fleet-former.json");
    fs::write(&outside, &report.stdout).unwrap();
    let with = ["--baseline", outside.to_str().unwrap(), "--json"];
    let now = json(&gpumap(&[&["fleet", &inputs], &with[..]].concat(), b""));
    let was = json(&report);
    assert!(was["fleet"]["findings"].as_array().is_some_and(|all| !all.is_empty()));
    assert_eq!((&now["fleet"]["findings"], &now["fleet"]["failed"]), (&serde_json::json!([]), &false.into()));
    assert_eq!(now["fleet"]["fingerprints"], was["fleet"]["fingerprints"]);
    let refused = gpumap(&["fleet", &inputs, "--baseline", dir.join("a.json").to_str().unwrap()], b"");
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("gpumap fleet --json > FILE") && !former.exists());
}

/// Make sure that labelled lines in pieces, as srun writes them, give what whole
/// files give.
#[test]
fn labelled() {
    let documents: Vec<String> = (0..4).map(|node| compact(node, 9, "2026-11-23T01:00:00Z")).collect();
    let whole = json(&gpumap(&["fleet", "-", "--json"], documents.concat().as_bytes()));
    let mut pieces: Vec<_> = documents.iter().map(|text| text.trim().as_bytes().chunks(1000)).collect();
    let mut lines = Vec::new();
    while pieces.iter().any(|left| left.len() > 0) {
        for (label, left) in pieces.iter_mut().enumerate() {
            if let Some(piece) = left.next() {
                lines.extend_from_slice(format!("{label:>2}: ").as_bytes());
                lines.extend_from_slice(piece);
                lines.push(b'\n');
            }
        }
    }
    let joined = json(&gpumap(&["fleet", "-", "--json"], &lines));
    assert_eq!((&joined["fleet"], &joined["errors"]), (&whole["fleet"], &whole["errors"]));
    assert_eq!(joined["fleet"]["nodes"]["answered"]["nodes"], "gpu[00000-00003]");
    let cut = &lines[..lines.len() - 700];
    let cut = gpumap(&["fleet", "-", "-v"], cut);
    assert_eq!(cut.status.code(), Some(3));
    assert!(text(&cut.stderr).contains("label 3, line 4: it is cut off"), "{}", text(&cut.stderr));
}

/// Make sure that a node of 50 jobs takes less than 20 KiB, and says of each job what
/// the whole answer says.
#[test]
fn compact_is_small() {
    let node = with_jobs(named("gpu01"), 50);
    let (short, long) = (answer(&node, &["node", "--json", "--compact"]), answer(&node, &["node", "--json"]));
    assert!(short.len() < 20 << 10, "{} bytes of {}", short.len(), long.len());
    let (short, long): (Value, Value) =
        (serde_json::from_slice(&short).unwrap(), serde_json::from_slice(&long).unwrap());
    assert_eq!(short["complete"], long["complete"]);
    let columns = &short["compact"]["owners"];
    let rows: Vec<&Value> = long["owners"].as_array().unwrap().iter().collect();
    let jobs =
        columns["owner"].as_array().unwrap().iter().filter(|it| it.as_str().unwrap().contains(" job "));
    assert_eq!(jobs.count(), 50);
    let kept: Vec<&&Value> = rows.iter().filter(|row| row["owner"]["job_id"].is_u64()).collect();
    let keys: Vec<&str> =
        short["compact"]["gpus"].as_array().unwrap().iter().map(|gpu| gpu["key"].as_str().unwrap()).collect();
    let set = |mask: &Value| -> Vec<&str> {
        let bits = u64::from_str_radix(mask.as_str().unwrap().trim_start_matches('~'), 16).unwrap();
        (0..keys.len()).filter(|bit| bits & (1 << bit) != 0).map(|bit| keys[bit]).collect()
    };
    for (index, row) in kept.iter().enumerate() {
        assert_eq!(columns["depth"][index], row["depth"]);
        for (column, of) in
            [("allowed", "allowed"), ("asked", "visible"), ("held", "held"), ("allocated", "allocated")]
        {
            if !columns[column][index].is_null() {
                let found: Vec<&str> =
                    row[of]["gpus"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
                assert_eq!(set(&columns[column][index]), found, "{column} of row {index}");
            } else {
                assert!(row[of]["gpus"].is_null());
            }
        }
    }
    let table = gpumap(&["--from", "-", "node", "--compact"], node.to_string().as_bytes());
    assert_eq!(table.status.code(), Some(2));
}

/// Make sure that hostile documents harm nobody: no control reaches the terminal,
/// every problem has its file and line, and the good node is in the report.
#[test]
fn hostile() {
    let dir = dir("hostile");
    let good = compact(7, 2, "2026-11-23T01:00:00Z");
    let bad = [
        ("name.json", good.replace("gpu00007", "\\u001b[2Jgpu")),
        ("bidi.json", good.replace("6.18.44", "6\\u202e.18")),
        ("cut.json", good[..good.len() / 2].to_owned()),
        ("deep.json", format!("{{\"schema\":\"gpumap/1\",\"gpus\":{}", "[{\"a\":".repeat(100_000))),
        ("lines.json", "\u{1b}[31mnot JSON\n".repeat(1000)),
        (
            "owners.json",
            format!(
                "{{\"schema\":\"gpumap/1\",\"command\":\"node\",\"owners\":[{}]}}",
                vec!["{}"; 70_000].join(",")
            ),
        ),
        ("fleet.json", "{\"schema\":\"gpumap/1\",\"command\":\"fleet\",\"fleet\":{}}".to_owned()),
        ("bomb.gz", String::new()),
        ("half.gz", String::new()),
    ];
    for (name, text) in &bad {
        fs::write(dir.join(name), text).unwrap();
    }
    fs::write(dir.join("bomb.gz"), packed(&vec![b'{'; 300 << 20])).unwrap();
    let half = packed(good.as_bytes());
    fs::write(dir.join("half.gz"), &half[..half.len() / 2]).unwrap();
    let output = gpumap(&["fleet", dir.to_str().unwrap(), "-v"], b"");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{out}{err}");
    let hidden = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
    assert!(!out.contains(hidden) && !err.contains(hidden), "{out}{err}");
    for (name, _) in bad.iter().filter(|(name, _)| *name != "bidi.json") {
        assert!(err.contains(name), "{name}: {err}");
    }
    assert!(out.contains("gpu00007 answered"), "{out}");
    assert!(err.lines().count() < 20 && err.contains("997 more lines are no document"), "{err}");
    let missing = gpumap(&["fleet", dir.join("nothing").to_str().unwrap()], b"");
    assert_eq!(missing.status.code(), Some(2));
}

/// What `fleet -` says of these bytes with so much address space.
fn limited(kib: usize, args: &str, input: &[u8]) -> Output {
    let mut command = Command::new("sh");
    let fleet = format!("ulimit -v {kib}; exec \"$0\" fleet - {args}");
    let mut child = command
        .args(["-c", &fleet, env!("CARGO_BIN_EXE_gpumap")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdin, bytes) = (child.stdin.take().unwrap(), input.to_vec());
    let writer = std::thread::spawn(move || drop(stdin.write_all(&bytes)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// Make sure that a small file that unpacks to much is refused by all who read saved nodes.
#[test]
fn saved_nodes_are_weighed() {
    let path = std::env::temp_dir().join(format!("gpumap-weighed-{}.json.gz", std::process::id()));
    let rows = format!(r#"{{"schema":"gpumap.observation/1","processes":[{}{{}}]}}"#, "{},".repeat(1 << 20));
    for (bytes, why) in
        [(rows.as_bytes(), "more parts than an observation"), (&vec![b' '; 64 << 20], "400 times its size")]
    {
        fs::write(&path, packed_by(bytes, Compression::best())).unwrap();
        let output = gpumap(&["--from", path.to_str().unwrap(), "node"], b"");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(why), "{said}");
    }
    fs::remove_file(&path).unwrap();
}

/// Make sure that a document that would take many times its size is refused, and takes no
/// other node's answer with it: values in the place of words, sets of a thousand models,
/// rows of three bytes, tables of many GPUs by many cgroups.
#[test]
fn bombs() {
    let good = compact(7, 2, "2026-11-23T01:00:00Z");
    let zeros = "0,".repeat(16 << 20);
    let head = "\"taken_at\":\"2026-11-23T01:00:00Z\",\"host\":{\"name\":\"n1\",\"kernel\":\"6\",\"boot_id\":\"\",\"cgroup_root\":\"/\",\"cgroup_mode\":\"unified\"}";
    let node = format!("{{\"schema\":\"gpumap/1\",\"command\":\"node\",{head}");
    let observation = format!("{{\"schema\":\"gpumap.observation/1\",\"version\":\"0\",{head}");
    let gpus: Vec<String> =
        (0..1024).map(|at| format!("{{\"key\":\"{at}\",\"model\":\"{at:0>190}\"}}")).collect();
    let masks: Vec<String> = (0..50_000).map(|at| format!("\"{:0>256}\"", format!("{at:x}{at:x}"))).collect();
    let columns = |text: &str| vec![text; masks.len()].join(",");
    let models = format!(
        "{node},\"compact\":{{\"gpus\":[{}],\"owners\":{{\"owner\":[{}],\"depth\":[{}],\"allocated\":[{}],\"allowed\":[{}]}}}}}}",
        gpus.join(","),
        columns("\"slurm job 7\""),
        columns("0"),
        columns("null"),
        masks.join(",")
    );
    let mut table = named("n1");
    let (row, gate) = (
        table["cgroups"][1].clone(),
        serde_json::json!({ "path": "/dev/nvidia77", "type": "char", "major": 195, "minor": 77, "mode": 438, "uid": 0, "gid": 0 }),
    );
    table["cgroups"].as_array_mut().unwrap().extend(vec![row; 8000]);
    table["gpu_facts"]["nodes"].as_array_mut().unwrap().extend(vec![gate; 1400]);
    for (bomb, why) in [
        (format!("{node},\"owners\":[{{\"owner\":{{\"kind\":[{zeros}0]}}}}]}}"), "expected a word"),
        (format!("{observation},\"own_cgroup\":[{zeros}0]}}"), "more parts than"),
        (format!("{observation},\"users\":[{}{{}}]}}", "{},".repeat(10 << 20)), "more parts than"),
        (models, "more GPUs and owners than any node"),
        (table.to_string(), "device nodes are too many; give fleet the node's own answers"),
    ] {
        let output = limited(450 << 10, "-v", format!("{bomb}\n{good}").as_bytes());
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(3), "{out}{err}");
        assert!(out.contains("gpu00007 answered") && err.contains(why), "{why}: {out}{err}");
    }
}

/// Make sure that a page is made of what is read once: of a pipe, whose answers stand in the
/// sections of their own nodes.
#[test]
fn page_of_a_pipe() {
    let dir = dir("page");
    let (pipe, page) = (dir.join("answers"), dir.join("page.html"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let full: Vec<Vec<u8>> =
        ["gpu01", "gpu02"].iter().map(|name| answer(&named(name), &["node", "--json"])).collect();
    let broken = text(&full[1]).replacen("\"held\":{", "\"held\":{\"unknown\":7,", 1);
    let all = [&full[0], broken.as_bytes(), compact(3, 1, "2026-11-23T01:00:00Z").as_bytes()].concat();
    let (into, writer) = (pipe.clone(), all.clone());
    let writer = std::thread::spawn(move || fs::write(into, writer).unwrap());
    let output = gpumap(&["fleet", pipe.to_str().unwrap(), "--html", page.to_str().unwrap()], b"");
    writer.join().unwrap();
    let html = fs::read_to_string(&page).unwrap();
    let plain = gpumap(&["fleet", "-", "--html", page.to_str().unwrap()], &all);
    assert_eq!((output.status.code(), &output.stdout), (plain.status.code(), &plain.stdout));
    assert_eq!(html, fs::read_to_string(&page).unwrap());
    assert_eq!(
        html.matches("gpumap cannot read the sets of its owners in its document").count(),
        1,
        "{html}"
    );
}

/// Make sure that a document is read whatever an editor or a shell of another system wrote
/// before it or at its end.
#[test]
fn marks_and_line_ends() {
    let good = compact(7, 2, "2026-11-23T01:00:00Z");
    for document in [
        format!("\u{feff}{good}"),
        good.replace('\n', "\r\n"),
        format!("\u{feff}0: {}", good.replace('\n', "\r\n")),
        format!("gpu00007: \u{feff}{good}"),
        format!(
            "\u{feff}{}",
            serde_json::to_string_pretty(&serde_json::from_str::<Value>(&good).unwrap()).unwrap()
        )
        .replace('\n', "\r\n"),
    ] {
        let output = gpumap(&["fleet", "-"], document.as_bytes());
        assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    }
}

/// Make sure that a file of one node that says that it is another one is told, makes
/// the answer incomplete, and does not replace the other one's.
#[test]
fn impostors() {
    let dir = dir("impostors");
    let (one, two) = (compact(1, 2, "2026-11-23T01:00:00Z"), compact(2, 2, "2026-11-23T01:00:00Z"));
    let lie = compact(2, 2, "2026-11-23T02:00:00Z").replace("6.18.44", "6.66");
    fs::write(dir.join("gpu00001.json"), format!("{one}{lie}")).unwrap();
    fs::write(dir.join("gpu00002.json"), two).unwrap();
    let output = gpumap(&["fleet", dir.to_str().unwrap()], b"");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{out}{err}");
    assert!(err.contains("gpu00001: what came under this name says that it is gpu00002"), "{err}");
    assert!(out.contains("gpu[00001-00002]") && !out.contains("6.66"), "{out}");
}

/// Make sure that a node that only says that it is another one replaces nothing of that
/// node's, however new its answer is; that several files of one node are a problem; and that
/// a date in the future is told and wins over nothing.
#[test]
fn liars() {
    let dir = dir("liars");
    let truth = compact(2, 2, "2026-11-23T01:00:00Z");
    let lie = compact(2, 2, "2026-11-23T02:00:00Z").replace("6.18.44", "6.66");
    fs::write(dir.join("gpu00001.json"), compact(1, 2, "2026-11-23T01:00:00Z")).unwrap();
    fs::write(dir.join("gpu00002.json"), &truth).unwrap();
    fs::write(dir.join("taken-over.json"), &lie).unwrap();
    let of = |dir: &Path| {
        let output = gpumap(&["fleet", dir.to_str().unwrap()], b"");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, err) = of(&dir);
    assert_eq!(code, Some(3), "{out}{err}");
    assert!(err.contains("gpu00002: several files or labels say that they are this node"), "{err}");
    assert!(err.contains("what came under its own name counts") && !out.contains("6.66"), "{out}{err}");

    // Neither has the node's name.
    fs::rename(dir.join("gpu00002.json"), dir.join("monday.json")).unwrap();
    let (code, out, err) = of(&dir);
    assert!(code == Some(3) && err.contains("the newest counts") && out.contains("6.66"), "{out}{err}");

    let late = compact(2, 2, "2999-01-01T00:00:00Z").replace("6.18.44", "6.77");
    fs::remove_file(dir.join("taken-over.json")).unwrap();
    fs::remove_file(dir.join("monday.json")).unwrap();
    fs::write(dir.join("gpu00002.json"), format!("{truth}{late}")).unwrap();
    let (code, out, err) = of(&dir);
    assert!(code == Some(3) && err.contains("in the future"), "{out}{err}");
    assert!(!out.contains("6.77"), "{out}");
}

/// Make sure that what is passed over in a directory is named.
#[test]
fn passed_over() {
    let dir = dir("passed-over");
    fs::write(dir.join("gpu00002.json"), compact(2, 2, "2026-11-23T01:00:00Z")).unwrap();
    std::os::unix::fs::symlink("gpu00002.json", dir.join("gpu00003.json")).unwrap();
    nix::unistd::mkfifo(&dir.join("gpu00004.json"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    let output = gpumap(&["fleet", dir.to_str().unwrap()], b"");
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.contains("gpu00003.json: a symbolic link") && err.contains("gpu00004.json: a FIFO"), "{err}");
}

/// Runs `fleet -` of this gpumap with so much address space, and gives it `count`
/// documents of `nodes` nodes in turn.
fn streamed(program: &str, kib: usize, nodes: usize, count: usize) -> Value {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {kib}; exec \"$0\" fleet - --json"), program]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let documents: Vec<String> = (0..nodes.min(count))
        .map(|node| compact(node, 50, &format!("2026-11-23T01:{:02}:{:02}Z", node / 60 % 60, node % 60)))
        .collect();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        for index in 0..count {
            stdin.write_all(documents[index % documents.len()].as_bytes()).unwrap();
        }
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    json(&output)
}

/// Make sure that memory does not grow with what is read: 30 MB of documents of few
/// nodes in little more memory than the program takes by itself.
#[test]
fn memory_is_bounded() {
    let document = streamed(env!("CARGO_BIN_EXE_gpumap"), 200 << 10, 50, 2000);
    assert_eq!(
        (&document["fleet"]["documents"], &document["fleet"]["jobs"]["all"]),
        (&2000.into(), &650.into())
    );
    assert_eq!(document["fleet"]["jobs"]["differing"], serde_json::json!([]));
}

/// Make sure that a gigabyte is read in the same memory, and ten thousand nodes of
/// 50 jobs in 300 MiB: by this build, or by the one that `GPUMAP_TEST_OPTIMISED` names.
#[test]
#[ignore = "takes minutes without optimisation"]
fn a_gigabyte() {
    let program = std::env::var("GPUMAP_TEST_OPTIMISED");
    let program = program.as_deref().unwrap_or(env!("CARGO_BIN_EXE_gpumap"));
    let size = compact(0, 50, "2026-11-23T01:00:00Z").len();
    let count = (1 << 30) / size;
    let began = std::time::Instant::now();
    assert_eq!(streamed(program, 200 << 10, 50, count)["fleet"]["documents"], count);
    println!("a gigabyte took {:?}", began.elapsed());
    let began = std::time::Instant::now();
    let document = streamed(program, 300 << 10, 10_000, 10_000);
    assert_eq!(document["fleet"]["nodes"]["answered"]["count"], 10_000);
    println!("10,000 nodes took {:?}", began.elapsed());
}

/// Make sure that one question to a node gives its jobs and its findings, and that findings
/// alone are asked for with the rest.
#[test]
fn one_question() {
    let saved = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/audit/dropped-denials/trigger.json");
    let asked = gpumap(&["--from", saved, "node", "--json", "--compact", "--audit"], b"");
    let node = json(&asked);
    assert!(node["compact"].is_object() && node["findings"][0]["id"] == "dropped-denials", "{node}");
    assert_ne!(asked.status.code(), Some(1), "a finding is no failure of the question");
    let report = gpumap(&["fleet", "-"], &asked.stdout);
    let said = text(&report.stdout);
    assert!(said.contains("dropped-denials") && !said.contains("audited"), "{said}{}", text(&report.stderr));
    assert_eq!(report.status.code(), Some(1));
    let alone = gpumap(&["--from", saved, "node", "--json", "--audit"], b"");
    assert_eq!(alone.status.code(), Some(2));
}
