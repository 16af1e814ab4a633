//! Tests memory that is neither the stack nor a plain map: casts, arenas, locks,
//! variables of the kernel, and maps of programs.

use std::os::fd::AsRawFd as _;

use super::types::function;
use super::{
    TRIGGER, array, devices, exact, finish, judge, load, load_alone, look_up, map, never_wrong,
    unless_trigger,
};
use crate::support::asm::{Asm, alu, cond, helper, size};
use crate::support::bench::Bench;
use crate::support::bpf::{self, Attr, bpf_fd};
use crate::support::host;
use crate::support::kernel::needs;
use crate::support::source::{MapKind, MapSpec, Source};

/// `return *(u64 *)(r0 + offset) != 0`, or 0 at `none`.
fn return_value(asm: &mut Asm, offset: i16, none: crate::support::asm::Label) {
    asm.ldx(size::DW, 1, 0, offset);
    asm.jump_if(cond::EQ, 1, 0, none);
    asm.verdict(1);
    asm.bind(none);
    asm.verdict(0);
}

/// Make sure that what lies behind one CPU's copy of an entry is not taken for
/// the copy of the next entry.
#[test]
fn behind_a_copy_of_a_cpu() {
    let Some(_host) = host::shared() else { return };
    if !needs(6, 2, "bpf_rdonly_cast") {
        return;
    }
    let cast = function("bpf_rdonly_cast");
    let kind = super::types::number("bpf_map_ops", 4).expect("a type made of 8-byte members");
    let entry = |index: u8, value: u8| (vec![index, 0, 0, 0], vec![value, 0, 0, 0, 0, 0, 0, 0]);
    let cpus = crate::support::inspect::possible_cpus() as usize;
    let on_all = |(key, value): (Vec<u8>, Vec<u8>)| (key, value.repeat(cpus));
    // Many entries: some of their copies do not follow each other.
    let entries = (0..64).map(|index| on_all(entry(index, 1 + index))).collect();
    let copies = map(&MapSpec { kind: MapKind::PercpuArray, max_entries: 64, entries, ..array(8) });
    for offset in [8, 64, 256] {
        let mut asm = Asm::new();
        let none = asm.label();
        look_up(&mut asm, 0, none);
        asm.movr(1, 0);
        asm.mov(2, kind);
        asm.call_kernel(cast);
        return_value(&mut asm, offset, none);
        let loaded = load(&finish(asm, "cast"), &[&copies]);
        let facts = Bench::new().expect("scratch cgroups and an oracle").ask(&[&loaded], &devices());
        let unknown = judge(&facts);
        assert_eq!(unknown, facts.devices.len() * 5, "what lies behind a copy is not known");
    }
}

/// Make sure that a counter in memory shared with user space (an arena) leaves
/// the policy known, and that what is read there is not.
#[test]
fn shared_with_user_space() {
    let Some(_host) = host::shared() else { return };
    if !needs(6, 9, "an arena") {
        return;
    }
    const MMAPABLE: u32 = 1 << 10;
    const ARENA: u32 = 33;
    // `map_extra`: where user space would map it, the upper half of 8 bytes.
    let mut attr = Attr::new().u32(0, ARENA).u32(12, 1).u32(16, MMAPABLE).u32(68, 0x1000);
    let arena = bpf_fd(0, &mut attr).expect("an arena");
    let policy = |asm: &mut Asm, reads: bool| {
        let (allow, zero) = (asm.label(), asm.label());
        asm.movr(6, 1);
        asm.ld_map_value(1, 0, 64);
        // The address as programs use it.
        asm.raw(0xbf, 1, 1, 1, 1);
        asm.mov(2, 1);
        asm.raw(0xdb, 1, 2, 0, 0);
        asm.ldx(size::DW, 3, 1, 0);
        if reads {
            asm.jump_if(cond::EQ, 3, 7, zero);
        }
        asm.stx(size::DW, 1, 8, 3);
        asm.ldx(size::W, 2, 6, 8);
        asm.jump_if(cond::NE, 2, 3, allow);
        asm.bind(zero);
        asm.verdict(0);
        asm.bind(allow);
        asm.verdict(1);
    };
    let source = |reads| {
        let mut asm = Asm::new();
        policy(&mut asm, reads);
        finish(asm, "arena")
    };
    assert_eq!(never_wrong(&[&load(&source(false), &[&arena])]), 0, "unknown beside an arena");
    let facts = Bench::new().expect("an oracle").ask(&[&load(&source(true), &[&arena])], &devices());
    assert!(judge(&facts) > 0, "what user space may change is known");
}

