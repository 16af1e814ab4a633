//! Programs that write to maps, or read maps that differ between CPUs: what
//! they decide may change from one question to the next.

use super::rules::{major, minor};
use crate::support::asm::{Asm, alu, cond, helper, size};
use crate::support::rng::Rng;
use crate::support::source::{MapKind, MapSpec, Source};

fn counter(kind: MapKind) -> MapSpec {
    let entries = if kind == MapKind::Array { vec![(vec![0; 4], vec![0; 8])] } else { vec![] };
    MapSpec { kind, key_size: 4, value_size: 8, max_entries: 1, flags: 0, freeze: false, entries }
}

/// A device rule beside a map that the program changes.
pub fn program(rng: &mut Rng) -> Source {
    let (major, minor) = (major(rng), minor(rng));
    let mut asm = Asm::new();
    asm.movr(6, 1);
    match rng.below(5) {
        0 => count_aside(&mut asm),
        1 => every_other(&mut asm),
        2 => write_then_read(&mut asm),
        3 => per_cpu(&mut asm, true),
        _ => per_cpu(&mut asm, false),
    }
    let next = asm.label();
    asm.ldx(size::W, 2, 6, 4);
    asm.jump_if(cond::NE, 2, major as i32, next);
    asm.ldx(size::W, 2, 6, 8);
    asm.jump_if(cond::NE, 2, minor as i32, next);
    asm.verdict(0);
    asm.bind(next);
    asm.verdict(1);
    Source { gpl: true, may_be_unknown: true, hints: vec![(major, minor)], ..asm.finish("mutable map") }
}

/// Counts its runs, and nothing depends on the count.
fn count_aside(asm: &mut Asm) {
    let map = asm.map(counter(MapKind::Array));
    asm.ld_map_value(1, map, 0);
    asm.mov(2, 1);
    asm.raw(0xdb, 1, 2, 0, 0);
}

/// Denies every other question.
fn every_other(asm: &mut Asm) {
    let map = asm.map(counter(MapKind::Array));
    let even = asm.label();
    asm.ld_map_value(1, map, 0);
    asm.ldx(size::DW, 2, 1, 0);
    asm.op64(alu::ADD, 2, 1);
    asm.stx(size::DW, 1, 0, 2);
    asm.op64(alu::AND, 2, 1);
    asm.jump_if(cond::EQ, 2, 0, even);
    asm.verdict(0);
    asm.bind(even);
}

/// Denies block devices by way of the map.
fn write_then_read(asm: &mut Asm) {
    let map = asm.map(counter(MapKind::Array));
    let other = asm.label();
    asm.ld_map_value(1, map, 0);
    asm.ldx(size::H, 2, 6, 0);
    asm.stx(size::DW, 1, 0, 2);
    asm.ldx(size::DW, 3, 1, 0);
    asm.jump_if(cond::NE, 3, 1, other);
    asm.verdict(0);
    asm.bind(other);
}

/// Looks up this CPU's value, which is 0, and lets it decide or not.
fn per_cpu(asm: &mut Asm, decides: bool) {
    let map = asm.map(counter(MapKind::PercpuArray));
    let missing = asm.label();
    asm.st(size::W, 10, -4, 0);
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -4);
    asm.ld_map(1, map);
    asm.call(helper::MAP_LOOKUP);
    asm.jump_if(cond::EQ, 0, 0, missing);
    asm.ldx(size::DW, 1, 0, 0);
    if decides {
        asm.jump_if(cond::EQ, 1, 0, missing);
        asm.verdict(0);
    }
    asm.bind(missing);
}
