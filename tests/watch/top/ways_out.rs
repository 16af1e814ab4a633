//! Every way out of `gpumap top`: the user, signals, a terminal that is lost, a shell that
//! is killed; and how it stops and goes on.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::termios::FlowArg;
use nix::unistd::Pid;

use super::{given_back, live, saved};
use crate::support::cgroup::Cgroup;
use crate::support::host;
use crate::support::pty::Pty;
use crate::support::tmux::Tmux;
use crate::support::wait::patience;

/// Cgroups of a node whose first look takes a moment.
const MANY: usize = 600;

fn send(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).expect("a pid")), signal).expect("a signal");
}

/// Whether a process runs. Whoever started it may be gone: it may be a zombie that
/// nobody fetches.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}

fn ends(pid: u32, why: &str) {
    let began = Instant::now();
    while runs(pid) {
        assert!(began.elapsed() < patience(), "{why}: {pid} goes on");
        thread::sleep(Duration::from_millis(20));
    }
    println!("{why}: ended after {:?}", began.elapsed());
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
        send(tmux.pid_of("gpumap"), signal);
        given_back(&tmux, 0);
    }
}

/// The same above a live node, where one thread looks and another one has the screen.
#[test]
fn ways_out_of_a_live_screen() {
    let Some(_host) = host::shared() else { return };
    let root = Cgroup::new().expect("a cgroup");
    for key in ["q", "C-c"] {
        let Some(tmux) = Tmux::start(&live(&root), (80, 24)) else { return };
        tmux.wait("live");
        tmux.press(&[key]);
        given_back(&tmux, 0);
    }
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        let Some(tmux) = Tmux::start(&live(&root), (80, 24)) else { return };
        tmux.wait("live");
        send(tmux.pid_of("gpumap"), signal);
        given_back(&tmux, 0);
    }
}

/// Make sure that gpumap ends when its terminal is gone: that of a saved node, and above
/// a live one.
#[test]
fn lost_terminal() {
    let Some(tmux) = saved("", (80, 24)) else { return };
    tmux.wait("slurm job 4714");
    let pid = tmux.pid_of("gpumap");
    tmux.close();
    ends(pid, "a saved node, tmux ended");

    let Some(_host) = host::shared() else { return };
    let root = Cgroup::new().expect("a cgroup");
    let Some(tmux) = Tmux::start(&live(&root), (80, 24)) else { return };
    tmux.wait("live");
    let pid = tmux.pid_of("gpumap");
    tmux.close();
    ends(pid, "a live node, tmux ended");

    let mut pty = Pty::start(&live(&root), (80, 24));
    pty.wait("live");
    let pid = pty.pid();
    pty.hang_up();
    ends(pid, "a live node, the other end closed");
}

/// Make sure that a terminal that takes no output keeps gpumap neither from drawing
/// afterwards nor from ending.
#[test]
fn stopped_output() {
    let Some(_host) = host::shared() else { return };
    let root = Cgroup::new().expect("a cgroup");
    let mut pty = Pty::start(&live(&root), (80, 24));
    pty.wait("live");
    pty.flow(FlowArg::TCOOFF);
    pty.press("?");
    pty.flow(FlowArg::TCOON);
    pty.wait("What keys do");
    pty.flow(FlowArg::TCOOFF);
    pty.press("?");
    send(pty.pid(), Signal::SIGTERM);
    ends(pty.pid(), "its terminal takes no output");
}

/// Make sure that gpumap ends with the shell that the terminal belongs to, and that it
/// keeps the terminal, and gives it back, when only a shell between them is killed.
#[test]
fn killed_shell() {
    let Some(_host) = host::shared() else { return };
    let root = Cgroup::new().expect("a cgroup");
    let Some(tmux) = Tmux::start(&live(&root), (80, 24)) else { return };
    tmux.wait("live");
    let pid = tmux.pid_of("gpumap");
    send(tmux.variable("pane_pid").parse().expect("a pid"), Signal::SIGKILL);
    ends(pid, "its shell was killed");

    let Some((tmux, shell)) = shell() else { return };
    tmux.type_line(&live(&root));
    tmux.wait("live");
    let pid = tmux.pid_below(shell, "gpumap");
    send(shell, Signal::SIGKILL);
    tmux.press(&["?"]);
    tmux.wait("What keys do");
    tmux.press(&["F10"]);
    ends(pid, "the user ended it");
    assert_eq!((tmux.variable("alternate_on"), tmux.variable("cursor_flag")), ("0".into(), "1".into()));
}

