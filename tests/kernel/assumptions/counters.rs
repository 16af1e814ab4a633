//! Tests counters, records and iteration beside a policy: they must write no more
//! than they can reach.

use super::{RING, array, exact, finish};
use crate::support::asm::{Asm, alu, cond, helper, size};
use crate::support::host;
use crate::support::kernel::needs;
use crate::support::source::{MapKind, MapSpec};

/// Denies `c 195:3`, whatever was done before; r6 is the context.
fn policy(asm: &mut Asm) {
    let allow = asm.label();
    asm.ldx(size::W, 2, 6, 4);
    asm.jump_if(cond::NE, 2, 195, allow);
    asm.ldx(size::W, 2, 6, 8);
    asm.jump_if(cond::NE, 2, 3, allow);
    asm.verdict(0);
    asm.bind(allow);
    asm.verdict(1);
}

/// Counts in the map of `spec` and decides by a map that is not written.
fn beside(spec: MapSpec, count: impl FnOnce(&mut Asm, usize)) {
    let Some(_host) = host::shared() else { return };
    let mut asm = Asm::new();
    let rule = asm.map(MapSpec { entries: vec![(vec![0; 4], vec![1; 8])], ..array(8) });
    let counter = asm.map(spec);
    let allow = asm.label();
    asm.movr(6, 1);
    // The major number, which nothing below may forget.
    asm.ldx(size::W, 7, 6, 4);
    asm.stx(size::DW, 10, -8, 7);
    count(&mut asm, counter);
    asm.ld_map_value(1, rule, 0);
    asm.ldx(size::W, 1, 1, 0);
    asm.jump_if(cond::EQ, 1, 0, allow);
    asm.ldx(size::DW, 2, 10, -8);
    asm.jump_if(cond::EQ, 2, 226, allow);
    policy(&mut asm);
    asm.bind(allow);
    asm.verdict(1);
    exact(&finish(asm, "counter"));
}

/// Looks key 0 (at -16) up and adds 1 to the value.
fn add_one(asm: &mut Asm, map: usize) {
    let none = asm.label();
    asm.st(size::W, 10, -16, 0);
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -16);
    asm.ld_map(1, map);
    asm.call(helper::MAP_LOOKUP);
    asm.jump_if(cond::EQ, 0, 0, none);
    asm.mov(1, 1);
    asm.raw(0xdb, 0, 1, 0, 0);
    asm.bind(none);
}

fn zero(kind: MapKind) -> MapSpec {
    MapSpec { kind, entries: vec![], ..array(8) }
}

/// Make sure that a counter of any kind leaves the policy known.
#[test]
fn counters() {
    beside(array(8), add_one);
    beside(zero(MapKind::PercpuArray), add_one);
    beside(zero(MapKind::PercpuHash), add_one);
    beside(zero(MapKind::Hash), add_one);
    beside(zero(MapKind::LruHash), add_one);
}

/// Make sure that a new entry is put into the map that it is put into.
#[test]
fn updates() {
    for kind in [MapKind::Hash, MapKind::PercpuHash, MapKind::LruHash, MapKind::PercpuArray] {
        beside(zero(kind), |asm, map| {
            asm.st(size::W, 10, -32, 0);
            asm.st(size::DW, 10, -24, 5);
            asm.movr(2, 10);
            asm.op64(alu::ADD, 2, -32);
            asm.movr(3, 10);
            asm.op64(alu::ADD, 3, -24);
            asm.mov(4, 0);
            asm.ld_map(1, map);
            asm.call(helper::MAP_UPDATE);
        });
    }
}

/// Make sure that a record for user space writes nothing else.
#[test]
fn records() {
    let ring = || MapSpec {
        kind: MapKind::Ringbuf,
        key_size: 0,
        value_size: 0,
        max_entries: RING,
        flags: 0,
        freeze: false,
        entries: vec![],
    };
    beside(ring(), |asm, map| {
        asm.st(size::DW, 10, -24, 5);
        asm.ld_map(1, map);
        asm.movr(2, 10);
        asm.op64(alu::ADD, 2, -24);
        asm.mov(3, 8);
        asm.mov(4, 0);
        asm.call(helper::RINGBUF_OUTPUT);
    });
    beside(ring(), |asm, map| {
        let none = asm.label();
        asm.ld_map(1, map);
        asm.mov(2, 8);
        asm.mov(3, 0);
        asm.call(131);
        asm.jump_if(cond::EQ, 0, 0, none);
        asm.stx(size::DW, 0, 0, 7);
        asm.movr(1, 0);
        asm.mov(2, 0);
        asm.call(132);
        asm.bind(none);
    });
}

