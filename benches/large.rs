//! Times what has limits in processor time: rules beside single verdicts, many questions
//! to large maps, many rules compiled. `cargo bench --bench large`.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    clippy::panic,
    reason = "a surprise ends the benchmark"
)]

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gpumap::analyse::compiled;
use gpumap::model::{Device, DeviceType, MapType, Request, Verdict};
use gpumap::observation::{Answer, HexBytes, Map, MapEntry, Program};
use gpumap::policy::{Context, Decoder};

/// What `gpumap check` is asked at once.
const QUESTIONS: u32 = 20_000;
const ENTRIES: u32 = 100_000;
const RULES: u32 = 10_000;
/// The number of the map, in its place in the instructions.
const MAP: u32 = 7;
/// Where the kernel's function is: any distance.
const FUNCTION: i32 = 0x1234;

/// Numbers without a pattern, no two alike.
fn numbers(index: u32) -> (u32, u32) {
    let mixed = index.wrapping_mul(0x9e37_79b9);
    (mixed >> 20, mixed & 0xf_ffff)
}

fn device(index: u32) -> Device {
    let (major, minor) = numbers(index);
    Device { kind: DeviceType::Char, major, minor }
}

type Insn = (u8, u8, u8, i16, i32);

fn program(insns: &[Insn]) -> Program {
    let bytes = insns.iter().flat_map(|(code, dst, src, off, imm)| {
        let ([a, b], [c, d, e, f]) = (off.to_le_bytes(), imm.to_le_bytes());
        [*code, src << 4 | dst, a, b, c, d, e, f]
    });
    Program { xlated: Answer::Known(HexBytes(bytes.collect())), ..Program::default() }
}

/// A hash of both numbers decides where the major is 240: too complex to be drawn.
fn hashed() -> Program {
    program(&[
        (0x61, 2, 1, 4, 0),
        (0x61, 3, 1, 8, 0),
        (0xb7, 0, 0, 0, 1),
        (0x55, 2, 0, 10, 240),
        (0x67, 2, 0, 0, 20),
        (0x4f, 2, 3, 0, 0),
        (0x27, 2, 0, 0, 0x4651),
        (0xbf, 3, 2, 0, 0),
        (0x77, 3, 0, 0, 13),
        (0xaf, 2, 3, 0, 0),
        (0x27, 2, 0, 0, 0x5bd1),
        (0x97, 2, 0, 0, 5),
        (0x15, 2, 0, 1, 0),
        (0xb7, 0, 0, 0, 0),
        (0x95, 0, 0, 0, 0),
    ])
}

/// A rule for each of many numbers, tested one after the other as by Slurm.
fn listed() -> Program {
    let fields = [(0x61, 4, 1, 4, 0), (0x61, 5, 1, 8, 0)];
    let rules = (0..1000).flat_map(|rule| {
        let (major, minor) = numbers(rule);
        [(0x55, 4, 0, 3, major as i32), (0x55, 5, 0, 2, minor as i32), (0xb7, 0, 0, 0, 0), (0x95, 0, 0, 0, 0)]
    });
    let end = [(0xb7, 0, 0, 0, 1), (0x95, 0, 0, 0, 0)];
    program(&fields.into_iter().chain(rules).chain(end).collect::<Vec<Insn>>())
}

