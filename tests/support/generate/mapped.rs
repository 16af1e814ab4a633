//! Writers that keep their rules in a map.

use super::rules::{major, minor, prologue};
use super::writers::CgroupIds;
use crate::support::asm::{Asm, Label, alu, cond, helper, size};
use crate::support::rng::Rng;
use crate::support::source::{MapKind, MapSpec, Source};

const ANY: u32 = u32::MAX;

fn hash(key_size: u32, value_size: u32, entries: Vec<(Vec<u8>, Vec<u8>)>) -> MapSpec {
    MapSpec { kind: MapKind::Hash, key_size, value_size, max_entries: 64, flags: 0, freeze: false, entries }
}

fn pairs(rng: &mut Rng, most: u32) -> Vec<(u32, u32)> {
    (0..rng.below(most + 1)).map(|_| (major(rng), minor(rng))).collect()
}

/// libvirt: up to four lookups of major and minor with wildcards.
pub fn libvirt(rng: &mut Rng) -> Source {
    let mut hints = pairs(rng, 12);
    let entries = hints
        .iter()
        .map(|&(major, minor)| {
            let (major, minor) = match rng.below(8) {
                0 => (major, ANY),
                1 if rng.chance(30) => (ANY, minor),
                2 if rng.chance(10) => (ANY, ANY),
                _ => (major, minor),
            };
            let access = rng.between(1, 7) << 16 | rng.pick(&[1, 2, 2, 3]);
            (
                (u64::from(major) << 32 | u64::from(minor)).to_le_bytes().to_vec(),
                access.to_le_bytes().to_vec(),
            )
        })
        .collect();
    hints.push((3, 3));
    let mut asm = Asm::new();
    let map = asm.map(hash(8, 4, entries));
    asm.movr(6, 1);
    let end = asm.label();
    libvirt_lookup(&mut asm, map, end, |asm| {
        asm.ldx(size::W, 1, 6, 8);
        asm.ldx(size::W, 2, 6, 4);
        asm.op64(alu::LSH, 2, 32);
        asm.op64r(alu::OR, 2, 1);
    });
    libvirt_lookup(&mut asm, map, end, |asm| {
        asm.ldx(size::W, 1, 6, 4);
        asm.op64(alu::LSH, 1, 32);
        asm.ld64(2, 0xffff_ffff);
        asm.op64r(alu::OR, 2, 1);
    });
    libvirt_lookup(&mut asm, map, end, |asm| {
        asm.ldx(size::W, 1, 6, 8);
        asm.ld64(2, 0xffff_ffff_0000_0000);
        asm.op64r(alu::OR, 2, 1);
    });
    libvirt_lookup(&mut asm, map, end, |asm| asm.mov(2, -1));
    asm.mov(0, 0);
    asm.bind(end);
    asm.exit();
    Source { gpl: true, hints, ..asm.finish("") }
}

fn libvirt_lookup(asm: &mut Asm, map: usize, end: Label, key: impl Fn(&mut Asm)) {
    let next = asm.label();
    key(asm);
    asm.stx(size::DW, 10, -8, 2);
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -8);
    asm.ld_map(1, map);
    asm.call(helper::MAP_LOOKUP);
    asm.movr(1, 0);
    asm.jump_if(cond::EQ, 1, 0, next);
    asm.mov(0, 1);
    asm.ldx(size::W, 2, 6, 0);
    asm.ldx(size::W, 1, 1, 0);
    asm.op64r(alu::AND, 1, 2);
    asm.jump_ifr(cond::EQ, 1, 2, end);
    asm.bind(next);
}

/// `ParaStation`: a struct key, 0 means deny, missing means allow.
pub fn parastation(rng: &mut Rng) -> Source {
    let hints = pairs(rng, 16);
    let entries = hints
        .iter()
        .map(|(major, minor)| {
            let key = [major.to_le_bytes(), minor.to_le_bytes()].concat();
            (key, rng.below(2).to_le_bytes().to_vec())
        })
        .collect();
    let mut asm = Asm::new();
    let map = asm.map(hash(8, 4, entries));
    asm.ldx(size::W, 2, 1, 4);
    asm.stx(size::W, 10, -8, 2);
    asm.ldx(size::W, 2, 1, 8);
    asm.stx(size::W, 10, -4, 2);
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -8);
    asm.ld_map(1, map);
    asm.call(helper::MAP_LOOKUP);
    let (missing, end) = (asm.label(), asm.label());
    asm.jump_if(cond::EQ, 0, 0, missing);
    asm.ldx(size::W, 1, 0, 0);
    asm.mov(0, 1);
    asm.jump_if(cond::NE, 1, 0, end);
    asm.mov(0, 0);
    asm.exit();
    asm.bind(missing);
    asm.mov(0, 1);
    asm.bind(end);
    asm.exit();
    Source { gpl: true, hints, ..asm.finish("") }
}