/// Make sure that an entry which counts its hits keeps its verdict.
#[test]
fn a_hit_counter_in_an_entry() {
    let Some(_host) = host::shared() else { return };
    let mut asm = Asm::new();
    let (allow, deny) = (asm.label(), asm.label());
    let entry = |minor: u8, verdict: u8| {
        let (mut key, mut value) = (vec![195, 0, 0, 0, minor], vec![verdict]);
        key.resize(8, 0);
        value.resize(16, 0);
        (key, value)
    };
    let map = asm.map(MapSpec {
        kind: MapKind::Hash,
        key_size: 8,
        value_size: 16,
        max_entries: 8,
        flags: 0,
        freeze: false,
        entries: vec![entry(0, 1), entry(1, 0), entry(3, 1)],
    });
    asm.ldx(size::W, 2, 1, 4);
    asm.ldx(size::W, 3, 1, 8);
    asm.stx(size::W, 10, -8, 2);
    asm.stx(size::W, 10, -4, 3);
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -8);
    asm.ld_map(1, map);
    asm.call(helper::MAP_LOOKUP);
    asm.jump_if(cond::EQ, 0, 0, allow);
    asm.mov(1, 1);
    asm.raw(0xdb, 0, 1, 8, 0);
    asm.ldx(size::W, 1, 0, 0);
    asm.jump_if(cond::NE, 1, 0, deny);
    asm.bind(allow);
    asm.verdict(1);
    asm.bind(deny);
    asm.verdict(0);
    exact(&finish(asm, "hits"));
}

/// Make sure that the longest prefix decides.
#[test]
fn prefixes() {
    let Some(_host) = host::shared() else { return };
    let entry = |bits: u8, major: u8, minor: u8, verdict: u8| {
        (vec![bits, 0, 0, 0, 0, major, 0, minor], vec![verdict, 0, 0, 0, 0, 0, 0, 0])
    };
    let mut asm = Asm::new();
    let allow = asm.label();
    let map = asm.map(MapSpec {
        kind: MapKind::LpmTrie,
        key_size: 8,
        value_size: 8,
        max_entries: 8,
        flags: 1,
        freeze: false,
        entries: vec![entry(16, 195, 0, 1), entry(32, 195, 3, 0), entry(31, 226, 128, 1), entry(8, 0, 0, 0)],
    });
    asm.ldx(size::W, 2, 1, 4);
    asm.ldx(size::W, 3, 1, 8);
    asm.st(size::W, 10, -8, 32);
    asm.stx(size::B, 10, -3, 2);
    asm.op64(alu::RSH, 2, 8);
    asm.stx(size::B, 10, -4, 2);
    asm.stx(size::B, 10, -1, 3);
    asm.op64(alu::RSH, 3, 8);
    asm.stx(size::B, 10, -2, 3);
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -8);
    asm.ld_map(1, map);
    asm.call(helper::MAP_LOOKUP);
    asm.jump_if(cond::EQ, 0, 0, allow);
    asm.ldx(size::W, 1, 0, 0);
    asm.jump_if(cond::EQ, 1, 0, allow);
    asm.verdict(0);
    asm.bind(allow);
    asm.verdict(1);
    exact(&finish(asm, "prefixes"));
}

/// Make sure that loads and stores with an order are loads and stores (Linux
/// 6.15).
#[test]
fn ordered_accesses() {
    let Some(_host) = host::shared() else { return };
    if !needs(6, 15, "a load with an order") {
        return;
    }
    let mut asm = Asm::new();
    asm.movr(6, 1);
    asm.ldx(size::W, 2, 6, 4);
    // Store-release and load-acquire of the major number.
    asm.raw(0xdb, 10, 2, -8, 0x110);
    asm.raw(0xdb, 3, 10, -8, 0x100);
    let deny = asm.label();
    asm.jump_if(cond::EQ, 3, 195, deny);
    asm.verdict(1);
    asm.bind(deny);
    asm.verdict(0);
    let source = finish(asm, "ordered");
    match super::bpf::load(&source) {
        Ok(_) => exact(&source),
        Err(log) => assert!(log.contains("opcode"), "{log}"),
    }
}
