//! Containers of a real runc under a real systemd lose a device, and the line that
//! `gpumap repair` prints gives it back (root, systemd, runc, busybox).

use std::os::unix::process::CommandExt as _;

use crate::support::container::{Bundle, pretend_memlock};
use crate::support::systemd::{Systemd, with_systemd};
use serde_json::{Value, json};

const CGROUP: &str = "/system.slice/gpu-story.scope";

/// What a container with one GPU is given.
fn rules() -> Value {
    let rule = |major: u32, minor: u32| json!({ "allow": true, "type": "c", "major": major, "minor": minor, "access": "rw" });
    json!([{ "allow": false, "access": "rwm" }, rule(195, 0), rule(195, 255)])
}

/// Starts a container in a scope of systemd's.
fn start(systemd: &Systemd, runtime: &str) {
    let mut bundle = Bundle::sleeping(&rules());
    bundle.cgroup = "system.slice:gpu:story".to_owned();
    bundle.write(&systemd.work().join("bundle"));
    for (name, minor) in [("nvidia0", "0"), ("nvidia1", "1"), ("nvidiactl", "255")] {
        systemd.run("mknod", &["-m", "666", &format!("/dev/{name}"), "c", "195", minor]);
    }
    let args =
        ["--root", "/run/story", "--systemd-cgroup", "run", "-d", "--bundle", "/mnt/test/bundle", "story"];
    let mut command = systemd.command(runtime);
    command.args(args);
    command.stdout(std::process::Stdio::null()).stderr(log(systemd));
    // SAFETY: the closure makes one system call on constant memory.
    unsafe { command.pre_exec(pretend_memlock) };
    let output = command.status();
    let said = || std::fs::read_to_string(systemd.work().join("log/runtime")).unwrap_or_default();
    assert!(output.expect("a runtime").success(), "{}", said());
}

fn log(systemd: &Systemd) -> std::fs::File {
    std::fs::File::create(systemd.work().join("log/runtime")).expect("a log")
}

/// Whether the kernel lets a process of a cgroup open a node for reading and for
/// writing.
fn may_open(systemd: &Systemd, cgroup: &str, node: &str) -> bool {
    let script =
        format!("echo $$ >/sys/fs/cgroup{cgroup}/cgroup.procs || exit 9; test -r {node} && test -w {node}");
    let status = systemd.command("sh").args(["-c", &script]).status().expect("sh");
    assert!(matches!(status.code(), Some(0 | 1)), "{status}");
    status.success()
}

/// What gpumap says, with its exit status.
fn repair(systemd: &Systemd, args: &[&str]) -> (Value, i32) {
    let output = systemd.command("gpumap").args(["--json", "repair"]).args(args).output().expect("gpumap");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (document["repair"].clone(), output.status.code().expect("a status"))
}

