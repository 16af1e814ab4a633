//! `gpumap top` in a real terminal: keys, sizes, saved nodes. `ways_out` has how it ends
//! and stops, `churn` a node on which jobs come and go, and one on which nothing does.
//!
//! Needs tmux.

mod churn;
mod ways_out;

use std::path::{Path, PathBuf};

use crate::support::cgroup::Cgroup;
use crate::support::node;
use crate::support::tmux::Tmux;

const BINARY: &str = env!("CARGO_BIN_EXE_gpumap");

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/nodes").join(name)
}

/// The screen of a saved node.
fn saved(args: &str, size: (u16, u16)) -> Option<Tmux> {
    let node = fixture("slurm-activity.json");
    Tmux::start(&format!("{BINARY} --from {} top {args}", node.display()), size)
}

/// The command for the node below a cgroup, with four invented GPUs.
fn live(root: &Cgroup) -> String {
    let gpus = node::four_gpus();
    format!("{BINARY} top --cgroup-root {} --gpu-root {}", root.path().display(), gpus.display())
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

/// Make sure that a saved node that cannot be read is told in its place, that the others
/// are still there, and that one alone is a failure.
#[test]
fn unreadable_files() {
    let bad = Path::new(env!("CARGO_TARGET_TMPDIR")).join("top-bad.json");
    std::fs::write(&bad, "{\"schema\": \"gpumap.observation/1\", \u{202e}").expect("a file");
    let good = fixture("slurm-activity.json");
    let line = format!("{BINARY} top {} {} /nowhere/x.json", bad.display(), good.display());
    let Some(tmux) = Tmux::start(&line, (100, 24)) else { return };
    let first = tmux.wait("saved 1/3");
    assert!(first.contains("There is nothing to show") && first.contains("top-bad.json"), "{first}");
    tmux.press(&["Enter", ">"]);
    tmux.wait("slurm job 4714");
    tmux.press(&[">"]);
    let third = tmux.wait("saved 3/3");
    assert!(third.contains("/nowhere/x.json") && !third.contains("slurm job"), "{third}");
    tmux.press(&["<"]);
    tmux.wait("slurm job 4714");
    tmux.press(&["q"]);
    given_back(&tmux, 0);
    let Some(tmux) = Tmux::start(&format!("{BINARY} top {}", bad.display()), (100, 24)) else { return };
    let alone = tmux.wait("ended 2");
    assert!(alone.contains("top-bad.json"), "{alone}");
}
