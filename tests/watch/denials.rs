//! Compares the refusals that `watch` and `denials` report with what the kernel answered.
//!
//! No GPU is needed: the inventory is that of a node on which `/dev/full` is an
//! accelerator, or refusals of all devices are told.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use gpumap::model::{Device, DeviceType, EventKind, Request};
use gpumap::observe::Options;
use gpumap::report::Event;
use gpumap::watch::denials::DenialsWatcher;
use gpumap::watch::{EventSource as _, ProcessScope};

use crate::support::cgroup::Cgroup;
use crate::support::generate::writers;
use crate::support::oracle::Oracle;
use crate::support::rng::Rng;
use crate::support::source::{MapKind, MapSpec};
use crate::support::sysctl::Setting;
use crate::support::wait::patience;
use crate::support::watching::{Place, Watch};
use crate::support::{bpf, host, kernel, probe, programs, skips};

/// Different devices that are refused in a flood: more than there is room for.
const TRIED: u64 = 6000;
/// Users that nobody is on the machine.
const FLOODING: u32 = 54_331;
const CALM: u32 = 54_332;

/// A watcher of refusals; `None` on a kernel that is built without all that can tell them.
fn watcher(options: &Options, scope: &ProcessScope, all_devices: bool) -> Option<DenialsWatcher> {
    match DenialsWatcher::start(options, scope, all_devices) {
        Ok(watcher) => Some(watcher),
        Err(error) if !kernel::has_kprobes() => {
            skips::too_old(&format!("refusals need fexit or kprobes, which this kernel lacks: {error}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn below(cgroup: &Path) -> ProcessScope {
    ProcessScope { cgroups: vec![cgroup.to_owned()], ..ProcessScope::default() }
}

/// Calls it until what it has told is enough.
fn until(watcher: &mut DenialsWatcher, mut is_enough: impl FnMut(&[Event]) -> bool) -> Vec<Event> {
    let end = Instant::now() + patience();
    let mut told = Vec::new();
    loop {
        told.extend(watcher.events());
        if is_enough(&told) {
            return told;
        }
        assert!(Instant::now() < end, "waited too long: {told:#?}");
        sleep(Duration::from_millis(100));
    }
}

/// How often each request on each device was refused, of these events.
fn refused(events: &[Event]) -> BTreeMap<(Device, Request), u64> {
    let mut refused = BTreeMap::new();
    for event in events {
        assert_eq!(event.event, EventKind::Denied, "{event:?}");
        let (devices, denied) = (event.devices.as_ref().unwrap(), event.denied.as_ref().unwrap());
        let number = devices.numbers[0];
        let device = Device { kind: number.kind, major: number.major, minor: number.minor };
        let request = Request::ALL.into_iter().find(|one| one.letters() == denied.request).unwrap();
        *refused.entry((device, request)).or_default() += denied.count;
    }
    refused
}

/// Make sure that under the program of every writer exactly what the kernel refuses is
/// told, with that program, and nothing that it allows.
#[test]
fn every_writer() {
    // A flood of another test would make the kernel leave gpumap's program out, which is told
    // as lost.
    let Some(_root) = host::exclusive() else { return };
    let top = Cgroup::new().unwrap();
    let options = Options::default();
    let Some(mut watcher) = watcher(&options, &below(top.path()), true) else { return };
    let mut rng = Rng::new(29);
    for (number, (name, _)) in (0..).zip(writers::ALL) {
        let leaf = top.child(&format!("leaf{number}")).unwrap();
        let source = writers::nth(number, &mut rng, writers::CgroupIds { cgroup_id: leaf.id() });
        let mut devices: Vec<Device> = probe::devices(&[&source], &mut rng);
        devices.truncate(8);
        let loaded = bpf::load(&source).unwrap();
        bpf::attach(leaf.dir(), &loaded.program, bpf::MULTI, None).unwrap();
        let mut oracle = Oracle::start(&leaf).unwrap();
        let pid = u32::try_from(oracle.pid()).unwrap();
        let allowed = oracle.ask(&devices).unwrap();
        let each = devices.iter().zip(&allowed);
        let wanted: BTreeSet<(Device, Request)> = each
            .flat_map(|(device, allowed)| {
                Request::ALL.into_iter().filter(|one| !allowed.contains(*one)).map(|one| (*device, one))
            })
            .collect();
        let events = until(&mut watcher, |told| told.len() >= wanted.len());
        let found = refused(&events);
        assert_eq!(found.keys().copied().collect::<BTreeSet<_>>(), wanted, "{name}");
        assert!(found.values().all(|count| *count == 1), "{name}: {found:?}");
        for event in &events {
            assert_eq!(event.process.as_ref().unwrap().pid, pid);
            assert!(event.cgroup.is_some(), "{name}: {event:?}");
            assert!(event.cgroup.as_ref().unwrap().ends_with(&format!("/leaf{number}")), "{event:?}");
            let denied = event.denied.as_ref().unwrap();
            let program = denied.program.as_ref().unwrap_or_else(|| panic!("{name}: {event:?}"));
            assert_eq!(program.id, programs::prog_id(&loaded.program));
            assert!(program.instruction.is_some() && event.why.is_none(), "{name}: {event:?}");
        }
        drop(oracle);
        assert!(watcher.events().is_empty());
    }
}

/// An inventory in which `/dev/full`, c 1:7, is the only accelerator.
fn inventory(place: &Path) -> PathBuf {
    let root = place.join("gpus");
    for (name, text) in
        [("proc/devices", "Character devices:\n  1 mem\n  1 habanalabs\n"), ("dev/hl0", "c 1:7\n")]
    {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

/// What a script of Python's does in a cgroup, as a user, once it is told to.
struct Script {
    child: Child,
}

impl Script {
    fn start(place: &Place, uid: u32, script: &str) -> Self {
        let script = format!("import os, sys, threading\nsys.stdin.readline()\nos.setuid({uid})\n{script}");
        let mut command: Command = place.command(&["/usr/bin/python3", "-c", &script]);
        Self { child: command.stdin(Stdio::piped()).spawn().unwrap() }
    }

    fn run(mut self) -> u32 {
        self.child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let pid = self.child.id();
        assert!(self.child.wait().unwrap().success());
        pid
    }
}

/// A function that tries to open a node, and must be refused.
const TRY: &str = "
def refused(path, how):
    try:
        os.open(path, how)
    except PermissionError:
        return
    os._exit(1)
";

/// Make sure that the command tells a refusal by a program of an ancestor: what threads do
/// together as one sum, an mknod, and a device that is no GPU's not at all.
#[test]
fn command() {
    let Some(root) = host::shared() else { return };
    let place = Place::new(&root);
    let gpus = inventory(&place.directory);
    let options = Options { gpu_root: gpus.clone(), ..Options::default() };
    if watcher(&options, &below(&place.cgroup), false).is_none() {
        return;
    }
    let program = programs::constant("deny_all", 0);
    let script = format!(
        "{TRY}
def twice():
    refused('/dev/full', os.O_RDWR)
    refused('/dev/full', os.O_RDWR)
threads = [threading.Thread(target=twice) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
refused('/dev/zero', os.O_RDONLY)
try:
    os.mknod('{}/node', 0o20600, os.makedev(1, 7))
except PermissionError:
    os._exit(0)
os._exit(1)",
        place.directory.display()
    );
    let holder = Script::start(&place, 0, &script);
    let watch =
        Watch::start(&["--cgroup", place.cgroup.to_str().unwrap(), "--gpu-root", gpus.to_str().unwrap()]);
    programs::attach(&File::open(&place.cgroup).unwrap(), &program, bpf::MULTI);
    let pid = holder.run();
    let mut told = Vec::new();
    let mut tried = 0;
    watch.each(|event| {
        if event.event == EventKind::Denied {
            tried += event.denied.as_ref().unwrap().count;
            told.push(event);
        }
        tried == 9
    });
    let gpu = Device { kind: DeviceType::Char, major: 1, minor: 7 };
    let all = [((gpu, Request::Mknod), 1), ((gpu, Request::ReadWrite), 8)];
    assert_eq!(refused(&told), BTreeMap::from(all));
    for event in &told {
        let process = event.process.as_ref().unwrap();
        assert_eq!((process.pid, process.comm.as_str(), process.uid), (pid, "python3", Some(0)));
        assert!(process.start_time.is_some_and(|start| start > 0));
        assert!(event.cgroup.as_ref().unwrap().ends_with("/below"), "{event:?}");
        let denied = event.denied.as_ref().unwrap();
        assert_eq!((denied.error.as_str(), denied.gpu.is_some()), ("EPERM", true));
        let by = denied.program.as_ref().unwrap();
        assert_eq!((by.id, by.name.as_str()), (programs::prog_id(&program), "deny_all"));
        assert!(place.cgroup.ends_with(&by.attached_at[1..]) && by.instruction.is_some(), "{by:?}");
        let mut text = Vec::new();
        gpumap::render::event(&mut text, event, &[]).unwrap();
        let text = String::from_utf8(text).unwrap();
        let id = by.id;
        assert!(
            text.contains(" refused") && text.contains(&format!(": program {id} deny_all at /")),
            "{text}"
        );
    }
}

/// Make sure that what was changed after a refusal is not made up: what is in force then
/// allows it.
#[test]
fn changed() {
    let Some(root) = host::shared() else { return };
    let place = Place::new(&root);
    let options = Options { gpu_root: inventory(&place.directory), ..Options::default() };
    let Some(mut watcher) = watcher(&options, &below(&place.cgroup), false) else { return };
    let cgroup = File::open(&place.cgroup).unwrap();
    let program = programs::constant("deny_all", 0);
    programs::attach(&cgroup, &program, 0);
    Script::start(&place, 0, &format!("{TRY}\nrefused('/dev/full', os.O_RDONLY)")).run();
    programs::detach(&cgroup, &program);
    let event = until(&mut watcher, |told| !told.is_empty()).pop().unwrap();
    let denied = event.denied.as_ref().unwrap();
    // Either it was looked at before, or it says that it does not know.
    assert!(denied.program.is_some() != event.why.is_some(), "{event:?}");
}

/// Make sure that a user who is refused more different devices than there is room for
/// hides no refusal of another, and that what is not told of him is counted.
#[test]
fn flood() {
    let Some(root) = host::shared() else { return };
    let place = Place::new(&root);
    let options = Options::default();
    let Some(mut watcher) = watcher(&options, &below(&place.cgroup), true) else { return };
    let program = programs::constant("deny_all", 0);
    let nodes = place.directory.join("nodes");
    fs::create_dir(&nodes).unwrap();
    for minor in 0..TRIED {
        let kind = nix::sys::stat::SFlag::S_IFCHR;
        let number = nix::sys::stat::makedev(4000, minor);
        let mode = nix::sys::stat::Mode::from_bits_truncate(0o666);
        nix::sys::stat::mknod(&nodes.join(minor.to_string()), kind, mode, number).unwrap();
        // The mask of the test counts.
        let every = fs::Permissions::from_mode(0o666);
        fs::set_permissions(nodes.join(minor.to_string()), every).unwrap();
    }
    for directory in [&place.directory, &nodes] {
        let every = fs::Permissions::from_mode(0o755);
        fs::set_permissions(directory, every).unwrap();
    }
    let flooding = format!(
        "{TRY}\nfor minor in range({TRIED}):\n    refused(f'{}/{{minor}}', os.O_RDWR)",
        nodes.display()
    );
    let (flooding, calm) = (
        Script::start(&place, FLOODING, &flooding),
        Script::start(&place, CALM, &format!("{TRY}\nrefused('/dev/zero', os.O_RDONLY)")),
    );
    programs::attach(&File::open(&place.cgroup).unwrap(), &program, 0);
    // Nothing is read meanwhile: that is one turn.
    flooding.run();
    let pid = calm.run();
    let its = |event: &&Event| event.process.as_ref().is_some_and(|one| one.uid == Some(FLOODING));
    let count = |told: &[Event]| -> u64 {
        told.iter().filter(its).map(|event| event.denied.as_ref().unwrap().count).sum()
    };
    let lost = |told: &[Event]| -> u64 {
        let lost =
            told.iter().filter(|event| event.event == EventKind::Lost).flat_map(|event| &event.lost_by);
        lost.inspect(|one| assert_eq!(one.uid, Some(FLOODING))).map(|one| one.events).sum()
    };
    let is_calm = |event: &Event| event.process.as_ref().is_some_and(|one| one.pid == pid);
    let told = until(&mut watcher, |told| count(told) + lost(told) >= TRIED && told.iter().any(is_calm));
    assert_eq!(count(&told) + lost(&told), TRIED);
    assert!(lost(&told) > 0);
    let calm: Vec<&Event> = told.iter().filter(|event| is_calm(event)).collect();
    assert!(calm.len() == 1 && calm[0].denied.as_ref().unwrap().program.is_some(), "{calm:#?}");
}

/// Make sure that checks for which the kernel does not run gpumap's program are counted: it
/// runs none at a kprobe on a processor that is interrupted while it changes a map. Not all
/// kernels can be interrupted there; then nothing is missed.
#[test]
fn missed() {
    const EACH: u64 = 20_000;
    let Some(root) = host::exclusive() else { return };
    let place = Place::new(&root);
    let Some(mut watcher) = watcher(&Options::default(), &below(&place.cgroup), true) else { return };
    let _interruptible = Setting::change_file("/sys/kernel/debug/sched/preempt".into(), "full");
    programs::attach(&File::open(&place.cgroup).unwrap(), &programs::constant("deny_all", 0), 0);
    let trying = format!("{TRY}\nfor _ in range({EACH}):\n    refused('/dev/zero', os.O_RDWR)");
    let map = bpf::create_map(&MapSpec {
        kind: MapKind::Array,
        key_size: 4,
        value_size: 1 << 20,
        max_entries: 1,
        flags: 0,
        freeze: false,
        entries: vec![],
    });
    let map = map.unwrap();
    let busy = AtomicBool::new(true);
    let mut told = Vec::new();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let value = vec![1; 1 << 20];
                while busy.load(Ordering::Relaxed) {
                    bpf::update(&map, &[0; 4], &value).unwrap();
                }
            });
        }
        let all: Vec<Script> = (0..2).map(|_| Script::start(&place, CALM, &trying)).collect();
        let begun = all.into_iter().map(|script| scope.spawn(|| script.run())).collect::<Vec<_>>();
        while !begun.iter().all(thread::ScopedJoinHandle::is_finished) {
            told.extend(watcher.events());
            sleep(Duration::from_millis(100));
        }
        busy.store(false, Ordering::Relaxed);
    });
    told.extend(watcher.finish());
    let count: u64 = told.iter().filter_map(|event| Some(event.denied.as_ref()?.count)).sum();
    let missed: u64 = told.iter().filter(|event| event.denied.is_none()).filter_map(|event| event.lost).sum();
    println!("{count} refusals were told, and {missed} times a program was not run");
    let all = 2 * EACH;
    // Programs of kprobes were not counted before; those of fexit were since 5.12.
    let counts = kernel::release() >= (6, 7);
    assert!(count <= all && (!counts || count + missed >= all), "{count} and {missed} of {all}");
}
