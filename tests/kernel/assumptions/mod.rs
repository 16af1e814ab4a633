//! Tests what the decoder assumes: each program was written to break one
//! assumption, and the kernel's verdicts are compared with the decoder's.

mod alias;
mod counters;
mod exceptions;
mod fields;
mod hidden;
mod instructions;
mod lost;
mod memory;
mod moves;
mod names;
mod pointers;
mod single;
mod tail_calls;
mod types;
mod updates;

use crate::support;
use std::os::fd::OwnedFd;

use crate::support::asm::{Asm, alu, cond, helper, size};
use crate::support::bench::{Bench, Facts};
use crate::support::bpf::{self, Loaded};
use crate::support::inspect;
use crate::support::source::{MapKind, MapSpec, Source};
use gpumap::model::{Device, DeviceType, Request, Verdict};
use gpumap::observation::Program;
use gpumap::policy::{Combination, Context, Decoder};

/// Opening this device makes a program change something.
const TRIGGER: Device = Device { kind: DeviceType::Char, major: 7, minor: 1 };

/// Questions that are followed as well; each settles the programs anew.
const MOST_PROOFS: usize = 8;

fn devices() -> Vec<Device> {
    let mut devices = vec![TRIGGER];
    for (major, minor) in [(195, 0), (195, 1), (195, 3), (226, 128), (1, 3), (8, 0), (4095, 1_048_575)] {
        devices.extend([DeviceType::Char, DeviceType::Block].map(|kind| Device { kind, major, minor }));
    }
    devices
}

/// What the decoder says of `facts`, beside the kernel's answers: every known
/// verdict must be the kernel's. Returns how many are unknown.
fn judge(facts: &Facts) -> usize {
    let programs: Vec<&Program> = facts.programs.iter().collect();
    let context = Context {
        maps: &facts.maps,
        cgroups: &[],
        cgroup_id: Some(facts.cgroup_id),
        combination: Combination::Retval,
    };
    let mut decoder = Decoder::new();
    let policy = decoder.policy(&programs, &context);
    // A proof settles the programs anew: not where that takes long.
    let (mut unknown, mut proofs) = (0, if decoder.is_known(policy) { 0 } else { MOST_PROOFS - 1 });
    for (device, allowed) in facts.devices.iter().zip(&facts.allowed) {
        for request in Request::ALL {
            let kernel = if allowed.contains(request) { Verdict::Allow } else { Verdict::Deny };
            let verdict = decoder.verdict(policy, *device, request);
            unknown += usize::from(verdict == Verdict::Unknown);
            if verdict == Verdict::Unknown && std::env::var_os("GPUMAP_SHOW_UNKNOWN").is_some() {
                eprintln!("{device} {request:?}: {:?}", decoder.why(policy, *device, request));
            }
            let known = [Verdict::Unknown, kernel];
            assert!(known.contains(&verdict), "{device} {request:?}: {verdict}, {kernel} by the kernel");
            proofs += 1;
            if proofs > MOST_PROOFS {
                continue;
            }
            let proof = decoder.prove(&programs, &context, *device, request);
            assert!(known.contains(&proof.verdict), "{device} {request:?}: proven {}", proof.verdict);
        }
    }
    unknown
}

/// The kernel's and the decoder's answers about `programs` together, after one
/// question about [`TRIGGER`]. Nor is any answer wrong for a reader to whom the
/// kernel shows no symbols.
fn never_wrong(programs: &[&Loaded]) -> usize {
    let mut facts = Bench::new().expect("scratch cgroups and an oracle").ask(programs, &devices());
    let unknown = judge(&facts);
    facts
        .programs
        .iter_mut()
        .chain(facts.maps.iter_mut().flat_map(|map| &mut map.programs))
        .for_each(inspect::hide);
    judge(&facts);
    unknown
}

/// Every answer is known, too.
fn exact(source: &Source) {
    let loaded = load_alone(source);
    assert_eq!(never_wrong(&[&loaded]), 0, "{}: unknown answers", source.shape);
}

/// Bytes of a ring buffer: a page at least, and of the largest pages there are.
const RING: u32 = 1 << 16;

fn array(value_size: u32) -> MapSpec {
    MapSpec {
        kind: MapKind::Array,
        key_size: 4,
        value_size,
        max_entries: 1,
        flags: 0,
        freeze: false,
        entries: vec![(vec![0; 4], vec![0; value_size as usize])],
    }
}

fn map(spec: &MapSpec) -> OwnedFd {
    bpf::create_map(spec).expect("a map")
}

fn again(fd: &OwnedFd) -> OwnedFd {
    fd.try_clone().expect("a spare descriptor")
}

fn load(source: &Source, maps: &[&OwnedFd]) -> Loaded {
    bpf::load_with(source, maps.iter().map(|map| again(map)).collect()).expect("the verifier's consent")
}

/// Loads a program with maps of its own.
fn load_alone(source: &Source) -> Loaded {
    bpf::load(source).expect("the verifier's consent")
}

/// Goes to `other` unless the question is about [`TRIGGER`]; r6 is the context.
fn unless_trigger(asm: &mut Asm, other: support::asm::Label) {
    asm.ldx(size::W, 2, 6, 4);
    asm.jump_if(cond::NE, 2, TRIGGER.major as i32, other);
    asm.ldx(size::W, 2, 6, 8);
    asm.jump_if(cond::NE, 2, TRIGGER.minor as i32, other);
}

/// r2 is a key 0 on the stack.
fn zero_key(asm: &mut Asm) {
    asm.st(size::W, 10, -4, 0);
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -4);
}

/// `return *(u32 *)(map value at offset) != 0`.
fn return_flag(asm: &mut Asm, map: usize, offset: u32) {
    let zero = asm.label();
    asm.ld_map_value(1, map, offset);
    asm.ldx(size::W, 0, 1, 0);
    asm.jump_if(cond::EQ, 0, 0, zero);
    asm.mov(0, 1);
    asm.bind(zero);
    asm.exit();
}

/// `*(u32 *)(map value at offset) = 1; return 1`.
fn set_flag(asm: &mut Asm, map: usize, offset: u32) {
    asm.ld_map_value(1, map, offset);
    asm.st(size::W, 1, 0, 1);
    asm.verdict(1);
}

fn finish(asm: Asm, shape: &str) -> Source {
    Source { gpl: true, attach_type: true, ..asm.finish(shape) }
}

/// Looks key 0 up in `map`; goes to `none` if there is no such entry.
fn look_up(asm: &mut Asm, map: usize, none: support::asm::Label) {
    zero_key(asm);
    asm.ld_map(1, map);
    asm.call(helper::MAP_LOOKUP);
    asm.jump_if(cond::EQ, 0, 0, none);
}
