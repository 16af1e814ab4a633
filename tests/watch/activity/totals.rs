//! What a state file keeps of jobs that are gone, as `gpumap activity --summary` tells it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::bench::{self, Bench};
use crate::support::node;
use crate::support::wait::within;

const GPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/gpu/four-h200");

/// A running `gpumap activity` that keeps a state file; it ends with the value.
struct Kept(Child);

impl Kept {
    fn start(root: &str, state: &Path) -> Self {
        let state = state.to_str().unwrap();
        let words =
            ["--gpu-root", GPUS, "--cgroup-root", root, "activity", "--cgroup", "/", "--every", "200ms"];
        let mut command = node::command(&[&words[..], &["--state", state]].concat());
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// What a state file tells of a job, and the exit code.
fn summary(root: &str, state: &Path, job: &str) -> (Value, i32) {
    let state = state.to_str().unwrap();
    let roots = ["--gpu-root", GPUS, "--cgroup-root", root, "--timeout", "60s"];
    let words = [&roots[..], &["activity", "--job", job, "--summary"]].concat();
    node::json(&[&words[..], &["--state", state]].concat())
}

/// Make sure that what processes of a job did is told when they, and the job, are gone, that it
/// stays when gpumap is started anew, and that a job which nobody saw is not said to be idle.
#[test]
fn a_job_that_is_gone() {
    let Some(host) = bench::shared() else { return };
    let bench = Bench::new(&host);
    let root = bench.cgroup().to_str().unwrap().to_owned();
    let state = bench.client.with_file_name("state");
    let _held = bench.hold();
    let kept = Kept::start(&root, &state);
    // All is covered once a reading of the held process says so.
    let covered = |_: &u32| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let text = fs::read_to_string(&state).unwrap_or_default();
        let state: Value = serde_json::from_str(&text).unwrap_or_default();
        state["activity"]["sums"]["libraries"].as_array().is_some_and(|all| !all.is_empty())
            && state["activity"]["sums"]["uncovered"].is_null()
    };
    assert!((0..600).any(|turn| covered(&turn)), "the library is never attached to");
    let job = bench.cgroup().join("system.slice/slurmstepd.scope/job_4711/step_0");
    fs::create_dir_all(&job).unwrap();
    for launches in [7, 9] {
        let script = format!(
            "echo $$ > {}/cgroup.procs; {} device:0 launch:{launches} memory:1000; exit 0",
            job.to_str().unwrap(),
            bench.client.to_str().unwrap()
        );
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    }
    let launches = |of: &Value| -> u64 {
        let gpus = of["gpus"].as_array().into_iter().flatten();
        gpus.map(|gpu| gpu["counts"]["launches"].as_u64().unwrap()).sum()
    };
    // The file is written after each interval. A cgroup that is gone before has no name.
    let begun = Instant::now();
    while launches(&summary(&root, &state, "4711").0["activity"]["totals"][0]) != 16 {
        assert!(begun.elapsed() < within(20), "the job is not told");
    }
    let mut place = job.as_path();
    while place != bench.cgroup() {
        fs::remove_dir(place).unwrap();
        place = place.parent().unwrap();
    }
    let (document, code) = summary(&root, &state, "4711");
    let one = &document["activity"]["totals"][0];
    assert_eq!((code, &one["owner"]["job_id"], launches(one)), (0, &4711.into(), 16), "{document}");
    assert_eq!((&one["processes"], &one["alive"], &one["partial"]), (&2.into(), &0.into(), &false.into()));
    assert!(one["gpus"][0]["peak_bytes"].as_u64().unwrap() >= 1000, "{document}");
    // Only some processes of the node are counted.
    let (document, code) = summary(&root, &state, "4712");
    assert!(code == 3 && document["activity"]["totals"].is_null(), "{document}");
    drop(kept);
    let _again = Kept::start(&root, &state);
    let (document, code) = summary(&root, &state, "4711");
    let one = &document["activity"]["totals"][0];
    assert_eq!((code, launches(one), &one["partial"]), (3, 16, &true.into()), "{document}");
}
