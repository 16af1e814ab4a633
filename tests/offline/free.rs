//! `gpumap free`: who keeps the next job from a GPU, and who does not.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// A node where processes of jobs 97 and 98 hold nvidia3 (pids 115 and 116), changed by
/// `change`.
fn node(change: impl FnOnce(&mut Value)) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/audit/held-by-other-job/trigger.json");
    let mut node: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    change(&mut node);
    node
}

/// What gpumap says of a node.
fn ask(node: &Value, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
    command.args(["--from", "-"]).args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&serde_json::to_vec(node).unwrap()).unwrap();
    child.wait_with_output().unwrap()
}

/// The process of a node.
fn process(node: &mut Value, pid: u64) -> &mut Value {
    node["processes"].as_array_mut().unwrap().iter_mut().find(|process| process["pid"] == pid).unwrap()
}

/// The exit status, the state, the pids of holders and those of standing ones.
fn free(node: &Value, words: &[&str]) -> (i32, String, Vec<u64>, Vec<u64>) {
    let output = ask(node, &[&["--json", "free"], words].concat());
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let free = &answer["free"];
    let pids = |standing: bool| {
        let holders = free["holders"].as_array().unwrap().iter();
        let holders = holders.filter(|holder| holder["standing"].as_bool().unwrap_or(false) == standing);
        holders.map(|holder| holder["pid"].as_u64().unwrap()).collect()
    };
    let state = free["state"].as_str().unwrap().to_owned();
    (output.status.code().unwrap(), state, pids(false), pids(true))
}

/// Make sure that every process that holds a GPU keeps the next job from it, but for those in
/// the cgroup of the job that is named.
#[test]
fn holders() {
    let node = node(|_| {});
    assert_eq!(free(&node, &["/dev/nvidia3"]), (1, "held".into(), vec![115, 116], vec![]));
    assert_eq!(free(&node, &["nvidia3", "--job", "97"]), (1, "held".into(), vec![116], vec![]));
    assert_eq!(free(&node, &["nvidia1-3"]).0, 1);
    assert_eq!(free(&node, &["c 195:0", "nvidia1-2"]), (0, "free".into(), vec![], vec![]));
    assert_eq!(free(&node, &["--job", "97", "--allocated", "/dev/nvidia3"]).2, [116]);
    assert_eq!(free(&node, &[]).2, [115, 116]);
}

/// Make sure that a process that only says it is the job's counts.
#[test]
fn claims() {
    let node = node(|node| {
        let outside = json!("/user.slice/user-1001.slice/session-1.scope");
        let mut cgroup = node["cgroups"][0].clone();
        cgroup["path"] = outside.clone();
        cgroup["id"] = json!(999_999);
        node["cgroups"].as_array_mut().unwrap().push(cgroup);
        process(node, 115)["cgroup"] = outside;
    });
    assert_eq!(free(&node, &["nvidia3", "--job", "97"]).2, [115, 116]);
}

/// Make sure that a process of which nobody knows what it holds leaves the answer open, unless
/// another one is seen to hold the GPU.
#[test]
fn unknown() {
    let unread = json!({"missing": "not allowed"});
    let node = node(|node| process(node, 115)["detail"]["devices"] = unread);
    assert_eq!(free(&node, &["nvidia0"]), (3, "unknown".into(), vec![115], vec![]));
    assert_eq!(free(&node, &["nvidia3"]).0, 1);
    assert_eq!(free(&node, &["nvidia3", "--job", "98"]).1, "unknown");
}

/// Make sure that the driver's daemon is named and keeps nobody from a GPU, and that a user's
/// program of that name does.
#[test]
fn daemons() {
    let daemon = |uid: u64| {
        node(|node| {
            let service = json!("/system.slice/nvidia-persistenced.service");
            let mut cgroup = node["cgroups"][0].clone();
            cgroup["path"] = service.clone();
            cgroup["id"] = json!(999_999);
            node["cgroups"].as_array_mut().unwrap().push(cgroup);
            let process = process(node, 115);
            process["cgroup"] = service;
            process["uid"] = json!(uid);
            let path = if uid == 0 { "/usr/bin/nvidia-persistenced" } else { "/tmp/nvidia-persistenced" };
            process["detail"]["exe"] = json!({"known": path});
        })
    };
    assert_eq!(free(&daemon(0), &["nvidia3", "--job", "98"]), (0, "free".into(), vec![], vec![115]));
    assert_eq!(free(&daemon(1001), &["nvidia3", "--job", "98"]).2, [115]);
}

/// Make sure that `leftovers` names the others who hold the job's GPUs.
#[test]
fn beside_leftovers() {
    let output = ask(&node(|_| {}), &["leftovers", "90", "--allocated", "/dev/nvidia3"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("No process of job 90 holds a GPU."), "{said}");
    assert!(said.contains("2 processes that are not known to be job 90's hold its GPUs, or may:"), "{said}");
}
