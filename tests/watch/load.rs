//! Runs `gpumap watch` under load: up to the rate that its manual promises no event
//! is lost, and beyond that every loss is counted.

use crate::support::host;
use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::thread;

use crate::support::watching::{Place, Watch};
use gpumap::model::EventKind;
use gpumap::report::Event;

const CUDA: &str = "CUDA_VISIBLE_DEVICES";
/// Memory of a watch beside the pages of its own files, in KiB. A release build has some
/// 30 MiB of these, a debug build twice as many; together they stay below what the manual
/// page says.
const MEMORY: u64 = 32 << 10;
/// Its memory is looked at once in so many events.
const LOOKED: usize = 256;

/// A cgroup with a watch on it.
fn watched() -> Option<(Place, Watch)> {
    let place = Place::new(&host::exclusive()?);
    let watch = Watch::start(&["--cgroup", place.cgroup.to_str().unwrap()]);
    Some((place, watch))
}

/// The program, which begins with a byte and ends when its input does.
struct Load {
    child: Child,
    input: Option<ChildStdin>,
}

impl Load {
    fn start(place: &Place, words: &[&str]) -> Self {
        let program = place.build("watch_load.c", "load", "gcc");
        let mut command = place.command(&[&[program.to_str().unwrap()], words].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        Self { child, input }
    }

    fn say(&mut self, byte: u8) {
        self.input.as_mut().unwrap().write_all(&[byte]).unwrap();
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        drop(self.input.take());
        self.child.wait().unwrap();
    }
}

/// What a watch told of a load.
#[derive(Default)]
struct Told {
    /// Values that calls gave the variable, and that were found in memory.
    called: HashSet<String>,
    all: HashSet<String>,
    lost: u64,
    /// Calls whose value before is not the one that the last event of it told.
    broken: usize,
    last: Option<String>,
    events: usize,
    /// The most memory that the watch was seen with, in KiB.
    memory: u64,
}

impl Told {
    fn take(&mut self, event: &Event) {
        self.lost += event.lost.unwrap_or(0);
        if event.event != EventKind::Visible || event.variable.as_deref() != Some(CUDA) {
            return;
        }
        let new = event.new.as_ref().unwrap().raw.clone().unwrap();
        let old = event.old.as_ref().map(|old| old.raw.clone());
        self.broken += usize::from(self.last.is_some() && old.is_some_and(|old| old != self.last));
        self.last = Some(new.clone());
        let asked = event.asked.as_ref().and_then(|asked| asked.raw.clone());
        assert_eq!(asked.as_ref(), Some(&new), "{event:?}");
        if event.how.map(<&str>::from) == Some("setenv") {
            assert!(self.called.insert(new.clone()), "{new} twice");
        }
        self.all.insert(new);
    }
}

/// Runs a load, and gives what the watch told of it.
fn run(threads: usize, count: usize, gap: u64) -> Option<(Told, Watch)> {
    let (place, watch) = watched()?;
    let numbers = [threads.to_string(), count.to_string(), gap.to_string()];
    let mut load = Load::start(&place, &[&numbers[0], &numbers[1], &numbers[2]]);
    watch.until(|event| event.variable.as_deref() == Some("CUDA_DEVICE_ORDER"));
    load.say(b'x');
    let mut told = Told::default();
    let pid = load.child.id();
    let end = thread::spawn(move || drop(load));
    watch.each(|event| {
        if told.events.is_multiple_of(LOOKED) {
            told.memory = told.memory.max(anonymous(&watch));
        }
        told.events += 1;
        told.take(&event);
        event.event == EventKind::Exit && event.process.as_ref().is_some_and(|one| one.pid == pid)
    });
    end.join().unwrap();
    println!("{} calls: {} told, {} lost", threads * count, told.called.len(), told.lost);
    Some((told, watch))
}

/// Make sure that the rate that the manual page names is kept up with.
#[test]
fn stated_rate() {
    // Each thread waits at least so long between two calls: 5000 a second.
    let Some((told, _watch)) = run(4, 5000, 800) else { return };
    assert_eq!((told.all.len(), told.lost, told.broken), (20_000, 0, 0));
}

/// Make sure that a burst that fits into the ring is told whole, each change
/// with the one before it.
#[test]
fn burst() {
    let Some((told, _watch)) = run(1, 30_000, 0) else { return };
    assert_eq!((told.all.len(), told.lost, told.broken), (30_000, 0, 0));
}

/// Make sure that far beyond that every call is told or counted, that nothing
/// false is said of what was before, and that memory stays bounded.
#[test]
fn flood() {
    const THREADS: usize = 4;
    let Some((told, _watch)) = run(THREADS, 100_000, 0) else { return };
    let lost = usize::try_from(told.lost).unwrap();
    // Beside the calls, the end of the process may be among what was lost: the kernel tells
    // it once more for each thread that was still ending when the last one did. A value may
    // be found in memory before its call is told, or lost.
    assert!(told.called.len() + lost <= 400_001 + THREADS, "{} and {lost}", told.called.len());
    assert!(told.all.len() + lost >= 400_000, "{} and {lost}", told.all.len());
    assert_eq!(told.broken, 0);
    println!("{} KiB", told.memory);
    assert!(told.memory > 0 && told.memory <= MEMORY, "{} KiB", told.memory);
}

/// The memory that a watch has now, in KiB, beside pages of files.
fn anonymous(watch: &Watch) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", watch.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// Make sure that a watch begins with many processes there, sees one of them,
/// and that its end is no harm to any.
#[test]
fn many_processes() {
    let Some(root) = host::exclusive() else { return };
    let place = Place::new(&root);
    let mut load = Load::start(&place, &["many", "2000"]);
    let mut words = BufReader::new(load.child.stdout.take().unwrap()).lines();
    assert_eq!(words.next().unwrap().unwrap(), "ready");
    let watch = Watch::start(&["--cgroup", place.cgroup.to_str().unwrap()]);
    load.say(b'1');
    let events = watch.until(|event| event.event == EventKind::Visible);
    let last = events.last().unwrap();
    assert_eq!(last.new.as_ref().unwrap().raw.as_deref(), Some("1"));
    assert_eq!(last.old.as_ref().unwrap().raw.as_deref(), Some("0"));
    assert_ne!(last.process.as_ref().unwrap().pid, load.child.id());
    assert_eq!(words.next().unwrap().unwrap(), "1");
    load.say(b'2');
    assert_eq!(words.next().unwrap().unwrap(), "2000");
    drop(watch);
    load.say(b'3');
    assert_eq!(words.next().unwrap().unwrap(), "2000");
}
