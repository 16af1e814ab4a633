//! Programs that go on in others: what they find there, how often they may, and that
//! each is followed.

use std::os::fd::{AsRawFd as _, OwnedFd};

use super::{array, finish, load, map, never_wrong, return_flag, set_flag, unless_trigger};
use crate::support::asm::{Asm, alu, cond, helper, size};
use crate::support::bpf::{self, Loaded};
use crate::support::host;
use crate::support::kernel::needs;
use crate::support::source::{MapKind, MapSpec, Source};

/// A map for so many programs.
fn programs(places: u32) -> OwnedFd {
    map(&MapSpec { kind: MapKind::ProgArray, max_entries: places, entries: vec![], ..array(4) })
}

fn put(map: &OwnedFd, index: u32, program: &Loaded) {
    let program = program.program.as_raw_fd().to_ne_bytes();
    bpf::update(map, &index.to_ne_bytes(), &program).expect("a program in the map");
}

/// Goes on in the program at `index` of map 0; r6 is the context.
fn go_on(asm: &mut Asm, index: i32) {
    asm.movr(1, 6);
    asm.ld_map(2, 0);
    asm.mov(3, index);
    asm.call(helper::TAIL_CALL);
}

/// A program that allows the minors below `end`.
fn below(end: i32) -> Loaded {
    let mut asm = Asm::new();
    let allow = asm.label();
    asm.ldx(size::W, 2, 1, 8);
    asm.jump_if(cond::LT, 2, end, allow);
    asm.verdict(0);
    asm.bind(allow);
    asm.verdict(1);
    load(&finish(asm, "below"), &[])
}

/// A program that goes on at `index`, and allows nothing where there is none.
fn caller(index: i32) -> Source {
    let mut asm = Asm::new();
    asm.movr(6, 1);
    go_on(&mut asm, index);
    asm.verdict(0);
    finish(asm, "caller")
}

/// Make sure that a program is followed in the ones that it goes on in, one after the
/// other, and that each is found by its index.
#[test]
fn one_after_the_other() {
    let Some(_host) = host::shared() else { return };
    let (first, second) = (programs(2), programs(8));
    put(&second, 1, &below(1));
    put(&second, 3, &below(4));
    let mut asm = Asm::new();
    asm.movr(6, 1);
    asm.ldx(size::W, 3, 6, 8);
    asm.movr(1, 6);
    asm.ld_map(2, 0);
    asm.call(helper::TAIL_CALL);
    asm.verdict(1);
    put(&first, 0, &load(&finish(asm, "by minor"), &[&second]));
    assert_eq!(never_wrong(&[&load(&caller(0), &[&first])]), 0);
    assert_eq!(never_wrong(&[&load(&caller(1), &[&first])]), 0);
}

/// Make sure that a program which calls itself does so as often as the kernel lets it,
/// which the error in force counts.
#[test]
fn as_often_as_the_kernel_lets() {
    let Some(_host) = host::shared() else { return };
    if !needs(5, 18, "bpf_set_retval") {
        return;
    }
    for expected in [33, 34, 35] {
        let itself = programs(1);
        let mut asm = Asm::new();
        let (deny, known) = (asm.label(), asm.label());
        asm.movr(6, 1);
        asm.call(helper::GET_RETVAL);
        asm.movr(1, 0);
        asm.op64(alu::ADD, 1, -1);
        // Newer kernels want to know that it is an error.
        asm.jump_if(cond::SLT, 1, -4095, deny);
        asm.call(helper::SET_RETVAL);
        go_on(&mut asm, 0);
        asm.call(helper::GET_RETVAL);
        asm.jump_if(cond::EQ, 0, -expected, known);
        asm.jump(deny);
        asm.bind(known);
        asm.mov(1, 0);
        asm.call(helper::SET_RETVAL);
        asm.verdict(1);
        asm.bind(deny);
        asm.verdict(0);
        let program = load(&finish(asm, "itself"), &[&itself]);
        put(&itself, 0, &program);
        assert_eq!(never_wrong(&[&program]), 0, "{expected}");
    }
}

/// Make sure that calls to nowhere, which some kernels count, are not left out.
#[test]
fn calls_to_nowhere() {
    let Some(_host) = host::shared() else { return };
    for nowhere in [20, 33, 40] {
        let some = programs(2);
        put(&some, 0, &below(2));
        let mut asm = Asm::new();
        asm.movr(6, 1);
        (0..nowhere).for_each(|_| go_on(&mut asm, 1));
        go_on(&mut asm, 0);
        asm.verdict(0);
        let unknown = never_wrong(&[&load(&finish(asm, "nowhere"), &[&some])]);
        assert_eq!(unknown == 0, nowhere < 33, "{nowhere}");
    }
}

/// Make sure that what was on the stack counts as unknown where a program goes on.
#[test]
fn a_stack_that_is_left() {
    let Some(_host) = host::shared() else { return };
    if !needs(6, 3, "a read of what was never written") {
        return;
    }
    let mut asm = Asm::new();
    asm.ldx(size::DW, 0, 10, -8);
    asm.op64(alu::AND, 0, 1);
    asm.exit();
    let reads = load(&finish(asm, "reads"), &[]);
    let one = programs(1);
    put(&one, 0, &reads);
    let mut asm = Asm::new();
    asm.movr(6, 1);
    asm.ldx(size::W, 2, 1, 8);
    asm.stx(size::DW, 10, -8, 2);
    go_on(&mut asm, 0);
    asm.verdict(0);
    never_wrong(&[&load(&finish(asm, "leaves"), &[&one])]);
}

/// Make sure that what a program writes where it goes on is written, for itself and
/// for the next program, and that others of its maps stay known.
#[test]
fn what_the_called_write() {
    let Some(_host) = host::shared() else { return };
    let (flag, other, one) = (map(&array(8)), map(&array(8)), programs(1));
    let mut asm = Asm::new();
    set_flag(&mut asm, 0, 0);
    put(&one, 0, &load(&finish(asm, "writes"), &[&flag]));
    let mut asm = Asm::new();
    let next = asm.label();
    asm.movr(6, 1);
    unless_trigger(&mut asm, next);
    go_on(&mut asm, 0);
    asm.bind(next);
    asm.verdict(1);
    let writer = load(&finish(asm, "caller"), &[&one]);
    let reader = |map| {
        let mut asm = Asm::new();
        return_flag(&mut asm, 0, 0);
        load(&finish(asm, "reader"), &[map])
    };
    assert!(never_wrong(&[&writer, &reader(&flag)]) > 0, "what is written counts as known");
    assert_eq!(never_wrong(&[&writer, &reader(&other)]), 0, "what is not written is unknown");
}
