//! Smallest programs that once got a wrong verdict, with the kernel's answer.
//! Found by the generated programs of `tests/kernel/generated.rs`; no privileges needed.

use crate::support::asm::{Asm, alu, cond, size};
use gpumap::model::{Device, DeviceType, MapType, Request, Verdict};
use gpumap::observation::{Answer, HexBytes, Map, MapEntry, Program};
use gpumap::policy::{Combination, Context, Decoder};

fn decode(asm: Asm, maps: &[Map], major: u32, minor: u32) -> Verdict {
    let bytes = asm.finish("").bytes();
    let map_ids = maps.iter().map(|map| map.id).collect();
    let program = Program { xlated: Answer::Known(HexBytes(bytes)), map_ids, ..Program::default() };
    let context = Context { maps, cgroups: &[], cgroup_id: None, combination: Combination::Retval };
    let mut decoder = Decoder::new();
    let policy = decoder.policy(&[&program], &context);
    decoder.verdict(policy, Device { kind: DeviceType::Char, major, minor }, Request::Read)
}

/// Make sure that `r0 ^= r0` is 0 although r0 was never set: blinding writes
/// `r0 = 0` this way.
#[test]
fn xor_with_itself_sets_a_register() {
    let program = || {
        let mut asm = Asm::new();
        let other = asm.label();
        asm.ldx(size::W, 2, 1, 4);
        asm.jump_if(cond::NE, 2, 1, other);
        asm.verdict(1);
        asm.bind(other);
        asm.op64r(alu::XOR, 0, 0);
        asm.exit();
        asm
    };
    assert_eq!(decode(program(), &[], 1, 0), Verdict::Allow);
    assert_eq!(decode(program(), &[], 2, 0), Verdict::Deny);
}

/// Make sure that a program too complex for the decoder's limits is unknown,
/// not denied.
#[test]
fn exhaustion_is_unknown() {
    let mut asm = Asm::new();
    asm.ldx(size::W, 2, 1, 4);
    asm.ldx(size::W, 3, 1, 8);
    asm.op64r(alu::MUL, 2, 3);
    asm.op64r(alu::MUL, 2, 2);
    asm.op64r(alu::MUL, 2, 3);
    asm.movr(0, 2);
    asm.op64(alu::RSH, 0, 20);
    asm.op64(alu::AND, 0, 1);
    asm.exit();
    let (major, minor) = (195_u64, 0x54_321_u64);
    let product = (major * minor).wrapping_mul(major * minor).wrapping_mul(minor);
    let kernel = if product >> 20 & 1 == 1 { Verdict::Allow } else { Verdict::Deny };
    let verdict = decode(asm, &[], 195, 0x54_321);
    assert!(verdict == Verdict::Unknown || verdict == kernel, "{verdict} here, {kernel} by the kernel");
}

/// Make sure that a program which reads a map, writes to it and decides by what
/// it read is unknown: its own earlier runs have changed the map since the
/// observation.
#[test]
fn a_map_the_program_writes_later_is_unknown() {
    let mut asm = Asm::new();
    let map = Map {
        id: 7,
        kind: MapType::Array,
        key_size: 4,
        value_size: 8,
        max_entries: 1,
        entries: Answer::Known(vec![MapEntry { key: HexBytes(vec![0; 4]), value: HexBytes(vec![0; 8]) }]),
        ..Map::default()
    };
    asm.ld_map_value(1, 7, 0);
    asm.ldx(size::DW, 2, 1, 0);
    asm.op64(alu::ADD, 2, 1);
    asm.stx(size::DW, 1, 0, 2);
    asm.movr(0, 2);
    asm.op64(alu::AND, 0, 1);
    asm.exit();
    assert_eq!(decode(asm, &[map], 195, 0), Verdict::Unknown);
}

/// Make sure that a jump out of the program is a reason, not a panic. No
/// loaded program has one; a file may.
#[test]
fn jump_past_the_end() {
    let mut bytes = [[0x61, 0x12, 0, 0, 0, 0, 0, 0], [0x55, 0x02, 0x5b, 0, 3, 0, 0, 0]].concat();
    bytes.extend([[0xb7, 0, 0, 0, 1, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]].concat());
    let program = Program { xlated: Answer::Known(HexBytes(bytes)), ..Program::default() };
    let context = Context { maps: &[], cgroups: &[], cgroup_id: None, combination: Combination::Retval };
    let mut decoder = Decoder::new();
    let policy = decoder.policy(&[&program], &context);
    let device = |kind| Device { kind, major: 195, minor: 0 };
    let verdict = |kind| decoder.verdict(policy, device(kind), Request::Write);
    assert_eq!([verdict(DeviceType::Char), verdict(DeviceType::Block)], [Verdict::Unknown; 2]);
}

/// Make sure that a blinded program's addresses are taken for addresses on
/// machines with five-level page tables, where they begin with `0xff1`: what it
/// writes there was written.
#[test]
fn addresses_with_five_levels() {
    for address in [0xffff_8881_0000_2110_u64, 0xff11_0001_0000_2110, 0xffd1_0000_0000_2110] {
        let mut asm = Asm::new();
        let (other, zero) = (asm.label(), asm.label());
        asm.ldx(size::W, 2, 1, 4);
        asm.jump_if(cond::NE, 2, 7, other);
        // `map value = 1` through a constant, as blinding leaves it.
        asm.ld64(3, address);
        asm.st(size::W, 3, 0, 1);
        asm.bind(other);
        asm.raw(0x18, 1, 2, 0, 1);
        asm.raw(0, 0, 0, 0, 0);
        asm.ldx(size::W, 0, 1, 0);
        asm.jump_if(cond::EQ, 0, 0, zero);
        asm.mov(0, 1);
        asm.bind(zero);
        asm.exit();
        let map = Map {
            id: 1,
            kind: MapType::Array,
            key_size: 4,
            value_size: 8,
            max_entries: 1,
            entries: Answer::Known(vec![MapEntry { key: HexBytes(vec![0; 4]), value: HexBytes(vec![0; 8]) }]),
            ..Map::default()
        };
        assert_eq!(decode(asm, &[map], 195, 0), Verdict::Unknown, "{address:#x}");
    }
}

/// Make sure that a program of which another one replaces a function is
/// unknown, names the other, and counts as a writer of every map.
#[test]
fn replaced_function() {
    let program = |replaced_by| {
        let mut asm = Asm::new();
        asm.verdict(0);
        let xlated = Answer::Known(HexBytes(asm.finish("").bytes()));
        Program { id: 5, tag: "00".repeat(8), xlated, replaced_by, ..Program::default() }
    };
    let context = Context { maps: &[], cgroups: &[], cgroup_id: None, combination: Combination::Retval };
    let device = Device { kind: DeviceType::Char, major: 195, minor: 0 };
    for (replaced_by, expected) in [
        (Answer::Known(vec![77]), "program 77"),
        (Answer::Missing("the kernel's links could not be listed".to_owned()), "links could not be listed"),
    ] {
        let mut decoder = Decoder::new();
        let policy = decoder.policy(&[&program(replaced_by)], &context);
        assert_eq!(decoder.verdict(policy, device, Request::Read), Verdict::Unknown);
        let why = decoder.why(policy, device, Request::Read).join("; ");
        assert!(why.contains(expected) && why.contains("freplace"), "{why}");
    }
    let mut decoder = Decoder::new();
    let policy = decoder.policy(&[&program(Answer::default())], &context);
    assert_eq!(decoder.verdict(policy, device, Request::Read), Verdict::Deny);
}
