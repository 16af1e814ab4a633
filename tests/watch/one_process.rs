//! Runs `gpumap watch --pid` on the running kernel: it must follow one process,
//! whatever it becomes, and no other.

use crate::support::host;
use gpumap::model::EventKind;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::support::watching::{CUDA, ORDER, Place, Watch, assert_changes, changes, modes};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Make sure that a watch of one process says nothing of another.
#[test]
fn one_process() {
    let Some(root) = host::shared() else { return };
    let place = Place::new(&root);
    let script = "import os, sys
sys.stdin.readline()
os.environ['CUDA_VISIBLE_DEVICES'] = '1'
sys.stdin.read()";
    let mut command = place.command(&["/usr/bin/python3", "-c", script]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let watch = Watch::start(&["--pid", &child.id().to_string(), "--until-change"]);
    let other = place.build("watch.c", "dynamic", "gcc");
    assert!(place.command(&[other.to_str().unwrap(), "unset"]).status().unwrap().success());
    child.stdin.as_mut().unwrap().write_all(b"go on\n").unwrap();
    let events = watch.until(|event| event.event == EventKind::End);
    assert_changes(&events, &[("setenv", CUDA, "1")]);
    // Its input ends with it.
    child.wait().unwrap();
}

/// A stopped process with a watch on it alone.
fn followed(place: &Place, mode: &str, words: &[&str]) -> (Child, Watch) {
    let child = place.stopped(words);
    let (watch, _) = Watch::start_with(Some(mode), &["--pid", &child.id().to_string()]);
    (child, watch)
}

fn go_on(child: &Child) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGCONT).unwrap();
}

/// The code of a process as it is in memory, with the probes in it.
fn code(child: &Child, program: &Path) -> Vec<u8> {
    let maps = fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
    let line = maps.lines().find(|line| line.contains("r-xp") && line.ends_with(program.to_str().unwrap()));
    let (start, end) = line.unwrap().split(' ').next().unwrap().split_once('-').unwrap();
    let [start, end] = [start, end].map(|place| u64::from_str_radix(place, 16).unwrap());
    let mut code = vec![0; usize::try_from(end - start).unwrap()];
    fs::File::open(format!("/proc/{}/mem", child.id())).unwrap().read_exact_at(&mut code, start).unwrap();
    code
}

/// Make sure that a watch of one process touches no other of the same file:
/// nothing is written into its code.
#[test]
fn others_are_not_touched() {
    let Some(root) = host::shared() else { return };
    let place = Place::new(&root);
    let program = place.build("watch.c", "static", "gcc -static -DSTATIC");
    for (mode, _) in modes() {
        let words = [program.to_str().unwrap(), "unset"];
        let mut other = place.stopped(&words);
        let before = code(&other, &program);
        let (child, watch) = followed(&place, mode, &words);
        assert_ne!(code(&child, &program), before, "{mode}: no probes");
        assert_eq!(code(&other, &program), before, "{mode}: another process has probes");
        go_on(&child);
        assert_changes(&watch.ended(child), &[ORDER, ("unsetenv", CUDA, "unset")]);
        other.kill().unwrap();
        other.wait().unwrap();
    }
}

/// Make sure that a watch of one process goes on with the program that it
/// executes, from the first call on; where a thread does it, soon after.
#[test]
fn one_process_executes() {
    let Some(root) = host::shared() else { return };
    let place = Place::new(&root);
    let program = place.build("watch.c", "dynamic", "gcc");
    for (mode, _) in modes() {
        let (child, watch) = followed(&place, mode, &[program.to_str().unwrap(), "exec"]);
        go_on(&child);
        assert_changes(&watch.ended(child), &[ORDER, ORDER, ("unsetenv", CUDA, "unset")]);
        let words = [program.to_str().unwrap(), "exec-thread", "repeat"];
        let (mut child, watch) = followed(&place, mode, &words);
        go_on(&child);
        // By its call, not by what is found in memory.
        watch.until(|event| {
            event.how.map(<&str>::from) == Some("setenv") && event.variable.as_deref() == Some(CUDA)
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Make sure that a library that a watched process maps later is watched too.
#[test]
fn one_process_maps_later() {
    let Some(root) = host::shared() else { return };
    let place = Place::new(&root);
    let program = place.build("watch.c", "dynamic", "gcc");
    let library = place.build("libcuda.c", "libcuda.so.1", "gcc -shared -fPIC");
    for (mode, _) in modes() {
        let words = [program.to_str().unwrap(), "driver", library.to_str().unwrap(), "cuInit"];
        let (child, watch) = followed(&place, mode, &words);
        go_on(&child);
        let events = watch.ended(child);
        assert_eq!(
            events.iter().filter(|event| event.event == EventKind::Driver).count(),
            1,
            "{mode}: {events:#?}"
        );
        assert_eq!(changes(&events).len(), 4, "{mode}");
    }
}

/// Make sure that the calls of all threads of a watched process are seen.
#[test]
fn one_process_has_threads() {
    let Some(root) = host::shared() else { return };
    let place = Place::new(&root);
    let program = place.build("watch.c", "dynamic", "gcc");
    for (mode, _) in modes() {
        let (child, watch) = followed(&place, mode, &[program.to_str().unwrap(), "threads", "100"]);
        go_on(&child);
        let events = watch.ended(child);
        // Only the threads set these.
        let theirs = changes(&events).into_iter().filter(|(.., value)| value == "1" || value == "2");
        assert!(theirs.count() > 0, "{mode}");
    }
}
