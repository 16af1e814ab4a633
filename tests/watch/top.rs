//! `gpumap top` in a real terminal: keys, sizes, every way out, and a node on which
//! jobs come and go.
//!
//! Needs tmux.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::cgroup::Cgroup;
use crate::support::tmux::Tmux;
use crate::support::{host, node};

const BINARY: &str = env!("CARGO_BIN_EXE_gpumap");
/// How many times jobs come and go; an hour's worth is some 10,000.
const ROUNDS: &str = "GPUMAP_TEST_CHURN";
const USUAL_ROUNDS: usize = 60;
const PATIENCE: Duration = Duration::from_secs(60);

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/nodes").join(name)
}

/// The screen of a saved node.
fn saved(args: &str, size: (u16, u16)) -> Option<Tmux> {
    let node = fixture("slurm-activity.json");
    Tmux::start(&format!("{BINARY} --from {} top {args}", node.display()), size)
}

/// The terminal is as it was: the screen of before, its echo, and a cursor.
fn given_back(tmux: &Tmux, code: i32) {
    let screen = tmux.wait(&format!("ended {code}"));
    let screen = if screen.contains("echo") { screen } else { tmux.wait("echo") };
    assert!(screen.starts_with("before") && !screen.contains("OWNER"), "{screen}");
    assert!(screen.lines().any(|line| line == "echo"), "{screen}");
    assert_eq!((tmux.variable("alternate_on"), tmux.variable("cursor_flag")), ("0".into(), "1".into()));
}

/// Make sure that keys do in a real terminal what the help says.
#[test]
fn keys() {
    let Some(tmux) = saved("", (80, 24)) else { return };
    let first = tmux.wait("slurm job 4714");
    assert!(!first.contains("step batch") && tmux.variable("alternate_on") == "1", "{first}");
    tmux.press(&["Enter"]);
    tmux.wait("step batch");
    tmux.press(&["*"]);
    tmux.wait("142 slurm_script");
    tmux.press(&["*", "Home", "Right", "Enter"]);
    let why = tmux.wait("What slurm job 4711 has to do with nvidia2");
    assert!(why.contains("allowed    no"), "{why}");
    tmux.press(&["End"]);
    tmux.wait("Verdict: deny");
    tmux.press(&["Escape", "F1"]);
    tmux.wait("What keys do");
    tmux.press(&["Escape", "/"]);
    tmux.wait("Filter:");
    tmux.press(&["-l", "user:bob"]);
    tmux.press(&["Enter"]);
    tmux.wait_until("bob alone", |screen| screen.contains("4712") && !screen.contains("job 4711 "));
    tmux.press(&["Escape", "s", "Down", "Enter"]);
    tmux.wait("by us");
    tmux.press(&["Space"]);
    tmux.wait("FROZEN");
    tmux.press(&["Space", "Tab", "Enter"]);
    tmux.wait("because");
    tmux.press(&["F10"]);
    given_back(&tmux, 0);
}

/// Make sure that the screen follows the size of its terminal.
#[test]
fn sizes() {
    let Some(tmux) = saved("", (80, 24)) else { return };
    tmux.wait("slurm job 4714");
    for (width, height) in [(132, 40), (40, 10), (80, 24)] {
        tmux.resize(width, height);
        let bar = |screen: &str| {
            let lines: Vec<&str> = screen.lines().collect();
            lines.len() == usize::from(height) && lines.last().is_some_and(|line| line.contains("? help"))
        };
        tmux.wait_until(&format!("{width}x{height}"), bar);
    }
    tmux.press(&["q"]);
    given_back(&tmux, 0);
}

/// Make sure that every way out gives the terminal back.
#[test]
fn ways_out() {
    for key in ["q", "F10", "C-c"] {
        let Some(tmux) = saved("", (80, 24)) else { return };
        tmux.wait("slurm job 4714");
        tmux.press(&[key]);
        given_back(&tmux, 0);
    }
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        let Some(tmux) = saved("", (80, 24)) else { return };
        tmux.wait("slurm job 4714");
        let pid = i32::try_from(tmux.pid_of("gpumap")).expect("a pid");
        kill(Pid::from_raw(pid), signal).expect("a signal");
        given_back(&tmux, 0);
    }
}

/// Make sure that gpumap ends when its terminal is gone.
#[test]
fn lost_terminal() {
    let Some(tmux) = saved("", (80, 24)) else { return };
    tmux.wait("slurm job 4714");
    let pid = tmux.pid_of("gpumap");
    tmux.close();
    let began = Instant::now();
    // Its parent is gone, too: it may be a zombie that nobody fetches.
    let runs = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
    };
    while runs() {
        assert!(began.elapsed() < PATIENCE, "{pid} goes on without a terminal");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Make sure that saved nodes are stepped through, and no further than there are.
#[test]
fn steps() {
    let files = ["systemd-before-reload.json", "systemd-reload.json"].map(fixture);
    let line = format!("{BINARY} top {} {}", files[0].display(), files[1].display());
    let Some(tmux) = Tmux::start(&line, (100, 24)) else { return };
    tmux.wait("saved 1/2");
    tmux.press(&[">", ">", ">"]);
    tmux.wait("saved 2/2");
    tmux.press(&["<"]);
    tmux.wait("saved 1/2");
    tmux.press(&["q"]);
    given_back(&tmux, 0);
}

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
    let gpus = node::four_gpus();
    let places = format!("--cgroup-root {} --gpu-root {}", root.path().display(), gpus.display());
    let line = format!("{BINARY} top --every 250ms --cpu 100 {places}");
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

/// Make sure that a screen on which nothing changes costs next to nothing.
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
