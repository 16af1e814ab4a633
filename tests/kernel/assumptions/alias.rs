//! Tests maps that a program reaches in more than one way.

use super::{array, finish, load, look_up, map, never_wrong, return_flag, unless_trigger, zero_key};
use crate::support::asm::{Asm, alu, cond, helper, size};
use crate::support::kernel::needs;
use crate::support::{bpf, host};

/// The first value of an inner map is set to 1 where the trigger is asked
/// about, by a store or by an update.
fn through_an_outer_map(by_update: bool) {
    let Some(_host) = host::shared() else { return };
    let inner = map(&array(8));
    let outer = bpf::create_array_of_maps(&inner, 1).expect("a map of maps");
    let fd = std::os::fd::AsRawFd::as_raw_fd(&inner);
    bpf::update(&outer, &[0; 4], &fd.to_ne_bytes()).expect("a map in it");
    let mut asm = Asm::new();
    let other = asm.label();
    asm.movr(6, 1);
    unless_trigger(&mut asm, other);
    look_up(&mut asm, 0, other);
    asm.movr(1, 0);
    zero_key(&mut asm);
    if by_update {
        asm.st(size::DW, 10, -16, 1);
        asm.movr(3, 10);
        asm.op64(alu::ADD, 3, -16);
        asm.mov(4, 0);
        asm.call(helper::MAP_UPDATE);
    } else {
        asm.call(helper::MAP_LOOKUP);
        asm.jump_if(cond::EQ, 0, 0, other);
        asm.st(size::DW, 0, 0, 1);
    }
    asm.bind(other);
    asm.verdict(1);
    let writer = load(&finish(asm, "writer"), &[&outer]);
    let mut asm = Asm::new();
    return_flag(&mut asm, 0, 0);
    let reader = load(&finish(asm, "reader"), &[&inner]);
    never_wrong(&[&writer, &reader]);
    never_wrong(&[&reader, &writer]);
}

/// Make sure that a store through a map of maps is seen by who has the map
/// itself.
#[test]
fn a_store_through_an_outer_map() {
    through_an_outer_map(false);
}

/// Make sure that an update through a map of maps is, too.
#[test]
fn an_update_through_an_outer_map() {
    through_an_outer_map(true);
}

/// Make sure that a stack pointer that a helper's memory seems to cover still
/// writes to the stack.
#[test]
fn a_stack_pointer_beside_a_helper() {
    let Some(_host) = host::shared() else { return };
    if !needs(6, 1, "bpf_get_current_comm in a device program") {
        return;
    }
    let mut asm = Asm::new();
    asm.movr(6, 1);
    // A flag at -32 and its address at -8, above what the helper fills.
    asm.st(size::DW, 10, -32, 0);
    asm.movr(1, 10);
    asm.op64(alu::ADD, 1, -32);
    asm.stx(size::DW, 10, -8, 1);
    asm.movr(1, 10);
    asm.op64(alu::ADD, 1, -24);
    asm.mov(2, 8);
    asm.movr(3, 6);
    asm.call(16);
    asm.ldx(size::DW, 1, 10, -8);
    asm.st(size::DW, 1, 0, 1);
    asm.ldx(size::DW, 0, 10, -32);
    asm.op64(alu::AND, 0, 1);
    asm.exit();
    let loaded = super::load_alone(&finish(asm, "spilled"));
    never_wrong(&[&loaded]);
}

/// Make sure that half of a spilled pointer is told from what the other path
/// has there, whichever path comes first.
#[test]
fn half_of_a_spilled_pointer() {
    let Some(_host) = host::shared() else { return };
    for swapped in [false, true] {
        let mut asm = Asm::new();
        let (other, joined, zero) = (asm.label(), asm.label(), asm.label());
        asm.movr(6, 1);
        asm.ldx(size::W, 2, 6, 8);
        asm.op64(alu::AND, 2, 1);
        asm.jump_if(if swapped { cond::EQ } else { cond::NE }, 2, 0, other);
        asm.stx(size::DW, 10, -8, 10);
        asm.st(size::W, 10, -8, 0);
        asm.jump(joined);
        asm.bind(other);
        asm.st(size::DW, 10, -8, 0);
        asm.bind(joined);
        asm.ldx(size::W, 0, 10, -4);
        asm.jump_if(cond::EQ, 0, 0, zero);
        asm.mov(0, 1);
        asm.bind(zero);
        asm.exit();
        let loaded = super::load_alone(&finish(asm, "halved"));
        never_wrong(&[&loaded]);
    }
}