/// Make sure that a tail call leads nowhere where the map of programs has none,
/// and to the program where it has one.
#[test]
fn a_map_without_programs() {
    let Some(_host) = host::shared() else { return };
    let programs = || map(&MapSpec { kind: MapKind::ProgArray, max_entries: 4, entries: vec![], ..array(4) });
    let caller = || {
        let mut asm = Asm::new();
        let allow = asm.label();
        asm.movr(6, 1);
        asm.ldx(size::W, 7, 6, 8);
        asm.ld_map(2, 0);
        asm.movr(3, 7);
        asm.call(helper::TAIL_CALL);
        asm.jump_if(cond::NE, 7, 3, allow);
        asm.verdict(0);
        asm.bind(allow);
        asm.verdict(1);
        finish(asm, "caller")
    };
    let empty = programs();
    assert_eq!(never_wrong(&[&load(&caller(), &[&empty])]), 0, "nothing is called");
    let mut asm = Asm::new();
    asm.verdict(0);
    let target = load(&finish(asm, "target"), &[]);
    let one = programs();
    bpf::update(&one, &[1, 0, 0, 0], &target.program.as_raw_fd().to_ne_bytes()).expect("a program in it");
    assert_eq!(never_wrong(&[&load(&caller(), &[&one])]), 0, "what is called is followed");
}

/// Make sure that a reason names what is not known: the CPU, a variable of the
/// kernel.
#[test]
fn reasons_name_their_cause() {
    let Some(_host) = host::shared() else { return };
    for (number, expected) in [(8, "the CPU"), (118, "of the kernel"), (5, "bpf_ktime_get_ns")] {
        let mut asm = Asm::new();
        let zero = asm.label();
        asm.call(number);
        asm.op64(alu::AND, 0, 1);
        asm.jump_if(cond::EQ, 0, 0, zero);
        asm.mov(0, 1);
        asm.bind(zero);
        asm.exit();
        let loaded = load(&finish(asm, "reason"), &[]);
        let facts = Bench::new().expect("scratch cgroups and an oracle").ask(&[&loaded], &[TRIGGER]);
        judge(&facts);
        let mut decoder = gpumap::policy::Decoder::new();
        let context = gpumap::policy::Context {
            maps: &facts.maps,
            cgroups: &[],
            cgroup_id: None,
            combination: gpumap::policy::Combination::Retval,
        };
        let policy = decoder.policy(&[&facts.programs[0]], &context);
        let why = decoder.reasons(policy).join("; ");
        assert!(why.contains(expected) || why.contains("helper"), "{number}: {why}");
    }
}

/// More entries than the places of an address that are told apart.
const MANY: u32 = 17_000;

/// `flags[minor] == 1`, with what `before` does to the entry, which r0 leads to.
fn one_of_many(shape: &str, before: impl FnOnce(&mut Asm)) -> Source {
    let mut asm = Asm::new();
    let none = asm.label();
    let entry = |index: u32, flag: u8| (index.to_le_bytes().to_vec(), vec![flag, 0, 0, 0, 0, 0, 0, 0]);
    let entries = vec![entry(0, 1), entry(3, 1), entry(128, 2), entry(MANY - 1, 1)];
    let map = asm.map(MapSpec { max_entries: MANY, value_size: 8, entries, ..array(8) });
    asm.movr(6, 1);
    asm.ldx(size::W, 2, 1, 8);
    asm.stx(size::W, 10, -4, 2);
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -4);
    asm.ld_map(1, map);
    asm.call(helper::MAP_LOOKUP);
    asm.jump_if(cond::EQ, 0, 0, none);
    before(&mut asm);
    asm.ldx(size::W, 1, 0, 0);
    asm.jump_if(cond::NE, 1, 1, none);
    asm.verdict(1);
    asm.bind(none);
    asm.verdict(0);
    finish(asm, shape)
}

/// Make sure that an array with very many entries is known, also beside what programs
/// write there, and unknown where they write to what decides.
#[test]
fn an_array_of_many_entries() {
    let Some(_host) = host::shared() else { return };
    exact(&one_of_many("flags", |_| {}));
    exact(&one_of_many("flags beside counters", |asm| asm.st(size::W, 0, 4, 7)));
    let changed = one_of_many("flags that change", |asm| {
        let other = asm.label();
        unless_trigger(asm, other);
        asm.st(size::W, 0, 0, 1);
        asm.bind(other);
    });
    assert_ne!(never_wrong(&[&load_alone(&changed)]), 0, "unknown answers");
}
