//! Processes that want gpumap to wait for ever, to fill its memory, to miss what
//! they hold or to see what they do not.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::attacker::{Attacker, build, build_with, gpumap, run};
use crate::support::elf;
use crate::support::host;
use gpumap::model::DeviceType;

use crate::support::victim::{Scratch, Victim};
use crate::support::wait::is_emulated;
use gpumap::observation::{Detail, Observation};
use gpumap::observe::Options;
use gpumap::observe::scanner::{ProcessSummary, ScanMethod, start};
use serde_json::Value;

/// A device that is no terminal and no memory, and opens without a GPU.
const DEVICE: &str = "/dev/fuse";
const NUMBER: (u32, u32) = (10, 229);
/// A user that nobody is on the machine.
const HOSTILE: u32 = 54_321;

/// What `gpumap snapshot` saves of a process.
fn detail(scratch: &Scratch, pid: u32) -> Detail {
    let path = scratch.path().join("saved.json");
    let (code, _) = gpumap(&["snapshot", "-o", path.to_str().unwrap()]);
    assert!(code == 0 || code == 3, "{code}");
    let saved: Observation = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let process = saved.processes.into_iter().find(|process| process.pid == pid);
    process.unwrap().detail.unwrap()
}

/// The only process in an answer of `gpumap pid PID --json`.
fn answered(text: &str) -> Value {
    let answer: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    answer["cgroups"][0]["processes"][0].clone()
}

fn holds(detail: &Detail) -> u32 {
    let devices = detail.devices.known().unwrap_or_else(|| panic!("{detail:?}"));
    devices.iter().filter(|held| (held.major, held.minor) == NUMBER).map(|held| held.fds).sum()
}

/// The same process as each way to see all of them shows it.
fn glimpses(pid: u32) -> Vec<ProcessSummary> {
    let look = |engine| {
        let mut scanner = start(&Options::default(), Some(engine)).unwrap().scanner;
        scanner.scan().unwrap().into_iter().find(|glimpse| glimpse.pid == pid).unwrap()
    };
    [ScanMethod::Proc, ScanMethod::Iterators].map(look).into()
}

fn glimpsed(glimpse: &ProcessSummary) -> u32 {
    let devices = glimpse.devices.known().unwrap_or_else(|| panic!("{glimpse:?}"));
    devices.iter().filter(|held| (held.major, held.minor) == NUMBER).map(|held| held.fds).sum()
}

/// Make sure that no command waits for memory that never comes, that what such
/// a process has open is seen all the same, and that others are answered.
#[test]
fn memory_that_never_comes() {
    let Some(_host) = host::exclusive() else { return };
    let scratch = Scratch::new();
    let stuck = build(&scratch, "stuck");
    let ordinary = Victim::start(&scratch.build("gcc -fPIC -pie"), "setenv");
    let ways = ["environ-string", "environ-array", "environ-area", "lock"];
    for (kind, how) in ways.iter().flat_map(|how| [("fuse", how), ("userfault", how)]) {
        let attacker = Attacker::start(Command::new(&stuck).args([kind, how]));
        let (pid, other) = (attacker.pid().to_string(), ordinary.pid().to_string());
        let (_, text) = gpumap(&["pid", &pid, &other, "--json", "--timeout", "4s"]);
        let answer: Value = serde_json::from_str(&text).unwrap();
        let processes = answer["cgroups"].as_array().unwrap().iter();
        let processes: Vec<&Value> =
            processes.flat_map(|cgroup| cgroup["processes"].as_array().unwrap()).collect();
        let one = |pid: u32| *processes.iter().find(|one| one["pid"] == pid).unwrap();
        let asked = |pid: u32, moment: &str| one(pid)["visible"][moment]["state"].clone();
        assert_eq!(asked(ordinary.pid(), "live"), "value", "{kind} {how}: {text}");
        // A page that a userfaultfd guards loses it where it is moved to: it is there
        // as soon as anybody touches it, and empty.
        if (kind, *how) != ("userfault", "environ-area") {
            assert_eq!(asked(attacker.pid(), "live"), "unknown", "{kind} {how}: {text}");
        }
        let at_exec =
            if how.starts_with("environ-s") || how.ends_with("array") { "value" } else { "unknown" };
        assert_eq!(asked(attacker.pid(), "at_exec"), at_exec, "{kind} {how}: {text}");
        assert!(one(attacker.pid())["held"].is_array(), "{kind} {how}: {text}");
    }
}

