//! A node on which jobs come and go, and screens on which nothing changes.

use std::fs;
use std::thread;
use std::time::Duration;

use super::{given_back, live, saved};
use crate::support::cgroup::Cgroup;
use crate::support::host;
use crate::support::tmux::Tmux;

/// How many times jobs come and go; an hour's worth is some 10,000.
const ROUNDS: &str = "GPUMAP_TEST_CHURN";
const USUAL_ROUNDS: usize = 60;

/// A task of a job, as Slurm names its cgroup, with a process in it.
struct Job {
    cgroups: Vec<Cgroup>,
    process: std::process::Child,
}

impl Job {
    fn start(top: &Cgroup, id: usize) -> Self {
        let mut cgroups: Vec<Cgroup> = Vec::new();
        for name in [format!("job_{id}").as_str(), "step_0", "user", "task_0"] {
            cgroups.push(cgroups.last().unwrap_or(top).child(name).expect("a cgroup"));
        }
        let process = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        let pid = i32::try_from(process.id()).expect("a pid");
        cgroups.last().expect("a cgroup").adopt(pid).expect("a member");
        Self { cgroups, process }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _gone = self.process.wait();
        // The innermost first.
        while self.cgroups.pop().is_some() {}
    }
}

fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
}

/// Make sure that jobs appear while they run and vanish when they end, on a node that
/// is watched, and that gpumap does not grow by that.
#[test]
fn churn() {
    let Some(_host) = host::shared() else { return };
    let root = Cgroup::new().expect("a cgroup");
    let slice = root.child("system.slice").expect("a cgroup");
    let scope = slice.child("gpu01_slurmstepd.scope").expect("a cgroup");
    let line = format!("{} --every 250ms --cpu 100", live(&root));
    let Some(tmux) = Tmux::start(&line, (100, 30)) else { return };
    tmux.wait("live");
    let pid = tmux.pid_of("gpumap");
    let rounds = std::env::var(ROUNDS).ok().and_then(|text| text.parse().ok()).unwrap_or(USUAL_ROUNDS);
    let mut after_warming = 0;
    for round in 0..rounds {
        let jobs: Vec<Job> = (0..3).map(|place| Job::start(&scope, round * 10 + place + 1)).collect();
        if round % 20 == 0 {
            tmux.wait(&format!("slurm job {}", round * 10 + 3));
        } else {
            thread::sleep(Duration::from_millis(120));
        }
        drop(jobs);
        if round == rounds / 3 {
            after_warming = resident(pid);
        }
    }
    tmux.wait_until("no job", |screen| !screen.contains("slurm job") && screen.contains("live"));
    let at_end = resident(pid);
    println!("{rounds} rounds: {after_warming} kB after a third, {at_end} kB at the end");
    assert!(at_end < after_warming + 8 * 1024, "grew from {after_warming} kB to {at_end} kB");
    tmux.press(&["q"]);
    given_back(&tmux, 0);
}

/// Make sure that the screen of a saved node, on which nothing changes, costs nothing.
#[test]
fn idle() {
    let Some(tmux) = saved("", (80, 24)) else { return };
    tmux.wait("slurm job 4714");
    let pid = tmux.pid_of("gpumap");
    let time = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
        fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number")
    };
    let before = time();
    thread::sleep(Duration::from_secs(2));
    assert_eq!(time(), before, "clock ticks of an idle screen");
}
