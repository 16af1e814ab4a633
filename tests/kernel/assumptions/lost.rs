//! Tests writes after a point that the decoder does not follow.

use super::{array, finish, load, map, never_wrong, return_flag, set_flag, unless_trigger};
use crate::support::asm::{Asm, Label, alu, cond, helper, size};
use crate::support::kernel::needs;
use crate::support::{bpf, host};

/// A program that sets a flag where the question is the trigger, after `lose`,
/// and returns the flag otherwise.
fn writer(lose: impl FnOnce(&mut Asm, Label)) -> Asm {
    let mut asm = Asm::new();
    let (other, lost) = (asm.label(), asm.label());
    asm.movr(6, 1);
    unless_trigger(&mut asm, other);
    lose(&mut asm, lost);
    asm.bind(lost);
    set_flag(&mut asm, 0, 0);
    asm.bind(other);
    return_flag(&mut asm, 0, 0);
    asm
}

fn alone(lose: impl FnOnce(&mut Asm, Label)) {
    let Some(_host) = host::shared() else { return };
    let mut asm = writer(lose);
    asm.map(array(8));
    let loaded = super::load_alone(&finish(asm, "lost"));
    never_wrong(&[&loaded]);
}

/// Make sure that a write after a kernel function is one.
#[test]
fn after_a_kernel_function() {
    let Some(_host) = host::shared() else { return };
    if !needs(6, 14, "bpf_local_irq_save") {
        return;
    }
    alone(|asm, _| call_the_kernel(asm));
}

/// Two functions of the kernel that gpumap does not run.
fn call_the_kernel(asm: &mut Asm) {
    for name in ["bpf_local_irq_save", "bpf_local_irq_restore"] {
        asm.movr(1, 10);
        asm.op64(alu::ADD, 1, -8);
        asm.call_kernel(super::types::function(name));
    }
}

/// Numbers that outgrow every limit of the decoder.
fn too_much(asm: &mut Asm) {
    asm.ldx(size::W, 2, 6, 4);
    asm.ldx(size::W, 3, 6, 8);
    for _ in 0..40 {
        asm.op64r(alu::MUL, 2, 3);
        asm.op64r(alu::XOR, 3, 2);
        asm.op64(alu::MUL, 3, 0x1234_5677);
    }
    asm.ldx(size::W, 7, 6, 4);
}

/// Make sure that a write after what is too complex is one.
#[test]
fn after_too_much() {
    alone(|asm, _| too_much(asm));
}

/// Make sure that it is one for the next program, too, whose own answer is
/// simple.
#[test]
fn after_too_much_for_the_next_program() {
    let Some(_host) = host::shared() else { return };
    let flag = map(&array(8));
    let writer = load(&finish(writer(|asm, _| too_much(asm)), "writer"), &[&flag]);
    let mut asm = Asm::new();
    return_flag(&mut asm, 0, 0);
    let reader = load(&finish(asm, "reader"), &[&flag]);
    never_wrong(&[&writer, &reader]);
}

/// Make sure that what a program writes to which another one jumps is written.
#[test]
fn in_a_tail_call() {
    let Some(_host) = host::shared() else { return };
    let flag = map(&array(8));
    let mut asm = Asm::new();
    set_flag(&mut asm, 0, 0);
    let target = load(&finish(asm, "target"), &[&flag]);
    let programs = bpf::create_map(&super::MapSpec {
        kind: super::MapKind::ProgArray,
        key_size: 4,
        value_size: 4,
        max_entries: 1,
        flags: 0,
        freeze: false,
        entries: vec![],
    });
    let programs = programs.expect("a map of programs");
    let fd = std::os::fd::AsRawFd::as_raw_fd(&target.program);
    bpf::update(&programs, &[0; 4], &fd.to_ne_bytes()).expect("a program in it");
    let mut asm = Asm::new();
    let other = asm.label();
    asm.movr(6, 1);
    unless_trigger(&mut asm, other);
    asm.movr(1, 6);
    asm.ld_map(2, 0);
    asm.mov(3, 0);
    asm.call(helper::TAIL_CALL);
    asm.bind(other);
    asm.verdict(1);
    let caller = load(&finish(asm, "caller"), &[&programs]);
    let mut asm = Asm::new();
    return_flag(&mut asm, 0, 0);
    let reader = load(&finish(asm, "reader"), &[&flag]);
    never_wrong(&[&caller, &reader]);
    never_wrong(&[&reader, &caller]);
}

/// Make sure that what is written in one program counts in the next, where the
/// first is not followed.
#[test]
fn for_the_next_program() {
    let Some(_host) = host::shared() else { return };
    if !needs(6, 14, "bpf_local_irq_save") {
        return;
    }
    let flag = map(&array(8));
    let mut asm = Asm::new();
    let other = asm.label();
    asm.movr(6, 1);
    unless_trigger(&mut asm, other);
    call_the_kernel(&mut asm);
    set_flag(&mut asm, 0, 0);
    asm.bind(other);
    asm.verdict(1);
    let writer = load(&finish(asm, "writer"), &[&flag]);
    let mut asm = Asm::new();
    return_flag(&mut asm, 0, 0);
    let reader = load(&finish(asm, "reader"), &[&flag]);
    never_wrong(&[&writer, &reader]);
}

/// Make sure that a call without a name that looks like a lookup is not taken
/// for one: here it deletes.
#[test]
fn a_hidden_delete() {
    let Some(_host) = host::shared() else { return };
    let mut asm = Asm::new();
    let (zero, deny) = (asm.label(), asm.label());
    let spec = super::MapSpec { kind: super::MapKind::Hash, entries: vec![], ..array(8) };
    let map = asm.map(super::MapSpec { key_size: 8, ..spec });
    asm.movr(6, 1);
    asm.st(size::DW, 10, -8, 5);
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -8);
    asm.ld_map(1, map);
    asm.call(helper::MAP_DELETE);
    asm.jump_if(cond::EQ, 0, 0, zero);
    asm.op64(alu::ADD, 0, 0x38);
    asm.bind(zero);
    asm.jump_if(cond::EQ, 0, 0, deny);
    asm.verdict(1);
    asm.bind(deny);
    asm.verdict(0);
    let loaded = super::load_alone(&finish(asm, "delete"));
    let mut bench = super::Bench::new().expect("scratch cgroups and an oracle");
    let mut facts = bench.ask(&[&loaded], &super::devices());
    for program in &mut facts.programs {
        program.calls.clear();
    }
    super::judge(&facts);
}
