//! C programs written by hand against what the decoder assumes, one a file in
//! `by_hand/`: what each one does, and which answers may be unknown.
//!
//! * `// unknown: none`: every answer is known;
//! * `// unknown: major N`: answers about this driver alone may be unknown, and
//!   at least one is;
//! * `// unknown: some`: what is asked changes the policy, so that some answers
//!   must be unknown;
//! * `// refused`: this kernel does not take the program. Where one does, the
//!   test asks for a better line;
//! * `// since: 7.0`, `// until: 7.1`: kernels before and after these need not take the
//!   program;
//! * `// fill: MAP KEY VALUE`: an entry, in hexadecimal digits; `fill each CPU`
//!   gives every CPU the value;
//! * `// tail: MAP INDEX PROGRAM`: a program in a map for tail calls;
//! * `// attach: PROGRAM WORDS`: how a program is attached. Without such a line
//!   `policy` is attached with the flag `multi`. The words are `override`, `multi`,
//!   `preorder`, `link`, and `up N`, which is a cgroup N levels above the one asked
//!   about. The programs are attached in the order of the lines;
//! * `// set: v4`: the oldest instruction set that has what the program needs,
//!   v3 otherwise.
//!
//! A program that includes `pre.h`, which is beside it, is compiled without the head
//! that the others share. `KERNEL` is the running kernel's release as a number: 618, 700.
//! `GPUMAP_PROGRAMS=DIR` takes the programs of another folder.
//!
//! Each is compiled with `-O2` for that set. `GPUMAP_LEVELS=all` takes every level
//! and every newer set as well, `GPUMAP_ONLY=TEXT,…` only files with one of these in
//! their names.

use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use gpumap::model::{Device, DeviceType, Request, Verdict};
use gpumap::observation::{Observation, Program};
use gpumap::policy::{Combination, Context, Decoder};

use super::clang::{self, Clang, Object, Pins};
use super::put;
use super::write::Fill;
use crate::support::bench::{Attachment, Bench};
use crate::support::bpf::{self, MULTI, OVERRIDE, PREORDER};
use crate::support::law::{self, Asked, Scratch, Views};
use crate::support::{host, inspect, kernel};

/// The driver about which questions change something: asked about first.
const TRIGGER: u32 = 7;

/// The first kernel with `BPF_F_PREORDER`.
const FIRST_PREORDER: (u32, u32) = (6, 15);

/// Programs that are compared beside each other.
const WORKERS: usize = 2;

/// One of so many questions is proven, too.
const PROVEN_EVERY: usize = 29;

/// What the head of a file says.
#[derive(Debug, PartialEq)]
enum Expected {
    Known,
    UnknownFor(u32),
    SomeUnknown,
    Refused,
}

/// Make sure that no answer about these programs differs from the kernel's,
/// also for a reader to whom it hides the names of helpers, and that what does
/// not depend on state that questions change is known.
#[test]
fn programs_written_by_hand_match_the_kernel() {
    let Some(_host) = host::shared() else { return };
    let Some(clang) = clang::clang() else { return };
    let only = std::env::var("GPUMAP_ONLY").unwrap_or_default();
    let mut files = files();
    files.retain(|path| only.split(',').any(|part| path.to_string_lossy().contains(part)));
    let next = AtomicUsize::new(0);
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers = [(); WORKERS].map(|()| scope.spawn(|| compared(&files, &next, clang)));
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect()
    });
    assert!(failures.is_empty(), "{} programs:\n{}", failures.len(), failures.join("\n"));
}

/// Takes one file after the other, in cgroups of its own; what differs.
fn compared(files: &[PathBuf], next: &AtomicUsize, clang: &Clang) -> Vec<String> {
    let (scratch, pins) = (Scratch::new(), Pins::new().expect("a BPF file system"));
    let mut bench = Bench::new().expect("scratch cgroups and an oracle");
    let mut failures = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(path) = files.get(number) else { return failures };
        let text = std::fs::read_to_string(path).expect("a program");
        let name = path.file_stem().expect("a name").to_string_lossy();
        for (level, set) in ways(&text, clang) {
            let views = Views::of(number as u64);
            let way = Way { name: &format!("{name}{level}{set}"), level, set, views };
            failures.extend(one(&text, &way, clang, &pins, &mut bench, &scratch.0).err());
        }
    }
}

fn files() -> Vec<PathBuf> {
    let folder = std::env::var_os("GPUMAP_PROGRAMS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel/compiled/by_hand"),
        PathBuf::from,
    );
    let entries = std::fs::read_dir(folder).expect("programs");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    files.sort();
    files
}

/// The levels and instruction sets to compile a program with.
fn ways(text: &str, clang: &Clang) -> Vec<(&'static str, &'static str)> {
    let oldest = text.lines().find_map(|line| line.strip_prefix("// set: ")).unwrap_or("v3");
    let mut sets = clang.sets.iter().copied().filter(|set| *set >= oldest);
    match std::env::var("GPUMAP_LEVELS").as_deref() {
        Ok("all") => sets.flat_map(|set| ["-O1", "-O2", "-O3", "-Os"].map(|level| (level, set))).collect(),
        _ => sets.next().map(|set| ("-O2", set)).into_iter().collect(),
    }
}