/// An interactive shell with job control, and its pid.
fn shell() -> Option<(Tmux, u32)> {
    let tmux = Tmux::start("PS1='ready: ' bash --norc --noprofile -i", (80, 24))?;
    tmux.wait("ready:");
    let pid = tmux.pid_of("bash");
    Some((tmux, pid))
}

/// Make sure that gpumap stops as other programs do, by a key or a signal, that the shell
/// has a whole terminal meanwhile, and that the screen is back afterwards; also when it
/// was stopped so that it could not give the terminal back.
#[test]
fn stop_and_go_on() {
    let Some(_host) = host::shared() else { return };
    let root = Cgroup::new().expect("a cgroup");
    let Some((tmux, shell)) = shell() else { return };
    tmux.type_line(&live(&root));
    tmux.wait("live");
    let pid = tmux.pid_below(shell, "gpumap");
    for signal in [None, Some(Signal::SIGTSTP)] {
        match signal {
            None => tmux.press(&["C-z"]),
            Some(signal) => send(pid, signal),
        }
        tmux.wait_until("the shell", |screen| screen.contains("Stopped") && !screen.contains("OWNER"));
        assert_eq!((tmux.variable("alternate_on"), tmux.variable("cursor_flag")), ("0".into(), "1".into()));
        tmux.type_line("clear; stty -a | tr ' ;' '\\n\\n' | grep -x -e echo -e -echo");
        tmux.wait_until("echo", |screen| screen.lines().any(|line| line == "echo"));
        tmux.type_line("clear; fg");
        tmux.wait_until("the screen", |screen| screen.contains("live") && !screen.contains("ready:"));
        assert_eq!((tmux.variable("alternate_on"), tmux.variable("cursor_flag")), ("1".into(), "0".into()));
    }
    // The shell takes the terminal, and nobody told gpumap.
    send(pid, Signal::SIGSTOP);
    tmux.wait("Stopped");
    tmux.type_line("fg");
    tmux.wait_until("the screen", |screen| screen.contains("live") && !screen.contains("Stopped"));
    tmux.press(&["?"]);
    tmux.wait("What keys do");
    tmux.press(&["F10"]);
    tmux.wait_until("the shell", |screen| screen.trim_end().ends_with("ready:"));
    assert_eq!((tmux.variable("alternate_on"), tmux.variable("cursor_flag")), ("0".into(), "1".into()));
}

/// Make sure that Ctrl-C ends it at once while it looks for the first time: 130 is what
/// a shell says of a command that the signal ended.
#[test]
fn first_look() {
    let Some(_host) = host::shared() else { return };
    let root = Cgroup::new().expect("a cgroup");
    let _many: Vec<Cgroup> =
        (0..MANY).map(|number| root.child(&format!("job_{number}")).expect("a cgroup")).collect();
    let Some(tmux) = Tmux::start(&live(&root), (80, 24)) else { return };
    let pid = tmux.pid_of("gpumap");
    let began = Instant::now();
    while !blocks(pid, Signal::SIGINT) {
        assert!(began.elapsed() < patience(), "{pid} never begins");
        thread::sleep(Duration::from_millis(1));
    }
    // To it alone: the shell around it would end by Ctrl-C, too.
    send(pid, Signal::SIGINT);
    given_back(&tmux, 130);
}

/// Whether a process blocks a signal, to take it in its own time.
fn blocks(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap_or("0").trim();
    let mask = u64::from_str_radix(mask, 16).expect("a mask");
    mask & (1 << (signal as i32 - 1)) != 0
}
