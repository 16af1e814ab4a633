//! Times the decoder: `cargo bench --bench decode`.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    clippy::panic,
    reason = "a surprise ends the benchmark"
)]

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use gpumap::model::{Device, DeviceType, Request};
use gpumap::observation::{Answer, HexBytes, Map, Program};
use gpumap::policy::{Combination, Context, Decoder, Policy};

#[path = "../tests/support/captures.rs"]
#[expect(dead_code, reason = "the oracles are for the tests")]
mod captures;

const RULES: u32 = 1000;

/// One instruction: operation, destination, source, jump, number.
type Insn = (u8, u8, u8, i16, i32);

const LOAD: u8 = 0x61;
const AND32: u8 = 0x54;
const SHIFT_RIGHT32: u8 = 0x74;
const MOVE32: u8 = 0xbc;
const SET: u8 = 0xb7;
const JUMP: u8 = 0x05;
const UNLESS: u8 = 0x55;
const UNLESS_REGISTER: u8 = 0x5d;
const EXIT: u8 = 0x95;

/// The instructions that slurmstepd, systemd and runc all begin with: r2 is the
/// type, r3 the request, r4 and r5 are the numbers.
const PROLOGUE: [Insn; 6] = [
    (LOAD, 2, 1, 0, 0),
    (AND32, 2, 0, 0, 0xffff),
    (LOAD, 3, 1, 0, 0),
    (SHIFT_RIGHT32, 3, 0, 0, 16),
    (LOAD, 4, 1, 4, 0),
    (LOAD, 5, 1, 8, 0),
];

fn program(body: Vec<Insn>) -> Program {
    let bytes = PROLOGUE.iter().chain(&body).flat_map(|(operation, dst, source, jump, number)| {
        let [a, b] = jump.to_le_bytes();
        let [c, d, e, f] = number.to_le_bytes();
        [*operation, source << 4 | dst, a, b, c, d, e, f]
    });
    Program { xlated: Answer::Known(HexBytes(bytes.collect())), ..Program::default() }
}

/// The numbers of rule `rule`: GPUs and their neighbours, a few hundred
/// minors under each of a handful of majors.
fn numbers(rule: u32) -> (i32, i32) {
    let majors = [195, 226, 234, 508, 510];
    (majors[rule as usize % majors.len()], (rule / 5) as i32)
}

/// Numbers without a pattern: the diagram has nothing to share.
fn scattered(rule: u32) -> (i32, i32) {
    let hash = rule.wrapping_mul(0x9e37_79b9);
    ((hash >> 20) as i32, (hash.wrapping_mul(0x85eb_ca6b) >> 12) as i32)
}

fn slurm(numbers: fn(u32) -> (i32, i32)) -> Program {
    let rules = (0..RULES).flat_map(|rule| {
        let (major, minor) = numbers(rule);
        [
            (UNLESS, 2, 0, 4, 2),
            (UNLESS, 4, 0, 3, major),
            (UNLESS, 5, 0, 2, minor),
            (SET, 0, 0, 0, i32::from(rule % 3 == 0)),
            (EXIT, 0, 0, 0, 0),
        ]
    });
    program(rules.chain([(SET, 0, 0, 0, 1), (EXIT, 0, 0, 0, 0)]).collect())
}

fn systemd(numbers: fn(u32) -> (i32, i32)) -> Program {
    let rules = (0..RULES).flat_map(|rule| {
        let (major, minor) = numbers(rule);
        let to_end = i16::try_from((RULES - 1 - rule) * 7 + 2).expect("a short jump");
        [
            (MOVE32, 1, 3, 0, 0),
            (AND32, 1, 0, 0, 6),
            (UNLESS_REGISTER, 1, 3, 4, 0),
            (UNLESS, 2, 0, 3, 2),
            (UNLESS, 4, 0, 2, major),
            (UNLESS, 5, 0, 1, minor),
            (JUMP, 0, 0, to_end, 0),
        ]
    });
    let end = [(SET, 0, 0, 0, 0), (JUMP, 0, 0, 1, 0), (SET, 0, 0, 0, 1), (EXIT, 0, 0, 0, 0)];
    program(rules.chain(end).collect())
}

