//! `gpumap watch` on the running kernel.

use crate::support::host;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use crate::support::wait::eventually;
use crate::support::watching::{
    CUDA, Change, ORDER, Place, Watch, assert_changes, changes, is_probed, modes,
};
use gpumap::model::EventKind;
use gpumap::report::Event;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A cgroup with a watch on it.
fn watched() -> Option<(Place, Watch)> {
    let place = Place::new(&host::shared()?);
    let watch = Watch::start(&["--cgroup", place.cgroup.to_str().unwrap()]);
    Some((place, watch))
}

/// What each mode of the program must give after its very first call.
pub(super) fn every_mode(place: &Place, watch: &Watch, program: &Path) {
    let long = ["x".repeat(327), "x".repeat(4096)];
    let modes: [(&str, &[Change<'_>]); 8] = [
        ("", &[]),
        ("putenv", &[("putenv", CUDA, "4,5"), ("unsetenv", CUDA, "unset")]),
        ("unset", &[("unsetenv", CUDA, "unset")]),
        ("clear", &[("clearenv", "CUDA_DEVICE_ORDER", "unset"), ("clearenv", CUDA, "unset")]),
        ("keep", &[("setenv", "HIP_VISIBLE_DEVICES", "2")]),
        ("fail", &[]),
        ("names", &[("setenv", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50")]),
        (
            "long",
            &[
                ("setenv", CUDA, &long[0]),
                ("setenv", CUDA, &long[1]),
                ("setenv", CUDA, &long[1]),
                ("setenv", CUDA, "empty"),
            ],
        ),
    ];
    for (mode, expected) in modes {
        let events = watch.run(&mut place.command(&[program.to_str().unwrap(), mode]));
        let own = events.last().unwrap().process.clone();
        let events: Vec<Event> = events.into_iter().filter(|event| event.process == own).collect();
        let expected: Vec<_> = std::iter::once(ORDER).chain(expected.iter().copied()).collect();
        println!("{mode}");
        assert_changes(&events, &expected);
        let cut: Vec<bool> = events.iter().filter_map(|event| Some(event.new.as_ref()?.cut)).collect();
        assert_eq!(cut.iter().filter(|cut| **cut).count(), usize::from(mode == "long"), "{cut:?}");
    }
}

/// Make sure that every call of glibc is seen from the very first one, with
/// whole values and exact names, and that calls that change nothing are not:
/// with every kind of probes that the kernel has.
#[test]
fn glibc() {
    let Some(root) = host::shared() else { return };
    for (mode, engine) in modes() {
        let place = Place::new(&root);
        let (watch, engines) = Watch::start_with(Some(mode), &["--cgroup", place.cgroup.to_str().unwrap()]);
        assert!(engines.iter().any(|one| one == engine), "{mode}: {engines:?}");
        every_mode(&place, &watch, &place.build("watch.c", "dynamic", "gcc"));
    }
}

/// Make sure that the same holds where the functions are in the program, and
/// in musl. The first process of a file is not seen from its beginning: no
/// probe is there yet.
#[test]
fn other_libraries() {
    let Some((place, watch)) = watched() else { return };
    for (name, flags) in [("static", "gcc -static -DSTATIC"), ("musl", "musl-gcc -DSTATIC")] {
        let program = place.build("watch.c", name, flags);
        let path = program.to_str().unwrap();
        let sleeper = place.build("wait.c", &format!("wait-{name}"), flags);
        // Both are to be known: the static program's own file, musl's one.
        let mut first =
            place.command(&[if name == "static" { path } else { sleeper.to_str().unwrap() }, "wait"]);
        let mut child = first.spawn().unwrap();
        let is_library = |file: &str| file == path || file.contains("musl");
        eventually("the functions are probed", || is_probed(child.id(), is_library));
        // All of them, not the first alone.
        std::thread::sleep(Duration::from_millis(300));
        every_mode(&place, &watch, &program);
        let _ = child.kill();
        child.wait().unwrap();
    }
}

/// Make sure that CPython's ways are seen, with the value before.
#[test]
fn python() {
    let Some((place, watch)) = watched() else { return };
    let script = "import os; e = os.environ; e['CUDA_VISIBLE_DEVICES'] = '1,2'; \
                  os.putenv('CUDA_VISIBLE_DEVICES', '3'); del e['CUDA_VISIBLE_DEVICES']; e['OTHER'] = '1'";
    let events = watch.run(&mut place.command(&["/usr/bin/python3", "-c", script]));
    assert_changes(&events, &[("setenv", CUDA, "1,2"), ("setenv", CUDA, "3"), ("unsetenv", CUDA, "unset")]);
    let old: Vec<_> = events.iter().filter_map(|event| event.old.as_ref()?.raw.clone()).collect();
    assert_eq!(old, ["0", "1,2", "3"]);
    assert!(events.iter().any(|event| event.event == EventKind::Process && event.asked.is_some()));
    let users =
        events.iter().filter_map(|event| event.process.as_ref()).map(|process| process.user.as_deref());
    assert!(users.clone().count() > 3 && users.clone().all(|user| user == Some("root")), "{events:#?}");
}

/// Make sure that a change by a child is the child's, and is not taken for its
/// parent's.
#[test]
fn fork() {
    let Some((place, watch)) = watched() else { return };
    let program = place.build("watch.c", "dynamic", "gcc");
    let events = watch.run(&mut place.command(&[program.to_str().unwrap(), "fork"]));
    assert_changes(&events, &[ORDER, ("setenv", CUDA, "6")]);
    let pids: Vec<u32> = events
        .iter()
        .filter(|event| event.event == EventKind::Visible)
        .map(|event| event.process.as_ref().unwrap().pid)
        .collect();
    assert_ne!(pids[0], pids[1]);
    let old = events.iter().rfind(|event| event.event == EventKind::Visible).unwrap().old.clone().unwrap();
    assert_eq!(old.raw.as_deref(), Some("0"));
}

/// Make sure that a value given to a command is seen as the new program's.
#[test]
fn env_command() {
    let Some((place, watch)) = watched() else { return };
    let events = watch.run(&mut place.command(&["/usr/bin/env", "CUDA_VISIBLE_DEVICES=5", "sleep", "0.3"]));
    assert_changes(&events, &[("putenv", CUDA, "5")]);
    let last = events.iter().rfind(|event| event.event == EventKind::Process).unwrap();
    assert_eq!(last.process.as_ref().unwrap().comm, "sleep");
    assert_eq!(last.asked.as_ref().unwrap().raw.as_deref(), Some("5"));
}

/// Make sure that a change without a call of the C library is found in memory, that of a
/// process too whose main thread has ended.
#[test]
fn stored() {
    let Some((place, watch)) = watched() else { return };
    let program = place.build("watch.c", "dynamic", "gcc");
    for mode in ["store", "store-alone"] {
        let events = watch.run(&mut place.command(&[program.to_str().unwrap(), mode]));
        assert_changes(&events, &[ORDER, ("memory", CUDA, "7")]);
    }
}

/// Make sure that Perl's changes are seen: 5.36 writes into the array itself, 5.40 calls the C
/// library.
#[test]
fn perl() {
    let Some((place, watch)) = watched() else { return };
    let script = "$ENV{CUDA_VISIBLE_DEVICES} = '7'; sleep 3";
    let events = watch.run(&mut place.command(&["/usr/bin/perl", "-e", script]));
    let how = if changes(&events).iter().any(|(how, ..)| how == "setenv") { "setenv" } else { "memory" };
    assert_changes(&events, &[(how, CUDA, "7")]);
}

/// Make sure that a program whose calls cannot be seen is named.
#[test]
fn uncovered() {
    let Some((place, watch)) = watched() else { return };
    let program = place.build("wait.c", "stripped", "gcc -static -s");
    let mut child = place.command(&[program.to_str().unwrap()]).spawn().unwrap();
    let events = watch.until(|event| event.event == EventKind::Uncovered);
    let last = events.last().unwrap();
    assert_eq!(last.process.as_ref().unwrap().pid, child.id());
    assert!(last.why.as_ref().unwrap().contains("cannot be read again either"), "{:?}", last.why);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Make sure that threads that do nothing else lose nothing silently: every
/// call is an event or is counted.
#[test]
fn threads() {
    let Some((place, watch)) = watched() else { return };
    let program = place.build("watch.c", "dynamic", "gcc");
    let events = watch.run(&mut place.command(&[program.to_str().unwrap(), "threads"]));
    let lost: u64 = events.iter().filter_map(|event| event.lost).sum();
    println!("{} events, {lost} lost", changes(&events).len());
    assert!(!changes(&events).is_empty());
}

/// Make sure that a change after the driver's library was initialised is said
/// to be without effect, and one before is not.
#[test]
fn after_driver() {
    let Some((place, watch)) = watched() else { return };
    let program = place.build("watch.c", "dynamic", "gcc");
    let library = place.build("libcuda.c", "libcuda.so.1", "gcc -shared -fPIC");
    let words = [program.to_str().unwrap(), "driver", library.to_str().unwrap(), "cuInit"];
    let events = watch.run(&mut place.command(&words));
    assert_changes(&events, &[ORDER, ("setenv", CUDA, "1"), ("setenv", CUDA, "2"), ("setenv", CUDA, "3")]);
    let effective: Vec<_> = events
        .iter()
        .filter(|event| event.event == EventKind::Visible)
        .map(|event| event.effective)
        .collect();
    assert_eq!(effective[3], Some(false), "{effective:?}");
    assert!(effective.iter().filter(|effective| **effective == Some(false)).count() == 1, "{effective:?}");
    assert_eq!(events.iter().filter(|event| event.event == EventKind::Driver).count(), 1);
}

/// Make sure that a signal ends it cleanly, and that nothing is left in the
/// kernel even if it is killed.
#[test]
fn ends() {
    let Some(root) = host::shared() else { return };
    for (mode, _) in modes() {
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
            let place = Place::new(&root);
            let cgroup = place.cgroup.to_str().unwrap();
            let (mut watch, _) = Watch::start_with(Some(mode), &["--cgroup", cgroup]);
            let held = held(&watch.child);
            assert!(["prog", "link"].iter().all(|kind| held.iter().any(|(one, _)| one == kind)), "{held:?}");
            assert!(held.is_subset(&present()), "{held:?}");
            kill(Pid::from_raw(i32::try_from(watch.child.id()).unwrap()), signal).unwrap();
            let status = watch.child.wait().unwrap();
            assert_eq!(status.success(), signal != Signal::SIGKILL);
            let gone = (0..600).any(|_| {
                std::thread::sleep(Duration::from_millis(50));
                held.is_disjoint(&present())
            });
            assert!(gone, "{mode}: programs or links are left");
            for events in ["/sys/kernel/debug/tracing/uprobe_events", "/sys/kernel/tracing/uprobe_events"] {
                let text = fs::read_to_string(events).unwrap_or_default();
                assert!(!text.contains("aya") && !text.contains("gpumap"), "{text}");
            }
        }
    }
}

/// Make sure that `pid` tells the last change that a watch saw, from its file.
#[test]
fn state_file() {
    let Some(root) = host::shared() else { return };
    let place = Place::new(&root);
    let file = place.directory.join("state");
    let watch =
        Watch::start(&["--cgroup", place.cgroup.to_str().unwrap(), "--state", file.to_str().unwrap()]);
    let script = "import os, time\nos.environ['CUDA_VISIBLE_DEVICES'] = '3'\ntime.sleep(60)";
    let mut child = place.command(&["/usr/bin/python3", "-c", script]).spawn().unwrap();
    watch.until(|event| event.event == EventKind::Visible);
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
    command.args(["pid", "--json", "--state", file.to_str().unwrap(), &child.id().to_string()]);
    let mut document = serde_json::Value::Null;
    eventually("the state file has the change", || {
        document = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        document["cgroups"][0]["processes"][0]["visible"]["last_set_at"].is_string()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let visible = &document["cgroups"][0]["processes"][0]["visible"];
    assert_eq!(visible["last_set"]["raw"], "3", "{document}");
}

/// The ids of the programs and links that a process has descriptors of.
fn held(child: &Child) -> BTreeSet<(String, u64)> {
    let files = fs::read_dir(format!("/proc/{}/fdinfo", child.id())).unwrap();
    let texts = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap_or_default());
    let lines: Vec<String> =
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let id = |line: &String| {
        let (name, id) = line.split_once(':')?;
        Some((name.strip_suffix("_id")?.to_owned(), id.trim().parse().ok()?))
    };
    lines.iter().filter_map(id).filter(|(kind, _)| kind == "prog" || kind == "link").collect()
}

/// The ids of all programs and links of the kernel.
fn present() -> BTreeSet<(String, u64)> {
    let list = |kind: &str| {
        let output = Command::new("bpftool").args([kind, "list", "-j"]).output().unwrap();
        let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let ids = list.as_array().unwrap().iter().filter_map(|one| one["id"].as_u64());
        ids.map(|id| (kind.to_owned(), id)).collect::<Vec<_>>()
    };
    ["prog", "link"].into_iter().flat_map(list).collect()
}