/// `CraneSched`: keyed by the id of the current cgroup, the context read through
/// a helper.
pub fn cranesched(rng: &mut Rng, place: CgroupIds) -> Source {
    let hints = pairs(rng, 16);
    let entries = hints
        .iter()
        .map(|(major, minor)| {
            let cgroup = if rng.chance(70) { place.cgroup_id } else { rng.next() };
            let key = [&cgroup.to_le_bytes()[..], &major.to_le_bytes(), &minor.to_le_bytes()].concat();
            let access = u16::try_from(rng.below(8)).unwrap();
            let kind = u16::try_from(rng.between(1, 2)).unwrap();
            let words = [*major, *minor, rng.below(2)].map(u32::to_le_bytes).concat();
            (key, [&words[..], &access.to_le_bytes(), &kind.to_le_bytes()].concat())
        })
        .collect();
    let mut asm = Asm::new();
    let map = asm.map(hash(16, 16, entries));
    asm.movr(6, 1);
    asm.call(helper::CGROUP_ID);
    asm.stx(size::DW, 10, -16, 0);
    for (from, to) in [(0, -24), (4, -8), (8, -4)] {
        asm.movr(1, 10);
        asm.op64(alu::ADD, 1, to);
        asm.mov(2, 4);
        asm.movr(3, 6);
        asm.op64(alu::ADD, 3, from);
        asm.call(helper::PROBE_READ_KERNEL);
    }
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -16);
    asm.ld_map(1, map);
    asm.call(helper::MAP_LOOKUP);
    let allow = asm.label();
    asm.jump_if(cond::EQ, 0, 0, allow);
    asm.ldx(size::W, 1, 0, 8);
    asm.jump_if32(cond::NE, 1, 1, allow);
    asm.ldx(size::W, 3, 10, -24);
    asm.ldx(size::H, 2, 0, 14);
    asm.op64r(alu::MOV, 4, 3);
    asm.op64(alu::AND, 4, 0xffff);
    asm.jump_ifr(cond::NE, 4, 2, allow);
    asm.op32(alu::RSH, 3, 16);
    asm.ldx(size::H, 2, 0, 12);
    asm.op64r(alu::AND, 3, 2);
    asm.jump_if(cond::EQ, 3, 0, allow);
    asm.verdict(0);
    asm.bind(allow);
    asm.verdict(1);
    Source { gpl: true, hints, ..asm.finish("") }
}

/// OAR: type, major and minor packed into one 64-bit key; presence denies.
pub fn oar(rng: &mut Rng) -> Source {
    let hints = pairs(rng, 16);
    let entries = hints
        .iter()
        .map(|&(major, minor)| {
            let (major, minor) = (u64::from(major), u64::from(minor));
            let number = minor & 0xff | (major & 0xfff) << 8 | (minor & !0xff) << 12;
            let key = u64::from(rng.between(1, 2)) << 60 | number;
            (key.to_le_bytes().to_vec(), vec![1])
        })
        .collect();
    let mut asm = Asm::new();
    let map = asm.map(hash(8, 1, entries));
    prologue(&mut asm);
    asm.op64(alu::LSH, 2, 60);
    asm.movr(6, 5);
    asm.op64(alu::AND, 6, 0xff);
    asm.op64(alu::AND, 4, 0xfff);
    asm.op64(alu::LSH, 4, 8);
    asm.op64(alu::AND, 5, !0xff);
    asm.op64(alu::LSH, 5, 12);
    for part in [4, 5, 6] {
        asm.op64r(alu::OR, 2, part);
    }
    asm.stx(size::DW, 10, -8, 2);
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -8);
    asm.ld_map(1, map);
    asm.call(helper::MAP_LOOKUP);
    asm.movr(1, 0);
    asm.mov(0, 1);
    let end = asm.label();
    asm.jump_if(cond::EQ, 1, 0, end);
    if rng.chance(20) {
        trace(&mut asm);
    }
    asm.mov(0, 0);
    asm.bind(end);
    asm.exit();
    Source { gpl: true, hints, ..asm.finish("") }
}

/// `bpf_trace_printk("deny\n")` from the stack.
pub fn trace(asm: &mut Asm) {
    asm.ld64(1, u64::from_le_bytes(*b"deny\n\0\0\0"));
    asm.stx(size::DW, 10, -16, 1);
    asm.movr(1, 10);
    asm.op64(alu::ADD, 1, -16);
    asm.mov(2, 6);
    asm.call(helper::TRACE_PRINTK);
}