fn runc(numbers: fn(u32) -> (i32, i32)) -> Program {
    let rules = (0..RULES).flat_map(|rule| {
        let (major, minor) = numbers(rule);
        [
            (UNLESS, 2, 0, 7, 2),
            (MOVE32, 1, 3, 0, 0),
            (AND32, 1, 0, 0, [1, 2, 4, 6, 7][rule as usize % 5]),
            (UNLESS_REGISTER, 1, 3, 4, 0),
            (UNLESS, 4, 0, 3, major),
            (UNLESS, 5, 0, 2, minor),
            (SET, 0, 0, 0, i32::from(rule % 2 == 0)),
            (EXIT, 0, 0, 0, 0),
        ]
    });
    program(rules.chain([(SET, 0, 0, 0, 0), (EXIT, 0, 0, 0, 0)]).collect())
}

fn captured(name: &str) -> captures::Capture {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/programs");
    let file = Path::new(name).file_name().expect("a name");
    let found = captures::all(&directory.join(Path::new(name).parent().expect("a directory")));
    found.into_iter().find(|capture| file == capture.name.as_str()).expect("the capture")
}

fn policy(decoder: &mut Decoder, program: &Program, maps: &[Map]) -> Policy {
    decoder.policy(
        &[program],
        &Context { maps, cgroups: &[], cgroup_id: None, combination: Combination::Retval },
    )
}

fn decode(criterion: &mut Criterion) {
    let mut bench = |name: &str, program: &Program, maps: &[Map]| {
        let known = {
            let mut decoder = Decoder::new();
            let policy = policy(&mut decoder, program, maps);
            decoder.is_known(policy)
        };
        assert!(known, "{name} has unknown verdicts");
        criterion.bench_function(&format!("decode/{name}"), |bencher| {
            bencher.iter(|| {
                let mut decoder = Decoder::new();
                let policy = policy(&mut decoder, black_box(program), maps);
                (policy, decoder)
            });
        });
    };
    bench("slurm, 28 instructions", &captured("slurm/22.05.8-job_1").program, &[]);
    let libvirt = captured("libvirt/9.0.0-lvgpu-libvirt");
    bench("libvirt, hash map", &libvirt.program, &libvirt.maps);
    for (tool, shape) in [("slurm", slurm as fn(_) -> _), ("systemd", systemd), ("runc", runc)] {
        bench(&format!("{RULES} rules, {tool}"), &shape(numbers), &[]);
        bench(&format!("{RULES} rules, {tool}, scattered"), &shape(scattered), &[]);
    }
}

fn rules(criterion: &mut Criterion) {
    for (name, program) in [
        ("slurm, 28 instructions", captured("slurm/22.05.8-job_1").program),
        ("docker with a GPU", captured("runc/1.1.5-docker-gpu").program),
        ("1000 rules, runc", runc(numbers)),
    ] {
        let decoded = || {
            let mut decoder = Decoder::new();
            let policy = policy(&mut decoder, &program, &[]);
            (decoder, policy)
        };
        criterion.bench_function(&format!("rules/{name}"), |bencher| {
            bencher.iter_batched_ref(
                decoded,
                |(decoder, policy)| decoder.rules(*policy),
                BatchSize::SmallInput,
            );
        });
    }
}

fn verdict(criterion: &mut Criterion) {
    let mut decoder = Decoder::new();
    let policy = policy(&mut decoder, &captured("slurm/22.05.8-job_1").program, &[]);
    let devices = [(195, 0), (195, 1), (195, 255), (226, 128), (1, 3)].map(|(major, minor)| Device {
        kind: DeviceType::Char,
        major,
        minor,
    });
    let mut group = criterion.benchmark_group("verdict");
    group.throughput(Throughput::Elements(devices.len() as u64));
    group.bench_function("slurm, 28 instructions", |bencher| {
        bencher.iter(|| black_box(devices).map(|device| decoder.verdict(policy, device, Request::ReadWrite)));
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1))
        .sample_size(50);
    targets = decode, rules, verdict
}
criterion_main!(benches);