/// Make sure that every command ends in time with processes of one user that
/// hold the lock of their memory for good, and answers for others.
#[test]
fn many_that_never_answer() {
    let Some(_host) = host::exclusive() else { return };
    let scratch = Scratch::new();
    let hidden = build(&scratch, "hidden");
    let ordinary = Victim::start(&scratch.build("gcc -fPIC -pie"), "setenv");
    let attackers: Vec<Attacker> =
        (0..12).map(|_| Attacker::start(Command::new(&hidden).arg("lock"))).collect();
    let other = ordinary.pid().to_string();
    let saved = scratch.path().join("saved.json");
    let commands: [&[&str]; 7] = [
        &["node", "--json"],
        &["cgroup", "/", "--json"],
        &["leftovers", "--job", "999999", "--json"],
        &["audit", "--json"],
        &["snapshot", "-o", saved.to_str().unwrap()],
        &["job", "999999", "--json"],
        &["check", "--pid", &other, "c 195:0", "--json"],
    ];
    for command in commands {
        let (code, text) = gpumap(&[command, &["--timeout", "6s"]].concat());
        assert!((0..=3).contains(&code), "{command:?}: {code}");
        if command[0] == "node" || command[0] == "cgroup" {
            let found =
                text.contains(&format!("\"pid\": {other}")) || text.contains(&format!("\"pid\":{other}"));
            assert!(found, "{command:?} has no {other}: {code}");
        }
    }
    drop(attackers);
}

/// Make sure that a page that is now there and now never comes holds nobody up,
/// and that the value is the one that was written or not known.
#[test]
fn pages_that_change() {
    let Some(_host) = host::exclusive() else { return };
    let scratch = Scratch::new();
    let hidden = build(&scratch, "hidden");
    let attacker = Attacker::start(Command::new(&hidden).arg("swap"));
    let begun = Instant::now();
    let (mut known, mut looks) = (0, 0);
    while begun.elapsed() < Duration::from_secs(8) {
        let (_, text) = gpumap(&["pid", &attacker.pid().to_string(), "--json"]);
        let live = &answered(&text)["visible"]["live"];
        looks += 1;
        if live["state"] == "value" {
            assert_eq!(live["raw"], "7");
            known += 1;
        } else {
            assert_eq!(live["state"], "unknown", "{text}");
        }
    }
    println!("{looks} looks, the value was known in {known}");
}

/// Make sure that descriptors are seen in the table of any thread.
#[test]
fn tables_of_threads() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let hidden = build(&scratch, "hidden");
    for how in ["thread", "orphans", "kept"] {
        let attacker = Attacker::start(Command::new(&hidden).args([how, DEVICE]));
        let detail = detail(&scratch, attacker.pid());
        assert_eq!((holds(&detail), &detail.devices_cut), (1, &None), "{how}");
        for glimpse in glimpses(attacker.pid()) {
            assert_eq!((glimpsed(&glimpse), &glimpse.devices_cut), (1, &None), "{how}");
        }
    }
}

/// Make sure that a device that is only named is not held.
#[test]
fn devices_that_are_named() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let hidden = build(&scratch, "hidden");
    let attacker = Attacker::start(Command::new(&hidden).args(["named", DEVICE, "/dev/zero"]));
    let detail = detail(&scratch, attacker.pid());
    let zero = |kind, major, minor| (kind, major, minor) == (DeviceType::Char, 1, 5);
    assert_eq!(holds(&detail), 0);
    assert!(!detail.devices.known().unwrap().iter().any(|it| zero(it.kind, it.major, it.minor)));
    assert!(glimpses(attacker.pid()).iter().all(|glimpse| glimpsed(glimpse) == 0));
}

/// Make sure that a descriptor whose file system refuses root is one unknown,
/// and hides no other.
#[test]
fn descriptors_that_are_refused() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let hidden = build(&scratch, "hidden");
    let attacker = Attacker::start(Command::new(&hidden).args(["refused", DEVICE]));
    let detail = detail(&scratch, attacker.pid());
    assert_eq!(holds(&detail), 1);
    assert!(detail.devices_cut.as_deref().unwrap().starts_with("2 descriptors"), "{detail:?}");
    let glimpses = glimpses(attacker.pid());
    assert!(glimpses.iter().all(|glimpse| glimpsed(glimpse) == 1));
    // The iterators ask no file system.
    assert_eq!(glimpses[1].devices_cut, None);
    let (code, text) = gpumap(&["pid", &attacker.pid().to_string()]);
    assert!(code == 3 && text.contains("2 descriptors cannot be looked behind"), "{code}: {text}");
}

