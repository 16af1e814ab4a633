//! Which processes are counted and since when; what cannot be counted is said, and
//! tried again.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use gpumap::activity::Session;
use gpumap::model::CountTable;
use gpumap::observation::Uncovered;

use super::bench::{self, Bench, launches, uncovered_until};
use crate::support::watching::Place;
use crate::support::{host, wait};

/// A process that holds the lock of its own memory map until it is dropped.
pub struct Holder(Child);

impl Holder {
    pub fn start(place: &Place) -> Self {
        let stuck = place.build("c/stuck.c", "stuck", "gcc");
        let mut command = place.command(&[stuck.to_str().unwrap(), "fuse", "lock"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready"), "{line}");
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It lets go when its input ends.
        drop(self.0.stdin.take());
        sleep(Duration::from_millis(50));
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lets some time pass for a session.
fn pass(session: &mut Session, time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        session.wait(Duration::from_millis(20), None).unwrap();
    }
}

fn nothing(uncovered: &[Uncovered]) -> bool {
    uncovered.is_empty()
}

/// Make sure that a library that could not be attached to, because a process of
/// somebody else held a lock, is told as not covered, and counted soon after the lock
/// is free.
#[test]
fn a_lock_that_is_held() {
    let Some(root) = host::exclusive() else { return };
    let (bench, elsewhere) = (Bench::new(&root), Place::new(&root));
    for mode in bench::modes() {
        let holder = Holder::start(&elsewhere);
        let _held = bench.hold();
        let mut session = bench.begin(mode, 1);
        let uncovered = session.read().unwrap().uncovered;
        let is_named = |one: &Uncovered| {
            one.why.contains("holds the lock") && one.file == bench.driver.to_str().unwrap().into()
        };
        assert!(uncovered.iter().any(is_named), "{uncovered:?}");

        // What it calls now is missing: that is said although it has ended.
        let mut client = bench.start(&bench.client, &["device:0", "launch:5", "sleep:400"]);
        let pid = client.id();
        pass(&mut session, Duration::from_millis(300));
        assert!(client.wait().unwrap().success());
        uncovered_until(&mut session, |all| all.iter().any(|one| one.pid == Some(pid)));
        let again = session.read().unwrap().uncovered;
        assert!(again.iter().all(|one| one.pid != Some(pid)), "{again:?}");

        drop(holder);
        uncovered_until(&mut session, nothing);
        let mut client = bench.start(&bench.client, &["device:0", "launch:7"]);
        let pid = client.id();
        assert!(client.wait().unwrap().success());
        let process = bench::read(&mut session, pid);
        assert_eq!((launches(&process), process.partial), (7, false), "{mode:?}");
    }
}

/// Make sure that a library that a program opens long after it began is found at
/// once; that its first user is told as counted in part, and a program that began
/// before as counted whole if it opened the library later.
#[test]
fn opened_late() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let opener = bench.opener("opener", "");
    let open = format!("open={}", bench.driver.to_str().unwrap());
    for mode in bench::modes() {
        let mut session = bench.session(mode, 1);
        let mut first = bench.start(&opener, &["stop", &open, "stop", "launch=5", "stop"]);
        let mut second = bench.start(&opener, &["stop", &open, "launch=6"]);
        bench::read_line(&mut first, "stopped");
        bench::read_line(&mut second, "stopped");
        // No look that follows an execve finds the library.
        pass(&mut session, Duration::from_millis(600));
        bench::go_on(&mut first);
        bench::libraries_until(&mut session, 1);
        bench::go_on(&mut first);
        bench::go_on(&mut second);
        assert!(second.wait().unwrap().success());
        let process = bench::read(&mut session, second.id());
        // Where mappings had no room, which its first was is not known: it is told as a part.
        let is_known = session.read().unwrap().lost.iter().all(|lost| lost.map != CountTable::Mappings);
        assert_eq!((launches(&process), process.partial), (6, !is_known), "{mode:?}");
        bench::go_on(&mut first);
        assert!(first.wait().unwrap().success());
        let process = bench::read(&mut session, first.id());
        assert_eq!((launches(&process), process.partial), (5, true), "{mode:?}");
        assert!(process.since_ns > 0);
    }
}

/// Make sure that a process is told whose calls nobody counted, because it ended
/// before its library was found.
#[test]
fn too_short() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    for mode in bench::modes() {
        let mut session = bench.session(mode, 1);
        let mut client = bench.start(&bench.client, &["device:0", "launch:9"]);
        let pid = client.id();
        assert!(client.wait().unwrap().success());
        let reading = session.read().unwrap();
        assert!(reading.processes.is_empty(), "{mode:?}: {reading:?}");
        // On a very busy machine the kernel may have had no room to tell it: that is said.
        if reading.lost.iter().any(|lost| lost.map == CountTable::Mappings) {
            continue;
        }
        let [one] = &reading.uncovered[..] else { panic!("{:?}", reading.uncovered) };
        assert_eq!((one.pid, &one.file), (Some(pid), &bench.driver.to_str().unwrap().into()));
        assert!(one.why.contains("ended without a call"), "{one:?}");
        assert!(session.read().unwrap().uncovered.is_empty());
    }
}

/// Make sure that a process is counted whose main thread had ended before.
#[test]
fn without_main_thread() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    for mode in bench::modes() {
        let mut client = bench.start(&bench.client, &["-e", "device:0", "stop", "launch:7", "stop"]);
        bench::read_line(&mut client, "stopped");
        let stat = format!("/proc/{}/stat", client.id());
        wait::eventually("its main thread has ended", || {
            fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z "))
        });
        let mut session = bench.session(mode, 1);
        bench::go_on(&mut client);
        bench::read_line(&mut client, "stopped");
        bench::go_on(&mut client);
        assert!(client.wait().unwrap().success());
        let process = bench::read(&mut session, client.id());
        assert_eq!((launches(&process), process.partial), (7, true), "{mode:?}");
    }
}

/// Make sure that a process stays counted when it is moved out of scope, with its new
/// threads, and that one that called before it came into scope is told as counted in
/// part.
#[test]
fn moved() {
    let Some(root) = bench::shared() else { return };
    let (bench, elsewhere) = (Bench::new(&root), Place::new(&root));
    let opener = bench.opener("opener", "");
    let open = format!("open={}", bench.driver.to_str().unwrap());
    let into = |place: &std::path::Path, pid: u32| {
        fs::write(place.join("below/cgroup.procs"), pid.to_string()).unwrap();
    };
    let _held = bench.hold();
    for mode in bench::modes() {
        let mut session = bench.session(mode, 1);
        let words = [&open, "launch=3", "stop", "launch=4", "thread=5"];
        let mut leaves = bench.start(&opener, &words);
        bench::read_line(&mut leaves, "stopped");
        into(&elsewhere.cgroup, leaves.id());
        bench::go_on(&mut leaves);
        assert!(leaves.wait().unwrap().success());
        let process = bench::read(&mut session, leaves.id());
        assert_eq!((launches(&process), process.partial), (12, false), "{mode:?}");

        let mut comes = bench.start(&opener, &[&["stop"], &words[..]].concat());
        bench::read_line(&mut comes, "stopped");
        into(&elsewhere.cgroup, comes.id());
        bench::go_on(&mut comes);
        bench::read_line(&mut comes, "stopped");
        into(bench.cgroup(), comes.id());
        bench::go_on(&mut comes);
        assert!(comes.wait().unwrap().success());
        let process = bench::read(&mut session, comes.id());
        assert_eq!((launches(&process), process.partial), (9, true), "{mode:?}");
    }
}
