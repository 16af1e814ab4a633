//! `gpumap audit` and `gpumap diff` of moments from outside: files, exit codes,
//! failing open.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn node(name: &str) -> String {
    format!("{}/fixtures/nodes/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

/// An empty directory of a test's own.
fn dir(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("audit-{name}"));
    let _absent = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn gpumap_with(args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
    command.args(args).env_remove("SLURM_JOB_ID").env_remove("CLICOLOR_FORCE").stdin(Stdio::null());
    command.envs(environment.iter().copied()).output().unwrap()
}

fn gpumap(args: &[&str]) -> Output {
    gpumap_with(args, &[])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Make sure that a report holds all that it takes to make the audit again, and
/// that behind a link the file is replaced and not the link.
#[test]
fn report_and_again() {
    let dir = dir("report");
    let (report, config, elsewhere) = (dir.join("audit.json"), dir.join("g.toml"), dir.join("elsewhere"));
    fs::write(&config, "[sharing]\nwhole_node = true\n").unwrap();
    fs::write(&elsewhere, "precious").unwrap();
    symlink(&elsewhere, &report).unwrap();
    let (from, report) = (node("slurm-runc-in-job"), report.to_str().unwrap());
    let options = ["--config", config.to_str().unwrap(), "--allocated", "/dev/nvidia0", "--report", report];
    let first = gpumap(&[&["--json", "--from", &from, "audit"], &options[..]].concat());
    assert!(fs::symlink_metadata(report).unwrap().is_symlink());
    assert_eq!(fs::symlink_metadata(&elsewhere).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 3);

    fs::remove_file(&config).unwrap();
    let again = gpumap(&["--json", "--from", report, "audit"]);
    assert_eq!((json(&first), first.status.code()), (json(&again), again.status.code()));
    assert_eq!(json(&again)["audit"]["options"]["config"]["text"], "[sharing]\nwhole_node = true\n");
    for command in ["node", "cgroup"] {
        let (a, b) = (gpumap(&["--from", &from, command]), gpumap(&["--from", report, command]));
        assert_eq!((text(&a.stdout), a.status.code()), (text(&b.stdout), b.status.code()));
    }
}

/// Make sure that against its own report an audit finds nothing new.
#[test]
fn baseline() {
    let report = dir("baseline").join("audit.json");
    let (from, report) = (node("slurm-runc-in-job"), report.to_str().unwrap());
    let first = json(&gpumap(&["--json", "--from", &from, "audit", "--report", report]));
    let found = first["findings"].as_array().unwrap().len();
    let again = json(&gpumap(&["--json", "--from", &from, "audit", "--baseline", report]));
    assert_eq!((&again["findings"], &again["audit"]["known"]), (&serde_json::json!([]), &found.into()));
    let other = json(&gpumap(&["--json", "--from", &node("slurm-4gpu"), "audit", "--baseline", report]));
    let fixed = other["audit"]["fixed"].as_array().map_or(0, Vec::len);
    assert_eq!(fixed + usize::try_from(other["audit"]["known"].as_u64().unwrap()).unwrap(), found);
    let bad = gpumap(&["--from", &from, "audit", "--baseline", &from]);
    assert_eq!(bad.status.code(), Some(2), "{}", text(&bad.stderr));
}

/// Make sure that a bad configuration is an error that names file and line.
#[test]
fn bad_configuration() {
    let config = dir("config").join("g.toml");
    let (from, path) = (node("slurm-4gpu"), config.to_str().unwrap());
    for (toml, why) in [
        ("[sharing]\nwhole_nodes = 1\n", "line 2: unknown field `whole_nodes`"),
        ("[severity]\nno-such-id = 'note'\n", "line 2: 'no-such-id': no such finding"),
        ("[[ignore]]\nid = 'x'\nreason = 'r'\nuntil = 'never'\n", "line 4: 'never' is not a date"),
    ] {
        fs::write(&config, toml).unwrap();
        let output = gpumap(&["--from", &from, "audit", "--config", path]);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            text(&output.stderr).starts_with(&format!("gpumap: {path}: {why}")),
            "{}",
            text(&output.stderr)
        );
    }
    let output = gpumap(&["--from", &from, "audit", "--config", "/no/such/file"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Make sure that the pages are there, and that a typing error is told with
/// what was meant.
#[test]
fn explaining() {
    let output = gpumap(&["audit", "--explain", "no-such-finding-at-all"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no such finding"), "{}", text(&output.stderr));
    let listed = json(&gpumap(&["audit", "--list", "--json"]));
    for kind in listed["kinds"].as_array().unwrap() {
        let id = kind["id"].as_str().unwrap();
        let page = gpumap(&["audit", "--explain", id]);
        assert_eq!(page.status.code(), Some(0));
        assert!(text(&page.stdout).lines().all(|line| line.chars().count() <= 80), "{}", text(&page.stdout));
        let close = gpumap(&["audit", "--explain", &format!("{id}x")]);
        assert!(text(&close.stderr).contains(id), "{}", text(&close.stderr));
        assert_eq!(json(&gpumap(&["audit", "--explain", id, "--json"]))["kinds"][0], *kind);
    }
}

/// Make sure that in a hook nothing that goes wrong with gpumap is a failure,
/// unless the hook asked for it.
#[test]
fn hooks_fail_open() {
    let job = [("SLURM_JOB_ID", "4711")];
    let absent = ["--cgroup-root", "/no/such/root"];
    let troubles = [
        (&[][..], &[][..]),
        (&["--config", "/no/such/file"], &job),
        (&["--report", "/no/such/dir/x.json"], &job),
        (&["--no-such-option"], &job),
        (&absent, &job),
    ];
    for (further, environment) in troubles {
        let args = [&["audit", "--from-env", "--timeout", "5s"], further].concat();
        let output = gpumap_with(&args, environment);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
        let strict = gpumap_with(&[&args[..], &["--fail-on", "critical"]].concat(), environment);
        assert_eq!(strict.status.code(), Some(2), "{args:?}");
    }
}

/// Make sure that Nagios always gets one line, and 3 for trouble.
#[test]
fn nagios() {
    let output = gpumap(&["--from", &node("slurm-4gpu"), "audit", "--nagios"]);
    let line = text(&output.stdout);
    assert!(line.starts_with("GPUMAP ") && line.contains("|critical="), "{line}");
    assert!(output.stderr.is_empty() && line.lines().count() == 1);
    for trouble in [
        &["audit", "--nagios", "--from", "/no/such|file"][..],
        &["audit", "--nagios", "--no-such-option"],
        &["audit", "--nagios", "--json"],
        &["audit", "--nagios", "--config", "/no/such/file"],
    ] {
        let output = gpumap(trouble);
        let line = text(&output.stdout);
        assert_eq!(output.status.code(), Some(3), "{trouble:?}: {line}");
        assert!(line.starts_with("GPUMAP UNKNOWN - ") && line.lines().count() == 1, "{line}");
        assert!(!line.contains('|'), "{line}");
    }
}

/// Make sure that a path narrows what is shown, and that it has to exist.
#[test]
fn paths() {
    let from = node("slurm-runc-in-job");
    let all = json(&gpumap(&["--json", "--from", &from, "audit"]));
    let root = json(&gpumap(&["--json", "--from", &from, "audit", "/"]));
    assert_eq!(all["audit"]["checked"], root["audit"]["checked"]);
    let top = "/system.slice/gpu01_slurmstepd.scope/job_1956130/container";
    let below = json(&gpumap(&["--json", "--from", &from, "audit", top]));
    for finding in below["findings"].as_array().unwrap() {
        assert!(all["findings"].as_array().unwrap().contains(finding));
    }
    let none = gpumap(&["--from", &from, "audit", "/no/such/cgroup"]);
    assert_eq!(none.status.code(), Some(2));
}

/// Make sure that a reload which cost a container its GPU reads as one line.
#[test]
fn moments() {
    let (before, after) = (node("systemd-before-reload"), node("systemd-reload"));
    let output = gpumap(&["diff", &before, &after]);
    let line = "unit container.scope lost nvidia0: program 1727 attached to /system.slice/container.scope";
    assert!(text(&output.stdout).lines().any(|it| it == line), "{}", text(&output.stdout));
    assert_eq!(output.status.code(), Some(1));
    let same = gpumap(&["diff", &before, &before]);
    assert_eq!(
        (same.status.code(), text(&same.stdout).lines().last()),
        (Some(0), Some("Nothing about device access changed."))
    );

    let mut changed: Value = serde_json::from_slice(&fs::read(node("slurm-4gpu")).unwrap()).unwrap();
    let is_job = |path: &Value| path.as_str().unwrap().contains("job_1956130");
    changed["cgroups"].as_array_mut().unwrap().retain(|it| !is_job(&it["path"]));
    changed["processes"].as_array_mut().unwrap().retain(|it| !is_job(&it["cgroup"]));
    let later = dir("moments").join("later.json");
    fs::write(&later, changed.to_string()).unwrap();
    let output = gpumap(&["--json", "diff", &node("slurm-4gpu"), later.to_str().unwrap()]);
    let diff = &json(&output)["diff"];
    assert_eq!((output.status.code(), &diff["equal"]), (Some(1), &false.into()), "{diff}");
    assert_eq!(diff["node"]["gone"][0]["owner"]["job_id"], 1956130);
    assert_eq!(diff["node"]["gone"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&diff["node"]["come"], &diff["node"]["policies"]),
        (&serde_json::json!([]), &serde_json::json!([]))
    );
}

/// Make sure that a report that cannot be written hides no finding, and is told
/// where there is none.
#[test]
fn unwritable_report() {
    let nagios = |name: &str| {
        let from = node(name);
        let output = gpumap(&["--from", &from, "audit", "--nagios", "--report", "/proc/none/report"]);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, line) = nagios("slurm-runc-in-job");
    assert!(code == Some(2) && line.starts_with("GPUMAP CRITICAL - dropped-denials"), "{line}");
    let (code, line) = nagios("slurm-4gpu");
    assert!(code == Some(3) && line.starts_with("GPUMAP UNKNOWN"), "{line}");
}