/// Runs the line of the only step as a shell takes it.
fn run_line(systemd: &Systemd, plan: &Value) {
    let steps = plan["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 1, "{plan:#}");
    systemd.run("sh", &["-c", steps[0]["line"].as_str().expect("a line")]);
}

fn programs(systemd: &Systemd) -> Vec<String> {
    let output = systemd.run("gpumap", &["--json", "cgroup", CGROUP]);
    let document: Value = serde_json::from_str(&output).expect("JSON");
    let writers = document["programs"].as_object().expect("programs").values();
    let mut writers: Vec<String> = writers.map(|program| program["writer"].to_string()).collect();
    writers.sort();
    writers
}

/// The policies of all other cgroups.
fn others(systemd: &Systemd) -> Vec<(Value, Value)> {
    let output = systemd.run("gpumap", &["--json", "cgroup", "-r", "/"]);
    let document: Value = serde_json::from_str(&output).expect("JSON");
    let cgroups = document["cgroups"].as_array().expect("cgroups").iter();
    cgroups
        .filter(|cgroup| cgroup["path"] != CGROUP)
        .map(|cgroup| (cgroup["path"].clone(), cgroup["policy"].clone()))
        .collect()
}

/// Loses the GPU, repairs it by the line, and makes sure that it stays.
fn story(lose: impl Fn(&Systemd)) {
    with_systemd(&[], |systemd| {
        start(systemd, "runc");
        assert!(may_open(systemd, CGROUP, "/dev/nvidia0"));
        let (whole, status) = repair(systemd, &["--cgroup", CGROUP]);
        assert_eq!((&whole["state"], status), (&json!("nothing-missing"), 0), "{whole:#}");
        lose(systemd);
        assert!(!may_open(systemd, CGROUP, "/dev/nvidia0"), "nothing was lost");
        assert_eq!(programs(systemd), ["\"runc or youki\"", "\"systemd\""]);

        let before = others(systemd);
        let (plan, status) = repair(systemd, &["--cgroup", CGROUP]);
        assert_eq!((&plan["state"], status), (&json!("missing"), 1), "{plan:#}");
        assert_eq!(plan["denied_by"].as_array().expect("a list").len(), 1, "{plan:#}");
        assert_eq!(plan["denied_by"][0]["writer"], "systemd", "{plan:#}");
        assert_eq!(plan["remaining"], json!([]), "{plan:#}");
        assert!(!may_open(systemd, CGROUP, "/dev/nvidia0"), "the plan alone changed something");
        run_line(systemd, &plan);

        assert!(may_open(systemd, CGROUP, "/dev/nvidia0"));
        assert!(may_open(systemd, CGROUP, "/dev/nvidiactl"));
        assert!(!may_open(systemd, CGROUP, "/dev/nvidia1"), "another GPU was given");
        let (after, status) = repair(systemd, &["--cgroup", CGROUP]);
        assert_eq!((&after["state"], status), (&json!("nothing-missing"), 0), "{after:#}");
        assert_eq!(others(systemd), before, "another cgroup has another policy");
        for _ in 0..40 {
            systemd.run("systemctl", &["daemon-reload"]);
            assert!(may_open(systemd, CGROUP, "/dev/nvidia0"), "a reload took it again");
        }
        assert!(!may_open(systemd, CGROUP, "/dev/nvidia1"));
        // What it says would undo it does.
        let undo = plan["steps"][0]["undo"].as_str().expect("a line");
        systemd.run("sh", &["-c", undo]);
        assert!(!may_open(systemd, CGROUP, "/dev/nvidia0"), "{undo}");
    });
}

/// Ids of the programs in force on the container.
fn ids(systemd: &Systemd) -> Value {
    let output = systemd.run("gpumap", &["--json", "cgroup", CGROUP]);
    let document: Value = serde_json::from_str(&output).expect("JSON");
    document["cgroups"][0]["programs"].clone()
}

fn undo(systemd: &Systemd, journal: &Value) -> (Value, i32) {
    let journal = journal.as_str().expect("a path");
    let output = systemd.command("gpumap").args(["--json", "repair", "--undo", journal]).output();
    let output = output.expect("gpumap");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (document["journals"][0].clone(), output.status.code().expect("a status"))
}

/// Loses the GPU, repairs it directly, takes that back; does it again, and lets systemd
/// reload: the orphan is told and taken away, and the lasting line works as ever.
fn direct_story(lose: impl Fn(&Systemd)) {
    with_systemd(&[], |systemd| {
        start(systemd, "runc");
        lose(systemd);
        assert!(!may_open(systemd, CGROUP, "/dev/nvidia0"), "nothing was lost");
        let (before, lost) = (others(systemd), ids(systemd));
        let (refused, status) = repair(systemd, &["--cgroup", CGROUP, "--apply"]);
        assert_eq!((&refused["applied"], status), (&Value::Null, 1), "{refused:#}");
        assert_eq!(ids(systemd), lost, "without --direct the owner's command is the plan");

        let apply = || {
            let (done, status) = repair(systemd, &["--cgroup", CGROUP, "--direct", "--apply"]);
            assert_eq!((&done["state"], status), (&json!("nothing-missing"), 0), "{done:#}");
            assert!(done["applied"]["asked"].as_u64().is_some_and(|asked| asked >= 3), "{done:#}");
            assert!(may_open(systemd, CGROUP, "/dev/nvidia0"));
            assert!(may_open(systemd, CGROUP, "/dev/nvidiactl"));
            assert!(!may_open(systemd, CGROUP, "/dev/nvidia1"), "another GPU was given");
            assert_eq!(others(systemd), before, "another cgroup has another policy");
            done["applied"]["journal"].clone()
        };
        let journal = apply();
        let (undone, status) = undo(systemd, &journal);
        assert_eq!((&undone["state"], status), (&json!("not-in-force"), 0), "{undone:#}");
        assert_eq!(ids(systemd), lost, "the same programs are back");
        assert!(!may_open(systemd, CGROUP, "/dev/nvidia0"));

        let journal = apply();
        systemd.run("systemctl", &["daemon-reload"]);
        assert!(!may_open(systemd, CGROUP, "/dev/nvidia0"), "systemd has made its program again");
        let list = systemd.run("gpumap", &["--json", "repair", "--list"]);
        let list: Value = serde_json::from_str(&list).expect("JSON");
        assert_eq!(list["journals"][0]["state"], "overtaken", "{list:#}");
        let (undone, status) = undo(systemd, &journal);
        assert_eq!(status, 0, "{undone:#}");
        assert!(undone["because"].as_str().is_some_and(|why| why.contains("taken away")), "{undone:#}");
        assert_eq!(programs(systemd), ["\"runc or youki\"", "\"systemd\""]);
        assert_eq!(others(systemd), before);

        let (plan, _) = repair(systemd, &["--cgroup", CGROUP]);
        run_line(systemd, &plan);
        systemd.run("systemctl", &["daemon-reload"]);
        assert!(may_open(systemd, CGROUP, "/dev/nvidia0"));
        let journal = systemd.run("journalctl", &["--no-pager", "-o", "cat", "-t", "gpumap"]);
        for step in
            ["about to be replaced", "was replaced by", "are as planned", "is asked for", "taken away"]
        {
            assert!(journal.contains(step), "{step}: {journal}");
        }
    });
}

/// Make sure that a watch tells a repair that a reload undid in one event, and a further
/// reload, which changes nothing, in none; that the audit tells what is left; and that
/// the audit's own line takes it away.
#[test]
fn a_watch_tells_what_a_reload_undid() {
    with_systemd(&[], |systemd| {
        start(systemd, "runc");
        systemd.run("systemctl", &["daemon-reload"]);
        let lost = programs(systemd);
        let (done, status) = repair(systemd, &["--cgroup", CGROUP, "--direct", "--apply"]);
        assert_eq!(status, 0, "{done:#}");
        let ours = &done["applied"]["program"];
        let unit = "watcher.service";
        systemd.run("systemd-run", &["--unit", unit, "gpumap", "watch", "--json"]);
        systemd.wait_for(unit, |event| event["event"] == "start");
        systemd.run("systemctl", &["daemon-reload"]);
        let event = systemd.wait_for(unit, |event| !event["policy"]["repair_undone"].is_null());
        assert_eq!(
            (&event["policy"]["repair_undone"], &event["cgroup"]),
            (ours, &json!(CGROUP)),
            "{event:#}"
        );
        assert_eq!(event["policy"]["attached"][0]["writer"], "systemd", "{event:#}");
        assert!(!may_open(systemd, CGROUP, "/dev/nvidia0"));

        systemd.run("systemctl", &["daemon-reload"]);
        // A change that comes later is told later.
        systemd.run("systemd-run", &["--unit=closed", "-p", "DevicePolicy=closed", "sleep", "600"]);
        systemd.wait_for(unit, |event| event["cgroup"] == "/system.slice/closed.service");
        let journal = systemd.journal(unit);
        let events: Vec<Value> = journal.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let undone = events.iter().filter(|event| !event["policy"]["repair_undone"].is_null());
        assert_eq!(undone.count(), 1, "{journal}");

        let output = systemd.command("gpumap").args(["--json", "audit"]).output().expect("gpumap");
        let audit: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let findings = audit["findings"].as_array().expect("findings").iter();
        let orphans: Vec<&Value> = findings.filter(|found| found["id"] == "repair-orphan").collect();
        assert_eq!(orphans.len(), 1, "{audit:#}");
        systemd.run("sh", &["-c", orphans[0]["command"].as_str().expect("a line")]);
        assert_eq!(programs(systemd), lost);
    });
}

/// Make sure that a limit which somebody sets on purpose is not taken back, with both
/// times as the reason, and that a GPU that a reload took before is.
#[test]
fn a_limit_is_set_on_purpose() {
    with_systemd(&[], |systemd| {
        start(systemd, "runc");
        let scope = "gpu-story.scope";
        // Times are told in whole seconds.
        std::thread::sleep(std::time::Duration::from_secs(4));
        systemd.run("systemctl", &["daemon-reload"]);
        let (plan, _) = repair(systemd, &["--cgroup", CGROUP]);
        assert_eq!(plan["steps"].as_array().expect("steps").len(), 1, "{plan:#}");
        systemd.run("systemctl", &["set-property", "--runtime", scope, "DeviceAllow=/dev/null rw"]);
        let (plan, status) = repair(systemd, &["--cgroup", CGROUP]);
        assert_eq!((&plan["state"], &plan["steps"], status), (&json!("missing"), &json!([]), 1), "{plan:#}");
        let why = plan["refusals"].to_string();
        assert!(why.contains("which somebody set since") && why.contains("as of"), "{why}");
        let (refused, _) = repair(systemd, &["--cgroup", CGROUP, "--direct", "--apply"]);
        assert!(refused["applied"].is_null() && !may_open(systemd, CGROUP, "/dev/nvidia0"), "{refused:#}");
        let (plan, _) =
            repair(systemd, &["--cgroup", CGROUP, "--allow", "/dev/nvidia0", "--allow", "/dev/nvidiactl"]);
        run_line(systemd, &plan);
        assert!(may_open(systemd, CGROUP, "/dev/nvidia0"));
    });
}

/// Make sure that a GPU that a reload took comes back directly, and goes again.
#[test]
fn a_reload_repaired_directly() {
    direct_story(|systemd| drop(systemd.run("systemctl", &["daemon-reload"])));
}

/// Make sure that the same holds after an update by the runtime.
#[test]
fn an_update_repaired_directly() {
    direct_story(|systemd| {
        let args = ["--root", "/run/story", "--systemd-cgroup", "update", "--pids-limit", "100", "story"];
        let _ = systemd.command("runc").args(args).output().expect("runc");
    });
}

#[test]
fn a_reload_takes_the_gpu() {
    story(|systemd| drop(systemd.run("systemctl", &["daemon-reload"])));
}

/// Make sure that the same holds where the runtime itself changes another property of
/// the unit. The limit of processes cannot be set here, where the controller is not
/// one of cgroup2; the property is set all the same.
#[test]
fn an_update_takes_the_gpu() {
    story(|systemd| {
        let args = ["--root", "/run/story", "--systemd-cgroup", "update", "--pids-limit", "100", "story"];
        let _ = systemd.command("runc").args(args).output().expect("runc");
    });
}

/// Make sure that the line of --prevent, run before, makes reloads harmless.
#[test]
fn a_reload_is_made_harmless() {
    with_systemd(&[], |systemd| {
        start(systemd, "runc");
        let (plan, status) = repair(systemd, &["--cgroup", CGROUP, "--prevent"]);
        assert_eq!((&plan["state"], status), (&json!("missing"), 1), "{plan:#}");
        run_line(systemd, &plan);
        assert!(may_open(systemd, CGROUP, "/dev/nvidia0"));
        let (plan, status) = repair(systemd, &["--cgroup", CGROUP, "--prevent"]);
        assert_eq!((&plan["state"], status), (&json!("nothing-missing"), 0), "{plan:#}");
        for _ in 0..10 {
            systemd.run("systemctl", &["daemon-reload"]);
            assert!(may_open(systemd, CGROUP, "/dev/nvidia0"));
        }
        assert!(!may_open(systemd, CGROUP, "/dev/nvidia1"));
    });
}

/// Make sure that crun, whose program is at a cgroup below the scope, loses nothing,
/// and that gpumap says so.
#[test]
fn crun_loses_nothing() {
    with_systemd(&[], |systemd| {
        start(systemd, "crun");
        let cgroup = format!("{CGROUP}/container");
        systemd.run("systemctl", &["daemon-reload"]);
        assert!(may_open(systemd, &cgroup, "/dev/nvidia0"));
        let (plan, status) = repair(systemd, &["--cgroup", &cgroup]);
        assert_eq!((&plan["state"], status), (&json!("nothing-missing"), 0), "{plan:#}");
        assert!(plan["intention"]["what"].as_str().is_some_and(|what| what.contains("crun")), "{plan:#}");
    });
}

/// Make sure that a unit that restricts nothing gets no command that would close it,
/// and that a service gets the device it is asked for.
#[test]
fn services() {
    with_systemd(&[], |systemd| {
        systemd.run("mknod", &["-m", "666", "/dev/nvidia0", "c", "195", "0"]);
        let run = |unit: &str, settings: &[&str]| {
            let mut args = vec![format!("--unit={unit}")];
            args.extend(settings.iter().flat_map(|setting| ["-p".to_owned(), (*setting).to_owned()]));
            args.extend(["sleep".to_owned(), "600".to_owned()]);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            systemd.run("systemd-run", &args);
        };
        run("open", &[]);
        run("closed", &["DevicePolicy=closed"]);
        let (open, status) =
            repair(systemd, &["--cgroup", "/system.slice/open.service", "--allow", "/dev/nvidia0"]);
        assert_eq!((&open["state"], status), (&json!("nothing-missing"), 0), "{open:#}");
        let closed = "/system.slice/closed.service";
        let (plan, status) = repair(systemd, &["--cgroup", closed, "--allow", "/dev/nvidia0"]);
        assert_eq!((&plan["state"], status), (&json!("missing"), 1), "{plan:#}");
        assert!(!may_open(systemd, closed, "/dev/nvidia0"));
        run_line(systemd, &plan);
        assert!(may_open(systemd, closed, "/dev/nvidia0"));
        let (after, status) = repair(systemd, &["--cgroup", closed]);
        assert_eq!((&after["state"], status), (&json!("nothing-missing"), 0), "{after:#}");
        assert_eq!(after["intention"]["source"], "unit-files", "{after:#}");
    });
}
