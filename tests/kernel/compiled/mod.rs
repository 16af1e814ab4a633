//! The decoder and the whole command against this kernel, on C programs that
//! clang compiled: what people write, at every level of optimisation.
//!
//! Needs root, a cgroup2 mount, bpf(2), clang and bpftool. `GPUMAP_CASES` sets
//! the number of programs, `GPUMAP_SEED` the first seed (failures print
//! theirs), `GPUMAP_COMPILER` the compiler, `GPUMAP_KEEP=DIR` keeps the programs whose
//! answers are unknown, `GPUMAP_LOG=FILE` gets a line for each program.

/// Adds a line to the program of a writer.
macro_rules! line {
    ($writer:ident, $($text:tt)*) => {{
        let text = format!($($text)*);
        $writer.line(text);
    }};
}

/// Adds something in front of the program of a writer.
macro_rules! above {
    ($writer:ident, $($text:tt)*) => {{
        let text = format!($($text)*);
        $writer.above.push_str(&text);
        $writer.above.push('\n');
    }};
}

mod by_hand;
mod clang;
mod expression;
mod mapped;
mod statements;
mod tally;
mod write;

use crate::support;
use std::collections::BTreeSet;
use std::path::Path;

use crate::support::bench::{Attachment, Bench};
use crate::support::bpf::{self, MULTI, PREORDER};
use crate::support::host;
use crate::support::law::{self, Asked, Scratch};
use crate::support::rng::Rng;
use clang::{Clang, Object, Pins};
use gpumap::model::{Device, DeviceType, MAX_MAJOR, MAX_MINOR};
use tally::Tally;
use write::{CLASSES, Class, Fill, Written};

/// Programs by default: about a minute.
const CASES: u64 = 90;
/// Of so many programs one is asked about through the command.
const COMMAND_EVERY: u64 = 4;
/// The major of the GPUs that the command is asked about.
const GPU: u32 = 195;
/// Device numbers asked about, as both types.
const PAIRS: usize = 40;

/// A program that was made and how.
struct Case {
    seed: u64,
    class: &'static Class,
    written: Written,
    level: &'static str,
    set: &'static str,
}

/// Make sure that no answer about compiled C differs from the kernel's, that
/// every view says the same, and that what can be read is known.
#[test]
fn compiled_programs_match_the_kernel() {
    run(seeds(CASES));
}

/// The same for programs about which views once differed: the proof of 8880036 knew
/// less than its verdict, because it was drawn with what was left of the limits.
#[test]
fn programs_that_once_differed() {
    run([8880036]);
}

/// The same for one of which a compiler left nothing, because a number did not fit.
#[test]
fn numbers_that_do_not_fit() {
    run([26160213]);
}

/// The same for many programs: an hour.
#[test]
#[ignore = "takes an hour"]
fn many_compiled_programs_match_the_kernel() {
    run(seeds(1500));
}

fn seeds(cases: u64) -> std::ops::Range<u64> {
    let first = number("GPUMAP_SEED").unwrap_or(1);
    first..first + number("GPUMAP_CASES").unwrap_or(cases)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().expect("a number"))
}

fn run(seeds: impl IntoIterator<Item = u64>) {
    let Some(_host) = host::shared() else { return };
    let Some(clang) = clang::clang() else { return };
    let scratch = Scratch::new();
    let pins = Pins::new().expect("a BPF file system");
    let mut bench = Bench::new().expect("scratch cgroups and an oracle");
    let mut tally = Tally::default();
    let mut cases = 0;
    for seed in seeds {
        cases += 1;
        let case = case(seed, clang, bench.place().cgroup_id);
        one(&case, clang, &pins, &mut bench, &scratch.0, &mut tally);
    }
    tally.judge(cases);
}

fn case(seed: u64, clang: &Clang, cgroup_id: u64) -> Case {
    let mut rng = Rng::new(seed);
    let class = &CLASSES[seed as usize % CLASSES.len()];
    let level = rng.pick(&["-O1", "-O2", "-O2", "-O3", "-Os"]);
    let set = rng.pick(&clang.sets);
    Case { seed, class, written: write::write(class, rng, cgroup_id), level, set }
}

fn one(case: &Case, clang: &Clang, pins: &Pins, bench: &mut Bench, scratch: &Path, tally: &mut Tally) {
    let object = scratch.join("policy.o");
    if let Err(log) = clang.compile(&case.written.text, case.level, case.set, &object) {
        assert!(clang.command.contains("gcc"), "seed {}: {log}\n{}", case.seed, case.written.text);
        return tally.refused(case, log);
    }
    let loaded = match pins.load(&object, &format!("case{}", case.seed)) {
        Ok(loaded) => loaded,
        Err(log) => return tally.refused(case, log),
    };
    // A program of which the compiler leaves nothing is not loaded.
    if let Some(name) = case.written.programs.iter().find(|name| loaded.program(name).is_err()) {
        return tally.refused(case, format!("there is no program {name}"));
    }
    case.written.fills.iter().for_each(|fill| put(fill, &loaded));
    let asked = ask(case, &loaded, bench, scratch);
    tally.count(case, &asked, &clang.command);
    if case.seed.is_multiple_of(number("GPUMAP_VIEWS").unwrap_or(COMMAND_EVERY)) {
        tally.views += 1;
        if let Err(difference) = law::agree(&asked, law::Views::of(case.seed / COMMAND_EVERY)) {
            tally.fail(case, &difference);
        }
    }
}

/// Fills a map that the program has.
fn put(fill: &Fill, loaded: &Object) {
    // A map that no program uses in the end is not made.
    let Ok(map) = loaded.map(&fill.map) else { return };
    let copies = if fill.per_cpu { support::inspect::possible_cpus() as usize } else { 1 };
    for (key, value) in &fill.entries {
        bpf::update(&map, key, &value.repeat(copies)).expect("an entry");
    }
}

/// Attaches the programs, saves what gpumap sees, and asks the kernel.
fn ask(case: &Case, loaded: &Object, bench: &mut Bench, scratch: &Path) -> Asked {
    let mut rng = Rng::new(case.seed ^ 0xa5a5);
    let mut attachment = |name: &&str| Attachment {
        program: loaded.program(name).expect("a pinned program"),
        up: 0,
        flags: MULTI | if rng.chance(20) { PREORDER } else { 0 },
        link: false,
    };
    let programs: Vec<Attachment> = case.written.programs.iter().map(&mut attachment).collect();
    let devices = devices(&case.written, &mut rng);
    let snapshot = scratch.join("snapshot.json");
    let cgroup = bench.leaf().path().to_owned();
    let allowed = bench.ask_after(&programs, &devices, || law::snapshot(&cgroup, &snapshot));
    Asked { snapshot, cgroup: cgroup.to_string_lossy().into_owned(), devices, allowed }
}

fn devices(written: &Written, rng: &mut Rng) -> Vec<Device> {
    let mut pairs = BTreeSet::new();
    for major in &written.majors {
        pairs.extend(written.minors.iter().map(|minor| (*major, *minor)));
    }
    pairs.extend((0..4).map(|minor| (GPU, minor)));
    while pairs.len() < PAIRS {
        let major = if rng.chance(70) { rng.pick(&written.majors) } else { rng.below(MAX_MAJOR + 1) };
        let minor = if rng.chance(70) { rng.below(64) } else { rng.below(MAX_MINOR + 1) };
        pairs.insert((major, minor));
    }
    pairs.remove(&(0, 0));
    let kinds = [DeviceType::Char, DeviceType::Block];
    pairs.into_iter().flat_map(|(major, minor)| kinds.map(|kind| Device { kind, major, minor })).collect()
}
