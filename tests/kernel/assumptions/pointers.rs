//! Tests addresses that a program compares with each other.

use super::{RING, array, finish, load, map, never_wrong, unless_trigger, zero_key};
use crate::support::asm::{Asm, Label, alu, cond, helper, size};
use crate::support::bpf;
use crate::support::host;
use crate::support::kernel::needs;
use crate::support::source::{MapKind, MapSpec};

/// The program returns 1 where it goes on, 0 where it goes to the label.
fn decides(asm: &mut Asm, deny: Label) {
    asm.verdict(1);
    asm.bind(deny);
    asm.verdict(0);
}

fn one(asm: Asm) {
    let loaded = super::load_alone(&finish(asm, "pointers"));
    never_wrong(&[&loaded]);
}

/// Make sure that the order of two places on the stack is that of their
/// addresses: the top is above what is below it.
#[test]
fn two_places_on_the_stack() {
    let Some(_host) = host::shared() else { return };
    for condition in cond::ALL {
        for swapped in [false, true] {
            let mut asm = Asm::new();
            let deny = asm.label();
            asm.st(size::DW, 10, -8, 0);
            asm.movr(2, 10);
            asm.movr(3, 10);
            asm.op64(alu::ADD, if swapped { 2 } else { 3 }, -8);
            asm.jump_ifr(condition, 2, 3, deny);
            decides(&mut asm, deny);
            one(asm);
        }
    }
}

/// Make sure that two lookups in a map whose keys change are not taken for one.
#[test]
fn two_entries_of_a_map() {
    let Some(_host) = host::shared() else { return };
    let entry = |key: u8| (vec![key, 0, 0, 0], vec![1; 8]);
    let spec = MapSpec {
        kind: MapKind::Hash,
        max_entries: 8,
        entries: vec![entry(0), entry(1), entry(2)],
        ..array(8)
    };
    for by_difference in [false, true] {
        let entries = map(&spec);
        let mut asm = Asm::new();
        let (deny, none, other) = (asm.label(), asm.label(), asm.label());
        asm.movr(6, 1);
        unless_trigger(&mut asm, other);
        // The key 2 goes, and with it all that is known about keys.
        zero_key(&mut asm);
        asm.st(size::W, 10, -4, 2);
        asm.ld_map(1, 0);
        asm.call(helper::MAP_DELETE);
        asm.bind(other);
        super::look_up(&mut asm, 0, none);
        asm.movr(7, 0);
        zero_key(&mut asm);
        asm.st(size::W, 10, -4, 1);
        asm.ld_map(1, 0);
        asm.call(helper::MAP_LOOKUP);
        asm.jump_if(cond::EQ, 0, 0, none);
        if by_difference {
            asm.op64r(alu::SUB, 0, 7);
            asm.jump_if(cond::EQ, 0, 0, deny);
        } else {
            asm.jump_ifr(cond::EQ, 0, 7, deny);
        }
        asm.verdict(1);
        asm.bind(none);
        asm.bind(deny);
        asm.verdict(0);
        never_wrong(&[&load(&finish(asm, "entries"), &[&entries])]);
    }
}

/// Make sure that two records for user space are two.
#[test]
fn two_records() {
    let Some(_host) = host::shared() else { return };
    let mut asm = Asm::new();
    let ring = MapSpec {
        kind: MapKind::Ringbuf,
        key_size: 0,
        value_size: 0,
        max_entries: RING,
        entries: vec![],
        ..array(8)
    };
    let ring = asm.map(ring);
    let (none, only, deny) = (asm.label(), asm.label(), asm.label());
    let reserve = |asm: &mut Asm| {
        asm.ld_map(1, ring);
        asm.mov(2, 8);
        asm.mov(3, 0);
        asm.call(131);
    };
    reserve(&mut asm);
    asm.jump_if(cond::EQ, 0, 0, none);
    asm.movr(6, 0);
    reserve(&mut asm);
    asm.jump_if(cond::EQ, 0, 0, only);
    asm.movr(7, 0);
    asm.movr(8, 6);
    asm.op64r(alu::SUB, 8, 7);
    let discard = |asm: &mut Asm, record: u8| {
        asm.movr(1, record);
        asm.mov(2, 0);
        asm.call(133);
    };
    discard(&mut asm, 7);
    discard(&mut asm, 6);
    asm.jump_if(cond::EQ, 8, 0, deny);
    asm.verdict(1);
    asm.bind(only);
    discard(&mut asm, 6);
    asm.bind(none);
    asm.bind(deny);
    asm.verdict(0);
    one(asm);
}

/// Make sure that the copies of two CPUs are two.
#[test]
fn two_copies_of_a_value() {
    let Some(_host) = host::shared() else { return };
    if !needs(5, 19, "bpf_map_lookup_percpu_elem") {
        return;
    }
    let copies = MapSpec { kind: MapKind::PercpuArray, entries: vec![], ..array(8) };
    let mut asm = Asm::new();
    let copies = asm.map(copies);
    let (none, deny) = (asm.label(), asm.label());
    // A CPU that is not there has no copy: the answer is then the same as for
    // one copy only.
    let copy_of = |asm: &mut Asm, cpu: i32| {
        zero_key(asm);
        asm.ld_map(1, copies);
        asm.mov(3, cpu);
        asm.call(195);
        asm.jump_if(cond::EQ, 0, 0, none);
    };
    copy_of(&mut asm, 0);
    asm.movr(7, 0);
    copy_of(&mut asm, 1);
    asm.jump_ifr(cond::EQ, 0, 7, deny);
    asm.verdict(1);
    asm.bind(none);
    asm.bind(deny);
    asm.verdict(0);
    one(asm);
}

/// Make sure that a loop which may go round for a while (`may_goto`, Linux 6.9)
/// is followed as far as the clock lets it.
#[test]
fn a_loop_by_the_clock() {
    let Some(_host) = host::shared() else { return };
    if !needs(6, 9, "may_goto") {
        return;
    }
    for rounds in [10, 70_000] {
        let mut asm = Asm::new();
        let (out, deny) = (asm.label(), asm.label());
        asm.mov(6, 0);
        // `may_goto +3`: leaves the loop when the kernel says so.
        asm.raw(0xe5, 0, 0, 3, 0);
        asm.op64(alu::ADD, 6, 1);
        asm.jump_if(cond::EQ, 6, rounds, out);
        asm.raw(0x05, 0, 0, -4, 0);
        asm.bind(out);
        asm.jump_if(cond::NE, 6, rounds, deny);
        decides(&mut asm, deny);
        match bpf::load(&finish(asm, "may_goto")) {
            Ok(loaded) => drop(never_wrong(&[&loaded])),
            Err(log) => assert!(log.contains("opcode") || log.contains("reserved"), "{log}"),
        }
    }
}