/// Make sure that a device behind very many descriptors, in tables of many
/// threads, is found, or that it is said that not all were looked at.
#[test]
fn many_descriptors() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let hidden = build(&scratch, "hidden");
    for (threads, count) in [("1", "900"), ("40", "900"), ("600", "20")] {
        let words = ["many", threads, count, DEVICE];
        let attacker = Attacker::start(Command::new(&hidden).args(words));
        let detail = detail(&scratch, attacker.pid());
        println!("{words:?}: {} held, {:?}", holds(&detail), detail.devices_cut);
        assert!(holds(&detail) == 1 || detail.devices_cut.is_some(), "{words:?}: {detail:?}");
    }
}

/// gpumap with a limit of its address space, which its helpers have as well.
fn in_little_memory(arguments: &[&str], kib: &str) -> (i32, String) {
    let script = format!("ulimit -v {kib}; exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_gpumap")]).args(arguments);
    run(&mut command)
}

/// Make sure that a string that is named a hundred thousand times is not kept a
/// hundred thousand times: the first is the one that counts.
#[test]
fn repeated_entries() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let hidden = build(&scratch, "hidden");
    let attacker = Attacker::start(Command::new(&hidden).args(["entries", "60000"]));
    let live = detail(&scratch, attacker.pid()).live;
    let live = live.known().unwrap();
    assert_eq!(live.variables.len(), 8);
    assert!(live.variables[0].cut && live.variables[0].value.as_bytes().len() == 16 << 10);
    assert!(live.cut.as_deref().unwrap().contains("more than"), "{:?}", live.cut);
    let (code, text) = in_little_memory(&["pid", &attacker.pid().to_string(), "--json"], "600000");
    assert!((0..=3).contains(&code) && serde_json::from_str::<Value>(&text).is_ok(), "{code}");
}

/// Make sure that libraries are not read for as long as they say they are, not
/// all at once, and that the process is answered for all the same.
#[test]
fn sparse_libraries() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    // Without a copy of `environ` in the executable, which would come first.
    let hidden = build_with(&scratch, "hidden", &["-fPIC", "-pie"]);
    let files: Vec<PathBuf> = (0..200).map(|at| scratch.path().join(format!("libc.so.{at}"))).collect();
    files.iter().for_each(|file| elf::library(file));
    let attacker = Attacker::start(Command::new(&hidden).arg("libraries").args(&files));
    let (code, text) = in_little_memory(&["pid", &attacker.pid().to_string(), "--json"], "200000");
    assert!(code == 0 || code == 3, "{code}");
    let answer = answered(&text);
    let live = &answer["visible"]["live"];
    let is_late = is_emulated() && live["why"] == "the files that it maps take too long to look into";
    assert!(is_late || live["raw"] == "0", "{text}");
    assert_eq!(answered(&text)["held"], serde_json::json!([]), "{text}");
}

/// Make sure that one user's processes, each of which takes long to look into,
/// do not keep others waiting, and that it is said of which nothing was read.
#[test]
fn slow_processes() {
    let Some(_host) = host::exclusive() else { return };
    let scratch = Scratch::new();
    let hidden = build_with(&scratch, "hidden", &["-static"]);
    let sizes = [elf::TABLE, elf::TABLE];
    let slow = |number: u32| {
        let program = scratch.path().join(format!("slow{number}"));
        elf::with_tables(&hidden, &program, b"", b"", sizes);
        Attacker::start(Command::new(program).arg("idle").uid(HOSTILE).gid(HOSTILE))
    };
    let attackers: Vec<Attacker> = (0..80).map(slow).collect();
    let ordinary = Victim::start(&scratch.build("gcc -fPIC -pie"), "setenv");
    let (code, text) = gpumap(&["node", "--json"]);
    assert_eq!(code, 3);
    let answer: Value = serde_json::from_str(&text).unwrap();
    let cgroups = answer["cgroups"].as_array().unwrap().iter();
    let processes: Vec<&Value> = cgroups.flat_map(|one| one["processes"].as_array().unwrap()).collect();
    let live = |pid: u32| {
        let found = processes.iter().find(|one| one["pid"] == pid);
        found.unwrap_or_else(|| panic!("no {pid}"))["visible"]["live"]["state"].clone()
    };
    assert_eq!(live(ordinary.pid()), "value");
    assert!(attackers.iter().all(|one| live(one.pid()) == "unknown"));
    let errors = answer["errors"].as_array().unwrap();
    let why = |error: &Value| error["why"].as_str().is_some_and(|why| why.contains("more than 10 seconds"));
    assert!(errors.iter().any(why), "{errors:?}");
}
