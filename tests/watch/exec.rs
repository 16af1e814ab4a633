//! Compares what `gpumap watch` knows of the environment that a program gets with
//! what it got. The kernel reports it before the program's first instruction.

use crate::support::host;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::watching::{CUDA, Place, Watch, assert_changes, modes};
use gpumap::model::EventKind;
use gpumap::observation::Environment;
use gpumap::report::Event;
use gpumap::watch::{Fact, FactSource, Mode, ProcessScope};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const ORDER: &str = "CUDA_DEVICE_ORDER";
/// Name, value and whether that was cut.
type Given<'a> = (&'a str, &'a [u8], bool);

/// Executes a program with these strings as environment; input of `exec.c`.
fn start(place: &Place, words: &[&str], strings: &[Vec<u8>]) -> Child {
    let mut child = place.command(words).stdin(Stdio::piped()).spawn().unwrap();
    let mut bytes: Vec<u8> = strings.iter().flat_map(|string| [string.as_slice(), b"\0"].concat()).collect();
    // No string at all and one that is empty differ.
    bytes.truncate(if strings.is_empty() { 0 } else { bytes.len() });
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    child
}

/// What the source tells of the last program that a process executed: the
/// environment, if it came whole.
fn told(source: &mut FactSource, mut child: Child) -> Option<Environment> {
    let pid = child.id();
    child.wait().unwrap();
    let mut last = None;
    for _ in 0..1200 {
        for fact in source.wait(Duration::from_millis(100), None).unwrap() {
            match fact {
                Fact::Exec { subject, environment, .. } if subject.pid == pid => last = Some(environment),
                Fact::Exit { subject, .. } if subject.pid == pid => return last.unwrap(),
                Fact::Lost(lost) => panic!("{lost:?} lost"),
                _ => {}
            }
        }
    }
    panic!("its end was not told");
}

fn strings(strings: &[&str]) -> Vec<Vec<u8>> {
    strings.iter().map(|string| string.as_bytes().to_vec()).collect()
}

/// `before`, and our variable.
fn last(before: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    [before, strings(&["CUDA_VISIBLE_DEVICES=5"])].concat()
}

fn filled(start: &str, length: usize) -> Vec<u8> {
    [start.as_bytes(), &vec![b'x'; length - start.len()]].concat()
}

fn numbered(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| format!("FILLER_{number}=value").into_bytes()).collect()
}