/// A program's name in messages, and how it is compiled.
struct Way<'a> {
    name: &'a str,
    level: &'a str,
    set: &'a str,
    views: Views,
}

fn one(
    text: &str,
    way: &Way<'_>,
    clang: &Clang,
    pins: &Pins,
    bench: &mut Bench,
    scratch: &Path,
) -> Result<(), String> {
    let name = way.name;
    let object = scratch.join(format!("{name}.o"));
    let head = if text.contains("#include \"pre.h\"") { "" } else { include_str!("prelude.h") };
    let (major, minor) = kernel::release();
    let whole = format!("#define KERNEL {}\n{head}\n{text}", major * 100 + minor);
    clang.compile(&whole, way.level, way.set, &object).map_err(|log| format!("{name}: clang: {log}"))?;
    let expected = expected(text);
    let loaded = match (pins.load(&object, name), &expected) {
        (Err(_), Expected::Refused) => return Ok(()),
        (Ok(_), Expected::Refused) => return Err(format!("{name}: this kernel takes it now")),
        (Err(ref log), _) if is_too_much(text, log) => {
            println!("{name}: refused");
            return Ok(());
        }
        (loaded, _) => loaded.map_err(|log| format!("{name}: {log}"))?,
    };
    if text.contains("bpf_throw") && !kernel::survives_exceptions() {
        println!("{name}: not asked, the kernel fails where it throws");
        return Ok(());
    }
    fills(text).iter().for_each(|fill| put(fill, &loaded));
    tails(text, &loaded);
    let (snapshot, devices) = (scratch.join("snapshot.json"), devices());
    let cgroup = bench.leaf().path().to_owned();
    let attachments = attachments(text, &loaded);
    if attachments.iter().any(|one| one.flags & PREORDER != 0) && kernel::release() < FIRST_PREORDER {
        println!("{name}: cannot be attached first");
        return Ok(());
    }
    let allowed = bench.ask_after(&attachments, &devices, || law::snapshot(&cgroup, &snapshot));
    let asked = Asked { snapshot, cgroup: cgroup.to_string_lossy().into_owned(), devices, allowed };
    law::agree(&asked, way.views).map_err(|difference| format!("{name}: {difference}"))?;
    judge(&asked, &expected).map_err(|difference| format!("{name}: {difference}"))
}

/// Whether the running kernel need not take a program: it is too old or too new, or built
/// without exceptions (x86 unwinds by ORC alone, in place of which it may have frame pointers).
fn is_too_much(text: &str, log: &str) -> bool {
    let running = kernel::release();
    let told = |head: &str| {
        let (major, minor) = text.lines().find_map(|line| line.strip_prefix(head)?.split_once('.'))?;
        let number = |text: &str| text.parse::<u32>().expect("the number of a kernel");
        Some((number(major), number(minor)))
    };
    !kernel::takes_all_programs()
        || told("// since: ").is_some_and(|since| running < since)
        || told("// until: ").is_some_and(|until| running > until)
        || log.contains("JIT does not support calling kfunc bpf_throw")
        // libbpf 1.5 maps a map with locks, which the kernel does not allow.
        || log.contains("failed to re-mmap() contents: -524")
        // Ubuntu's 7.0 lists arguments that the verifier gives, in which kernels differ.
        || running > (6, 18) && log.contains("incompatible with kernel")
}

fn expected(text: &str) -> Expected {
    let said = text.lines().find_map(|line| line.strip_prefix("// unknown: "));
    match said {
        None if text.contains("\n// refused\n") => Expected::Refused,
        Some("none") => Expected::Known,
        Some("some") => Expected::SomeUnknown,
        Some(other) => {
            let major = other.strip_prefix("major ").and_then(|major| major.parse().ok());
            Expected::UnknownFor(major.expect("a driver"))
        }
        None => panic!("the file does not say what is expected"),
    }
}

fn fills(text: &str) -> Vec<Fill> {
    let fill = |line: &str| {
        let (words, per_cpu) = match line.strip_prefix("// fill each CPU: ") {
            Some(words) => (words, true),
            None => (line.strip_prefix("// fill: ")?, false),
        };
        let mut words = words.split(' ').map(str::to_owned);
        let map = words.next().expect("a map");
        let [key, value] = [words.next(), words.next()].map(|word| bytes(&word.expect("bytes")));
        Some(Fill { map, per_cpu, entries: vec![(key, value)] })
    };
    text.lines().filter_map(fill).collect()
}

/// Puts programs into maps for tail calls.
fn tails(text: &str, loaded: &Object) {
    for line in text.lines().filter_map(|line| line.strip_prefix("// tail: ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let [map, index, program] = words[..] else { panic!("not three words: {line}") };
        let (map, program) = (loaded.map(map).expect("a map"), loaded.program(program).expect("a program"));
        let index: u32 = index.parse().expect("a number");
        bpf::update(&map, &index.to_le_bytes(), &program.as_raw_fd().to_le_bytes()).expect("an entry");
    }
}

fn attachments(text: &str, loaded: &Object) -> Vec<Attachment> {
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("// attach: ")).collect();
    let lines = if lines.is_empty() { vec!["policy multi"] } else { lines };
    lines.into_iter().map(|line| attachment(line, loaded)).collect()
}

