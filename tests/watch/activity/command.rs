//! `gpumap activity` from outside, with what a stand-in driver says was really called.

use std::fs;
use std::io::{BufRead as _, BufReader, Lines};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, ChildStdout, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::bench::{self, Bench};
use crate::support::node;

const GPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/gpu/four-h200");

/// A running `gpumap activity`, and its lines.
pub(super) struct Activity {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Activity {
    pub(super) fn start(bench: &Bench, further: &[&str]) -> Self {
        let cgroup = bench.cgroup().to_str().unwrap();
        let words = ["--json", "--gpu-root", GPUS, "activity", "--cgroup", cgroup, "--every", "300ms"];
        let mut command = node::command(&[&words[..], further].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next interval.
    pub(super) fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    /// The first interval that has what is looked for, and the one process in it.
    fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> (Value, Value) {
        let mut last = Value::Null;
        // As long as it runs, which --for bounds.
        for line in self.lines.by_ref() {
            let document: Value = serde_json::from_str(&line.unwrap()).unwrap();
            let processes = document["activity"]["processes"].as_array().unwrap().clone();
            if let Some(process) = processes.into_iter().find(|process| is_it(process)) {
                return (document, process);
            }
            last = document;
        }
        panic!("it is never reported; the last interval: {last}");
    }
}

fn sum(process: &Value, name: &str) -> u64 {
    process["gpus"].as_array().unwrap().iter().map(|one| one["counts"][name].as_u64().unwrap()).sum()
}

/// The same of the driver's own words: `stream CONTEXT STREAM SUMS…`.
fn truth(text: &str, place: usize) -> u64 {
    let streams = text.lines().filter(|line| line.starts_with("stream "));
    streams.map(|line| line.split(' ').nth(place + 3).unwrap().parse::<u64>().unwrap()).sum()
}

/// Make sure that a process is told while it lives and once when it has ended, with
/// exactly what the driver was called with, that a state file gives it to `pid`, and
/// that a signal ends it cleanly.
#[test]
fn while_it_lives_and_once_more() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let state = bench.client.with_file_name("state");
    let _held = bench.hold();
    let mut activity =
        Activity::start(&bench, &["--state", state.to_str().unwrap(), "--time-one-in", "1", "--for", "120s"]);
    // On a busy machine the library may be refused at first, and this is said.
    let covered = (0..100).any(|_| activity.next()["complete"] == true);
    assert!(covered, "the library is never attached to");
    let words = ["device:1", "stream", "launch:500", "graph:4", "copies:10", "waits:3", "bad:2", "stop"];
    let mut client = bench.start(&bench.client, &words);
    bench::read_line(&mut client, "stopped");
    let pid = client.id();
    let is_it = |process: &Value| process["pid"] == pid && sum(process, "launches") >= 500;
    let (document, alive) = activity.until(is_it);
    assert_eq!((&document["complete"], &alive["ended_at"]), (&true.into(), &Value::Null), "{document}");
    assert!(alive["cgroup"].as_str().unwrap().contains("gpumap-watch-"), "{alive}");
    assert_eq!(alive["gpus"][0]["ordinal"], 1);

    let (of_pid, _) =
        node::json(&["--gpu-root", GPUS, "pid", &pid.to_string(), "--state", state.to_str().unwrap()]);
    let its = &of_pid["activity"]["processes"][0];
    assert_eq!((&its["pid"], sum(its, "launches")), (&pid.into(), sum(&alive, "launches")), "{of_pid}");
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o600);

    bench::go_on(&mut client);
    assert!(client.wait().unwrap().success());
    let (_, ended) = activity.until(|process| process["pid"] == pid && !process["ended_at"].is_null());
    let text = bench.truth_text();
    let names = ["launches", "graph_launches", "graph_kernels", "captured", "host_functions", "copies"];
    for (place, name) in names.into_iter().enumerate() {
        assert_eq!(sum(&ended, name), truth(&text, place), "{name}: {text}");
    }
    let errors: Vec<String> = ended["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| format!("error {} {}", error["code"], error["count"]))
        .collect();
    let real: Vec<&str> = text.lines().filter(|line| line.starts_with("error ")).collect();
    assert!(
        errors.len() == real.len() && errors.iter().all(|error| real.contains(&error.as_str())),
        "{text}"
    );
    let again = activity.next();
    let gone = again["activity"]["processes"].as_array().unwrap().iter().all(|process| process["pid"] != pid);
    assert!(gone, "it ended twice");

    kill(Pid::from_raw(i32::try_from(activity.child.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(activity.child.wait().unwrap().code(), Some(0));
}

/// Make sure that one interval is one document, and that a reader that goes away ends
/// it without a word.
#[test]
fn once_and_unread() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let mut once = Activity::start(&bench, &["--once"]);
    once.next();
    assert!(once.lines.next().is_none() && once.child.wait().unwrap().code() == Some(0));
    let mut unread = Activity::start(&bench, &["--for", "120s"]);
    unread.next();
    drop(unread.lines);
    assert_eq!(unread.child.wait().unwrap().code(), Some(0));
}

/// Make sure that a process that lived and ended between two readings is told with its cgroup.
#[test]
fn between_two_readings() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let _held = bench.hold();
    let mut activity = Activity::start(&bench, &["--for", "120s"]);
    activity.next();
    let job = bench.cgroup().join("job");
    fs::create_dir(&job).unwrap();
    let client = bench.client.to_str().unwrap();
    let script =
        format!("echo $$ > {}/cgroup.procs; {client} device:0 launch:7; exit 0", job.to_str().unwrap());
    let mut shell = std::process::Command::new("sh").args(["-c", &script]).spawn().unwrap();
    assert!(shell.wait().unwrap().success());
    let is_it = |process: &Value| process["ended_at"].is_string() && sum(process, "launches") == 7;
    let (_, process) = activity.until(is_it);
    assert!(process["cgroup"].as_str().unwrap().ends_with("/job"), "{process}");
    fs::remove_dir(&job).unwrap();
}
