//! Compares the opens and closes of GPU devices that `watch` reports with what
//! processes do.
//!
//! No GPU is needed: the inventory is that of a node on which `/dev/full`, which
//! everybody can open, is an accelerator.

use crate::support::host;
use crate::support::programs;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::wait::patience;
use crate::support::watching::{Place, Watch};
use gpumap::model::{DeviceType, EventKind};
use gpumap::observe::Options;
use gpumap::observe::scanner::ScanMethod;
use gpumap::report::Event;
use gpumap::watch::opens::OpensWatcher;
use gpumap::watch::{EventSource as _, ProcessScope};

/// Opens the node that it is told and says so, closes it and says so, ends.
const SCRIPT: &str = "import os, sys
for line in sys.stdin:
    line = line.strip()
    if line == 'close':
        os.close(fd)
    else:
        fd = os.open(line, os.O_RDWR | os.O_NOCTTY)
    print('done', flush=True)";

/// The device that stands for an accelerator: `/dev/full`.
const MAJOR: u32 = 1;
const MINOR: u32 = 7;

/// An inventory in which that device is the only accelerator.
fn inventory(place: &Path) -> PathBuf {
    let root = place.join("gpus");
    for (name, text) in [
        ("proc/devices", "Character devices:\n  1 mem\n  1 habanalabs\n"),
        ("dev/hl0", &format!("c {MAJOR}:{MINOR}\n")),
    ] {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

/// A process in the cgroup that does as it is told, and the nodes.
struct Holder {
    child: Child,
    gpu: PathBuf,
    other: PathBuf,
}

impl Holder {
    fn new(place: &Place) -> Self {
        let mut command = place.command(&["/usr/bin/python3", "-c", SCRIPT]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        Self { child, gpu: "/dev/full".into(), other: "/dev/zero".into() }
    }

    fn tell(&mut self, what: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{what}").unwrap();
        let mut answer = [0; 5];
        self.child.stdout.as_mut().unwrap().read_exact(&mut answer).unwrap();
    }

    fn open(&mut self, path: &Path) {
        self.tell(path.to_str().unwrap());
    }

    fn end(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The next events that are asked for. A look may be put off for long, as looks must not take
/// all the time.
fn told(watcher: &mut OpensWatcher, is_one: impl Fn(&Event) -> bool) -> Vec<Event> {
    let end = Instant::now() + 2 * patience();
    loop {
        let events: Vec<Event> = watcher.events().into_iter().filter(&is_one).collect();
        if !events.is_empty() {
            return events;
        }
        assert!(Instant::now() < end, "waited too long");
        sleep(Duration::from_millis(10));
    }
}

fn assert_about(event: &Event, what: EventKind, holder: &Holder) {
    assert_eq!(event.event, what);
    assert_eq!(event.process.as_ref().unwrap().pid, holder.child.id());
    let devices = event.devices.as_ref().unwrap();
    let numbers: Vec<_> =
        devices.numbers.iter().map(|one| (one.kind, one.major, one.minor, one.fds)).collect();
    assert_eq!(numbers, [(DeviceType::Char, MAJOR, MINOR, 1)]);
    assert_eq!((devices.held.len(), devices.held_shared.len()), (1, 0));
    assert!(event.cgroup.as_ref().unwrap().ends_with("/below"), "{event:?}");
}

/// Make sure that both engines tell a GPU that is opened and closed, by a
/// process in scope alone, and no other device.
#[test]
fn both_engines() {
    let Some(root) = host::shared() else { return };
    for engine in [ScanMethod::Proc, ScanMethod::Iterators] {
        let place = Place::new(&root);
        let elsewhere = Place::new(&root);
        let options = Options { gpu_root: inventory(&place.directory), ..Options::default() };
        let (mut holder, mut stranger) = (Holder::new(&place), Holder::new(&elsewhere));
        holder.open(Path::new("/dev/null"));
        let scope = ProcessScope { cgroups: vec![place.cgroup.clone()], ..ProcessScope::default() };
        let mut watcher = OpensWatcher::start_with(&options, &scope, Some(engine)).unwrap();
        assert_eq!(watcher.engine(), format!("open devices by {}", engine.name()));
        let mut next = || told(&mut watcher, |_| true);
        stranger.open(&stranger.gpu.clone());
        holder.open(&holder.other.clone());
        holder.open(&holder.gpu.clone());
        let events = next();
        assert_eq!(events.len(), 1, "{events:#?}");
        assert_about(&events[0], EventKind::Opened, &holder);
        assert_eq!(events[0].devices.as_ref().unwrap().held_denied, Some(Vec::new()));
        holder.tell("close");
        let events = next();
        assert_eq!(events.len(), 1, "{events:#?}");
        assert_about(&events[0], EventKind::Closed, &holder);
        holder.open(&holder.gpu.clone());
        assert_about(&next()[0], EventKind::Opened, &holder);
        holder.end();
        let events = next();
        assert_eq!(events.len(), 1, "{events:#?}");
        assert_about(&events[0], EventKind::Closed, &holder);
    }
}

/// Make sure that a GPU is named that is held although it may not be opened.
#[test]
fn denied() {
    let Some(root) = host::shared() else { return };
    let place = Place::new(&root);
    let options = Options { gpu_root: inventory(&place.directory), ..Options::default() };
    let mut holder = Holder::new(&place);
    let cgroup = place.cgroup.join("below");
    let program = programs::constant("deny_all", 0);
    let mut watcher =
        OpensWatcher::start(&options, &ProcessScope { all: true, ..ProcessScope::default() }).unwrap();
    // The rules are asked when it is opened, and not afterwards.
    holder.open(&holder.gpu.clone());
    programs::attach(&File::open(&cgroup).unwrap(), &program, 0);
    let about = |event: &Event| event.process.as_ref().is_some_and(|one| one.pid == holder.child.id());
    let event = told(&mut watcher, about).remove(0);
    let devices = event.devices.unwrap();
    assert_eq!(devices.held_denied, Some(devices.held));
}

/// Make sure that the command says it, in JSON and as a line.
#[test]
fn command() {
    let Some(root) = host::shared() else { return };
    let place = Place::new(&root);
    let gpus = inventory(&place.directory);
    let watch =
        Watch::start(&["--cgroup", place.cgroup.to_str().unwrap(), "--gpu-root", gpus.to_str().unwrap()]);
    let mut holder = Holder::new(&place);
    holder.open(&holder.gpu.clone());
    let opened = watch.until(|event| event.event == EventKind::Opened).pop().unwrap();
    assert_about(&opened, EventKind::Opened, &holder);
    let mut text = Vec::new();
    gpumap::render::event(&mut text, &opened, &[]).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("python3: opened ") && text.trim_end().ends_with("(1:7)"), "{text}");
    holder.tell("close");
    let closed = watch.until(|event| event.event == EventKind::Closed).pop().unwrap();
    assert_about(&closed, EventKind::Closed, &holder);
    assert!(fs::metadata(&holder.gpu).unwrap().rdev() == nix::sys::stat::makedev(MAJOR.into(), MINOR.into()));
}