fn attachment(line: &str, loaded: &Object) -> Attachment {
    let mut words = line.split(' ');
    let program = words.next().and_then(|name| loaded.program(name).ok()).expect("a pinned program");
    let mut attachment = Attachment { program, up: 0, flags: 0, link: false };
    while let Some(word) = words.next() {
        match word {
            "override" => attachment.flags |= OVERRIDE,
            "multi" => attachment.flags |= MULTI,
            "preorder" => attachment.flags |= PREORDER,
            "link" => attachment.link = true,
            "up" => attachment.up = words.next().and_then(|up| up.parse().ok()).expect("a number"),
            other => panic!("what {other} means is not known"),
        }
    }
    attachment
}

fn bytes(digits: &str) -> Vec<u8> {
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("digits");
        u8::from_str_radix(pair, 16).expect("two digits")
    };
    digits.as_bytes().chunks(2).map(byte).collect()
}

/// The trigger first, then numbers on both sides of what the programs decide.
fn devices() -> Vec<Device> {
    let mut devices = Vec::new();
    for (major, minor) in (0..8).map(|minor| (TRIGGER, minor)).chain([
        (195, 0),
        (195, 1),
        (195, 2),
        (195, 3),
        (195, 4),
        (195, 255),
        (226, 0),
        (226, 128),
        (1, 3),
        (1, 0x505),
        (8, 31),
        (508, 0xf0f00),
        (4095, 0xf_ffff),
    ]) {
        devices.extend([DeviceType::Char, DeviceType::Block].map(|kind| Device { kind, major, minor }));
    }
    devices
}

fn judge(asked: &Asked, expected: &Expected) -> Result<(), String> {
    let text = std::fs::read_to_string(&asked.snapshot).expect("a snapshot");
    let observation: Observation = serde_json::from_str(&text).expect("an observation");
    let cgroup = observation.cgroups.iter().find(|one| asked.cgroup.ends_with(one.path.lossy().as_ref()));
    let cgroup = cgroup.expect("the cgroup asked about");
    let of_id = |id: &u32| observation.programs.iter().find(|program| program.id == *id).cloned();
    let effective = cgroup.effective.known().expect("a list of programs");
    let mut programs: Vec<Program> = effective.iter().filter_map(of_id).collect();
    assert_eq!(programs.len(), effective.len(), "the programs in force");
    let context = Context {
        maps: &observation.maps,
        cgroups: &observation.cgroups,
        cgroup_id: Some(cgroup.id),
        combination: Combination::Retval,
    };
    let unknown = unknown(&programs, &context, asked)?;
    programs.iter_mut().for_each(inspect::hide);
    let mut maps = observation.maps.clone();
    maps.iter_mut().flat_map(|map| &mut map.programs).for_each(inspect::hide);
    unknown_when_hidden(&programs, &Context { maps: &maps, ..context }, asked)?;
    let fits = match expected {
        Expected::Known => unknown.is_empty(),
        Expected::UnknownFor(major) => {
            !unknown.is_empty() && unknown.iter().all(|(device, _)| device.major == *major)
        }
        Expected::SomeUnknown => !unknown.is_empty(),
        Expected::Refused => true,
    };
    let first = unknown.first().map(|(device, why)| format!("{device}: {why}"));
    let total = asked.devices.len() * Request::ALL.len();
    if fits { Ok(()) } else { Err(format!("{} of {total} are unknown: {first:?}", unknown.len())) }
}

fn unknown_when_hidden(programs: &[Program], context: &Context<'_>, asked: &Asked) -> Result<(), String> {
    unknown(programs, context, asked).map(drop).map_err(|why| format!("with hidden names: {why}"))
}

/// The questions whose answer is unknown, and why; the error is a wrong answer.
fn unknown(
    programs: &[Program],
    context: &Context<'_>,
    asked: &Asked,
) -> Result<Vec<(Device, String)>, String> {
    let programs: Vec<&Program> = programs.iter().collect();
    let mut decoder = Decoder::new();
    let policy = decoder.policy(&programs, context);
    let (mut unknown, mut at) = (Vec::new(), 0);
    for (device, allowed) in asked.devices.iter().zip(&asked.allowed) {
        for request in Request::ALL {
            let kernel = if allowed.contains(request) { Verdict::Allow } else { Verdict::Deny };
            let verdict = decoder.verdict(policy, *device, request);
            at += 1;
            if at % PROVEN_EVERY == 1 {
                let proven = decoder.prove(&programs, context, *device, request).verdict;
                if proven != verdict {
                    return Err(format!("{device} {request:?}: {verdict}, and the proof says {proven}"));
                }
            }
            match verdict {
                Verdict::Unknown => unknown.push((*device, decoder.why(policy, *device, request).join("; "))),
                verdict if verdict == kernel => {}
                verdict => return Err(format!("{device} {request:?}: {verdict}, {kernel} by the kernel")),
            }
        }
    }
    Ok(unknown)
}