/// Compares what is told of an environment with what is in it.
fn assert_told(
    source: &mut FactSource,
    place: &Place,
    program: &str,
    given: &[Vec<u8>],
    expected: &[Given<'_>],
) {
    for thread in ["main", "thread"] {
        let environment = told(source, start(place, &[program, thread, program, "end"], given));
        let environment = environment.unwrap();
        let found: Vec<Given<'_>> = environment
            .variables
            .iter()
            .map(|variable| (variable.name.as_str(), variable.value.as_bytes(), variable.cut))
            .collect();
        assert_eq!((found.as_slice(), &environment.cut), (expected, &None), "{thread}");
    }
}

/// Environments of which all is told.
fn whole(source: &mut FactSource, place: &Place, program: &str) {
    let five: &[Given<'_>] = &[(CUDA, b"5", false)];
    let mut check = |given: &[Vec<u8>], expected| assert_told(source, place, program, given, expected);
    check(&[], &[]);
    check(&last(Vec::new()), five);
    check(&last(numbered(1000)), five);
    check(&last(vec![filled("A=", 100_000), filled("B=", 100_000)]), five);
    check(&last(vec![filled("A=", 131_000), filled("CUDA_VISIBLE_DEVICES_NOT=", 70_000)]), five);
    // Around the pieces in which the kernel side reads.
    let lengths = [4093, 4094, 4095, 4096, 4097, 8188, 8189, 8190, 8191, 8192];
    check(&last(lengths.map(|length| filled("A=", length)).to_vec()), five);
    let hidden = [filled("A=", 4095), b"CUDA_VISIBLE_DEVICES=9".to_vec()].concat();
    check(&last(vec![hidden]), five);
    let mut long =
        vec![filled("CUDA_VISIBLE_DEVICES=", 21 + 5000), filled("CUDA_VISIBLE_DEVICES=", 21 + 4096)];
    long.extend([filled("CUDA_DEVICE_ORDER=", 18 + 400), filled("CUDA_DEVICE_ORDER=", 18 + 65)]);
    let x = [b'x'; 4096];
    let expected =
        [(CUDA, &x[..], true), (CUDA, &x, false), (ORDER, &x[..400], false), (ORDER, &x[..65], false)];
    check(&long, &expected);
    check(&[b"CUDA_VISIBLE_DEVICES=\xff\xfe\x80".to_vec()], &[(CUDA, b"\xff\xfe\x80", false)]);
}

/// Names that repeat, and names that are others.
fn names(source: &mut FactSource, place: &Place, program: &str) {
    let twice = ["CUDA_VISIBLE_DEVICES=1", "", "CUDA_DEVICE_ORDER=2", "CUDA_VISIBLE_DEVICES", ""];
    let twice = [&twice[..], &["CUDA_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES==3", ""]].concat();
    let expected: &[Given<'_>] =
        &[(CUDA, b"1", false), (ORDER, b"2", false), (CUDA, b"", false), (CUDA, b"=3", false)];
    assert_told(source, place, program, &strings(&twice), expected);
    let others = [
        "CUDA_VISIBLE_DEVICESX=1",
        "CUDA_VISIBLE_DEVICE=1",
        "XCUDA_VISIBLE_DEVICES=1",
        "CUDA_VIS",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_VISIBLE_DEVICES_WITH_A_NAME_THAT_IS_LONGER_THAN_ANY=1",
        "=CUDA_VISIBLE_DEVICES=1",
        "SLURM_JOB_ID=1",
        "C",
    ];
    assert_told(source, place, program, &strings(&others), &[]);
    let many: Vec<Vec<u8>> = vec![b"ZE_AFFINITY_MASK=0".to_vec(); 64];
    assert_told(source, place, program, &many, &[("ZE_AFFINITY_MASK", b"0".as_slice(), false); 64]);
}

/// Make sure that a program's environment is told by the kernel as it is, in
/// order, whole or marked, whichever thread executes it, with every object.
#[test]
fn environments() {
    let Some(root) = host::shared() else { return };
    for (mode, _) in modes() {
        println!("{mode}");
        let place = Place::new(&root);
        let program = place.build("exec.c", "exec", "gcc");
        let scope = ProcessScope { cgroups: vec![place.cgroup.clone()], ..ProcessScope::default() };
        let mut source = FactSource::start(&scope, Path::new("/proc"), Mode::named(mode)).unwrap();
        whole(&mut source, &place, program.to_str().unwrap());
        names(&mut source, &place, program.to_str().unwrap());
    }
}

/// Make sure that one that is too large is not told in part, and that the
/// events have it nevertheless.
#[test]
fn too_large() {
    let Some(root) = host::shared() else { return };
    let place = Place::new(&root);
    let program = place.build("exec.c", "exec", "gcc");
    let program = program.to_str().unwrap();
    let huge = ["A=", "B=", "C=", "D=", "E=", "F="].map(|name| filled(name, 100_000)).to_vec();
    let many = vec![b"CUDA_VISIBLE_DEVICES=5".to_vec(); 66];
    let cases = [last(huge), last(numbered(5000)), many];
    let scope = ProcessScope { cgroups: vec![place.cgroup.clone()], ..ProcessScope::default() };
    let mut source = FactSource::start(&scope, Path::new("/proc"), None).unwrap();
    for case in &cases {
        assert_eq!(told(&mut source, start(&place, &[program, "main", program, "end"], case)), None);
    }
    drop(source);
    let watch = Watch::start(&["--cgroup", place.cgroup.to_str().unwrap()]);
    for case in &cases {
        let mut child = start(&place, &[program, "main", program, "wait"], case);
        watch.until(|event| value(event) == Some("5"));
        child.kill().unwrap();
        watch.ended(child);
    }
}

/// What a process that began asks for.
fn value(event: &Event) -> Option<&str> {
    let asked = event.asked.as_ref().filter(|_| event.event == EventKind::Process)?;
    asked.raw.as_deref()
}

fn signal(watch: &Watch, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(watch.child.id()).unwrap()), signal).unwrap();
}

/// Make sure that processes that are gone before anybody looks are told all
/// the same, each with its own value, its cgroup and what it may open.
#[test]
fn short_lives() {
    let Some(root) = host::shared() else { return };
    let place = Place::new(&root);
    let program = place.build("exec.c", "exec", "gcc -static");
    let program = program.to_str().unwrap();
    let watch = Watch::start(&["--cgroup", place.cgroup.to_str().unwrap()]);
    signal(&watch, Signal::SIGSTOP);
    let mut child = place.command(&[program, "each", "2000", program, "end"]).spawn().unwrap();
    child.wait().unwrap();
    signal(&watch, Signal::SIGCONT);
    let (mut found, pid) = (BTreeMap::new(), child.id());
    watch.each(|event| {
        assert_ne!(event.event, EventKind::Lost, "{event:?}");
        let whose = event.process.as_ref().map_or(0, |process| process.pid);
        if let Some(value) = value(&event).filter(|_| whose != pid) {
            assert!(found.insert(value.parse().unwrap(), whose).is_none(), "{value} twice");
            let cgroup = event.cgroup.clone().unwrap_or_default();
            assert!(
                cgroup.ends_with("/below") && place.cgroup.join("below").ends_with(&cgroup[1..]),
                "{cgroup}"
            );
            assert!(event.asked.as_ref().unwrap().gpus.is_some(), "{event:?}");
        }
        event.event == EventKind::Exit && whose == pid
    });
    assert_eq!(found.keys().copied().collect::<Vec<u32>>(), (0..2000).collect::<Vec<u32>>());
}

/// Make sure that a value is told even where the cgroup is gone too.
#[test]
fn gone() {
    let Some(root) = host::shared() else { return };
    let place = Place::new(&root);
    let program = place.build("exec.c", "exec", "gcc -static");
    let watch = Watch::start(&["--cgroup", place.cgroup.to_str().unwrap()]);
    signal(&watch, Signal::SIGSTOP);
    let mut child = place.command(&[program.to_str().unwrap(), "end"]).spawn().unwrap();
    child.wait().unwrap();
    fs::remove_dir(place.cgroup.join("below")).unwrap();
    signal(&watch, Signal::SIGCONT);
    let pid = child.id();
    let events = watch.until(|event| event.event == EventKind::Exit);
    // It moved into the cgroup before it executed the program.
    let its = |event: &&Event| event.process.as_ref().is_some_and(|one| one.pid == pid);
    let event = events.iter().filter(its).find(|event| event.event != EventKind::Moved).unwrap();
    assert_eq!((value(event), &event.cgroup), (Some("0"), &None), "{event:?}");
}

/// Make sure that what a program does first of all does not change what it was
/// given, and that the first change of a variable tells what was before.
#[test]
fn first_of_all() {
    let Some(root) = host::shared() else { return };
    let place = Place::new(&root);
    let program = place.build("exec.c", "exec", "gcc");
    let program = program.to_str().unwrap();
    let watch = Watch::start(&["--cgroup", place.cgroup.to_str().unwrap()]);
    let words = [program, "main", program, "overwrite"];
    let events = watch.ended(start(&place, &words, &strings(&["A=1", "CUDA_VISIBLE_DEVICES=7"])));
    assert_eq!(events.iter().filter_map(value).collect::<Vec<_>>(), ["0", "7"]);
    let words = [program, "main", program, "set"];
    for (given, old) in [(strings(&[]), None), (strings(&["CUDA_VISIBLE_DEVICES=7"]), Some("7"))] {
        let events = watch.ended(start(&place, &words, &given));
        assert_changes(&events, &[("setenv", CUDA, "8")]);
        let change = events.iter().find(|event| event.event == EventKind::Visible).unwrap();
        let before = change.old.as_ref().unwrap();
        assert_eq!(before.raw.as_deref(), old);
        assert_eq!(before.state.to_string(), if old.is_some() { "value" } else { "unset" });
    }
}
