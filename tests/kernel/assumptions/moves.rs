//! Tests moves of addresses that extend a sign, which a listing of an older bpftool
//! shows as plain moves.

use gpumap::bytecode::Insn;
use gpumap::observation::{Answer, HexBytes, Program};

use super::{devices, finish, judge};
use crate::support::asm::{Asm, alu, cond, size};
use crate::support::bench::{Bench, Facts};
use crate::support::kernel::needs;
use crate::support::source::Source;
use crate::support::{bpf, host};

/// Offsets of moves of 64 bits: plain ones, and those that extend a sign.
const MOVES: [i16; 4] = [0, 8, 16, 32];
/// The mark of what a listing does not show (`bytecode::opcode`).
const NOT_SHOWN: i16 = i16::MIN;

/// `r3 = (s…)r_from`, used by `rest`.
fn moved(bits: i16, from: u8, rest: impl FnOnce(&mut Asm)) -> Source {
    let mut asm = Asm::new();
    asm.raw(alu::MOV | 0x0f, 3, from, bits, 0);
    rest(&mut asm);
    finish(asm, "a moved address")
}

/// The program as a listing without opcodes shows it.
fn list(program: &mut Program) {
    let bytes = &program.xlated.known().expect("instructions").0;
    let shown = |insn: Insn| match insn.code {
        0xbf | 0xbc => Insn { off: NOT_SHOWN, ..insn },
        _ => insn,
    };
    let insns = Insn::parse_all(bytes).expect("whole slots").into_iter().map(shown);
    program.xlated = Answer::Known(HexBytes(insns.flat_map(|insn| insn.bytes()).collect()));
}

fn listed(source: &Source) -> usize {
    let loaded = bpf::load(source).expect("the verifier's consent");
    let mut facts: Facts = Bench::new().expect("scratch cgroups and an oracle").ask(&[&loaded], &devices());
    assert_eq!(judge(&facts), 0, "the program itself");
    facts.programs.iter_mut().for_each(list);
    judge(&facts)
}

/// Make sure that the verifier lets no program use a part of an address as an address:
/// read, write or add to it, or hand it to a helper that writes.
#[test]
fn a_part_of_an_address_is_no_address() {
    let Some(_host) = host::shared() else { return };
    let read: fn(&mut Asm) = |asm| {
        asm.ldx(size::W, 0, 3, -4);
        asm.verdict(1);
    };
    let write: fn(&mut Asm) = |asm| {
        asm.st(size::W, 3, -4, 1);
        asm.verdict(1);
    };
    let add: fn(&mut Asm) = |asm| {
        asm.movr(4, 10);
        asm.op64r(alu::ADD, 4, 3);
        asm.st(size::B, 4, -4, 1);
        asm.verdict(1);
    };
    let fill: fn(&mut Asm) = |asm| {
        asm.movr(1, 3);
        asm.op64(alu::ADD, 1, -16);
        asm.mov(2, 16);
        asm.call(16);
        asm.verdict(1);
    };
    if !needs(6, 6, "a move of some bits") {
        return;
    }
    for bits in MOVES {
        for (what, rest) in [("read", read), ("write", write), ("add", add), ("fill", fill)] {
            let source = moved(bits, 10, |asm| {
                asm.st(size::DW, 10, -8, 0);
                rest(asm);
            });
            let is_taken = bpf::load(&source).is_ok();
            assert_eq!(is_taken, bits == 0 && what != "add", "{what} behind a move of {bits} bits");
        }
    }
}

/// Make sure that a listing gives no wrong answer about a program that keeps a part of
/// an address, and none that is unknown about one that moves addresses.
#[test]
fn a_listing_hides_parts_of_addresses() {
    let Some(_host) = host::shared() else { return };
    if !needs(6, 6, "a move of some bits") {
        return;
    }
    let same = |asm: &mut Asm| {
        let other = asm.label();
        asm.jump_ifr(cond::NE, 3, 10, other);
        asm.verdict(1);
        asm.bind(other);
        asm.verdict(0);
    };
    for bits in [8, 16, 32] {
        let source = moved(bits, 10, same);
        let loaded = bpf::load(&source).expect("the verifier's consent");
        let mut facts = Bench::new().expect("scratch cgroups and an oracle").ask(&[&loaded], &devices());
        facts.programs.iter_mut().for_each(list);
        assert_ne!(judge(&facts), 0, "a move of {bits} bits");
    }
    let used = moved(0, 1, |asm| {
        let other = asm.label();
        asm.jump_if(cond::EQ, 3, 0, other);
        asm.movr(6, 3);
        asm.ldx(size::W, 0, 6, 8);
        asm.op64(alu::AND, 0, 1);
        asm.exit();
        asm.bind(other);
        asm.verdict(0);
    });
    assert_eq!(listed(&used), 0, "a move of the argument");
}