/// A program that looks up both numbers, and the map that decides.
fn with_map(kind: MapType) -> (Program, Map) {
    let is_trie = kind == MapType::LpmTrie;
    let key = |index| {
        let (major, minor) = numbers(index);
        match is_trie {
            true => [64_u32.to_le_bytes(), major.to_be_bytes(), minor.to_be_bytes()].concat(),
            false => [major.to_le_bytes(), minor.to_le_bytes()].concat(),
        }
    };
    let value = |index: u32| HexBytes((index % 2).to_le_bytes().to_vec());
    let entry = |index| MapEntry { key: HexBytes(key(index)), value: value(index) };
    let (key_size, start) = if is_trie { (12, -12) } else { (8, -8) };
    let map = Map {
        id: MAP,
        kind,
        key_size,
        value_size: 4,
        max_entries: ENTRIES,
        entries: Answer::Known((0..ENTRIES).map(entry).collect()),
        ..Map::default()
    };
    let swap: &[Insn] = if is_trie { &[(0xdc, 1, 0, 0, 32)] } else { &[] };
    let field = |from, to| [&[(0x61, 1, 6, from, 0)], swap, &[(0x63, 10, 1, to, 0)]].concat();
    let inlined: &[Insn] = if is_trie { &[] } else { &[(0x15, 0, 0, 1, 0), (0x07, 0, 0, 0, 56)] };
    let insns = [
        &[(0xbf, 6, 1, 0, 0), (0xb4, 1, 0, 0, 64), (0x63, 10, 1, -12, 0)],
        &field(4, -8)[..],
        &field(8, -4),
        &[(0xbf, 2, 10, 0, 0), (0x07, 2, 0, 0, start), (0x18, 1, 1, 0, MAP as i32), (0, 0, 0, 0, 0)],
        &[(0x85, 0, 0, 0, FUNCTION)],
        inlined,
        &[(0xbf, 1, 0, 0, 0), (0xb7, 0, 0, 0, 0), (0x15, 1, 0, 1, 0), (0x61, 0, 1, 0, 0), (0x95, 0, 0, 0, 0)],
    ]
    .concat();
    let name = if is_trie { "trie_lookup_elem" } else { "__htab_map_lookup_elem" };
    let calls = [(FUNCTION, name.to_owned())].into();
    (Program { map_ids: vec![MAP], calls, ..program(&insns) }, map)
}

/// Reads a program and answers every question; how many it allows.
fn asked(program: &Program, maps: &[Map], questions: u32) -> usize {
    let mut decoder = Decoder::new();
    let policy = decoder.policy(&[program], &Context { maps, ..Context::default() });
    let verdicts = (0..questions).map(|index| decoder.verdict(policy, device(index), Request::ReadWrite));
    verdicts.filter(|verdict| *verdict == Verdict::Allow).count()
}

/// The same policy as rules: no more than twice what 780 questions take.
fn rules(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rules beside questions");
    for (name, program) in [("a hash", hashed()), ("1000 rules", listed())] {
        group.bench_function(format!("{name}, 780 questions"), |bencher| {
            bencher.iter(|| asked(&program, &[], 780));
        });
        group.bench_function(format!("{name}, rules"), |bencher| {
            bencher.iter(|| {
                let mut decoder = Decoder::new();
                let policy = decoder.policy(&[&program], &Context::default());
                decoder.rules(policy)
            });
        });
    }
    group.finish();
}

/// Below a second for each of the large maps.
fn large_maps(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("questions to 100,000 entries");
    group.throughput(Throughput::Elements(QUESTIONS.into()));
    for (name, kind) in [("hash map", MapType::Hash), ("trie", MapType::LpmTrie)] {
        let (program, map) = with_map(kind);
        let maps = [map];
        assert_eq!(asked(&program, &maps, QUESTIONS), QUESTIONS as usize / 2, "{name}");
        group.bench_function(name, |bencher| bencher.iter(|| asked(&program, &maps, QUESTIONS)));
    }
    group.finish();
}

/// Below two seconds: rules are read, compiled, and the program is read again.
fn scattered(criterion: &mut Criterion) {
    let rule = |index| {
        let (major, minor) = numbers(index);
        format!("allow c {major}:{minor} rw\n")
    };
    let text: String = ["deny a *:* rwm\n".to_owned()].into_iter().chain((0..RULES).map(rule)).collect();
    criterion.bench_function("compile/10,000 scattered rules", |bencher| {
        bencher.iter(|| {
            let mut decoder = Decoder::new();
            let policy = decoder.policy_of_text(&text).expect("a policy");
            compiled(&mut decoder, policy).expect("a program")
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(3))
        .sample_size(10);
    targets = rules, large_maps, scattered
}
criterion_main!(benches);
