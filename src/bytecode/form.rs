//! How an instruction is spelled: one table for both directions.
//!
//! A form is the list of pieces that the kernel's disassembler prints for an
//! instruction. [`disasm`](super::disasm) writes the pieces,
//! [`assemble`](super::assemble) reads them back, so whatever can be printed
//! can be read.

use super::{Insn, opcode};

/// One piece of an instruction's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Fixed text.
    Word(&'static str),
    /// The destination register, `r` or `w` first.
    Dst(char),
    /// The source register, `r` or `w` first.
    Src(char),
    /// The offset with its sign.
    Off,
    /// The immediate with its sign.
    SignedImm,
    /// The immediate, decimal.
    Imm,
    /// The immediate, decimal, without a sign.
    UnsignedImm,
    /// The immediate, hexadecimal.
    HexImm,
    /// The immediate's halves, high first: address spaces.
    HalvesImm,
    /// The second slot's immediate, decimal, without a sign.
    NextImm,
    /// Both immediates of a 64-bit load, hexadecimal.
    WideImm,
    /// The operand of a 64-bit load that a log does not show.
    HiddenImm,
    /// Name and immediate of a called function.
    Callee,
}

use Piece::{
    Callee, Dst, HalvesImm, HexImm, HiddenImm, Imm, NextImm, Off, SignedImm, Src, UnsignedImm, WideImm, Word,
};

/// The form of `insn`, or nothing if no such instruction exists.
pub(super) fn form(insn: Insn) -> Option<Vec<Piece>> {
    match insn.class() {
        opcode::ALU | opcode::ALU64 => arithmetic(insn),
        opcode::JMP | opcode::JMP32 => jump(insn),
        opcode::LD => load_constant(insn),
        opcode::LDX => load(insn),
        opcode::ST => store(insn),
        _ => store_register(insn),
    }
}

fn arithmetic(insn: Insn) -> Option<Vec<Piece>> {
    let letter = if insn.class() == opcode::ALU64 { 'r' } else { 'w' };
    Some(match (insn.op(), insn.off) {
        (opcode::END, _) => vec![Dst('r'), Word(swap(insn)), Imm, Word(" "), Dst('r')],
        (opcode::NEG, _) => vec![Dst(letter), Word(" = -"), Dst(letter)],
        (opcode::MOV, opcode::ADDR_SPACE_CAST) if is_move64(insn) => {
            vec![Dst('r'), Word(" = addr_space_cast("), Src('r'), Word(", "), HalvesImm, Word(")")]
        }
        (opcode::MOV, opcode::ADDR_PERCPU) if is_move64(insn) => {
            vec![Dst('r'), Word(" = &(void __percpu *)("), Src('r'), Word(")")]
        }
        _ if insn.uses_register() => {
            vec![Dst(letter), Word(assignment(insn)?), Word(extension(insn)), Src(letter)]
        }
        _ => vec![Dst(letter), Word(assignment(insn)?), Imm],
    })
}

fn is_move64(insn: Insn) -> bool {
    insn.code == opcode::ALU64 | opcode::MOV | opcode::X
}

fn swap(insn: Insn) -> &'static str {
    match (insn.class(), insn.uses_register()) {
        (opcode::ALU64, _) => " = bswap",
        (_, true) => " = be",
        (_, false) => " = le",
    }
}

fn extension(insn: Insn) -> &'static str {
    match (insn.op(), insn.off) {
        (opcode::MOV, 8) => "(s8)",
        (opcode::MOV, 16) => "(s16)",
        (opcode::MOV, 32) => "(s32)",
        _ => "",
    }
}

fn assignment(insn: Insn) -> Option<&'static str> {
    Some(match (insn.op(), insn.off) {
        (opcode::DIV, 1) => " s/= ",
        (opcode::MOD, 1) => " s%= ",
        (opcode::ADD, _) => " += ",
        (opcode::SUB, _) => " -= ",
        (opcode::MUL, _) => " *= ",
        (opcode::DIV, _) => " /= ",
        (opcode::OR, _) => " |= ",
        (opcode::AND, _) => " &= ",
        (opcode::LSH, _) => " <<= ",
        (opcode::RSH, _) => " >>= ",
        (opcode::MOD, _) => " %= ",
        (opcode::XOR, _) => " ^= ",
        (opcode::MOV, _) => " = ",
        (opcode::ARSH, _) => " s>>= ",
        _ => return None,
    })
}

fn jump(insn: Insn) -> Option<Vec<Piece>> {
    use opcode::{CALL, EXIT, JA, JCOND, JMP, JMP32, X};
    const HELPER: u8 = JMP | CALL;
    const GOTO: u8 = JMP | JA;
    const GOTO_REGISTER: u8 = JMP | JA | X;
    const GOTO_LONG: u8 = JMP32 | JA;
    const MAY_GOTO: u8 = JMP | JCOND;
    const RETURN: u8 = JMP | EXIT;
    Some(match (insn.code, insn.src) {
        (HELPER, opcode::PSEUDO_CALL) => vec![Word("call pc"), Off],
        (HELPER, 0 | opcode::PSEUDO_KFUNC) => vec![Word("call "), Callee],
        (GOTO, _) => vec![Word("goto pc"), Off],
        (GOTO_REGISTER, _) => vec![Word("gotox "), Dst('r')],
        (GOTO_LONG, _) => vec![Word("gotol pc"), SignedImm],
        (MAY_GOTO, 0) => vec![Word("may_goto pc"), Off],
        (RETURN, _) => vec![Word("exit")],
        _ => return branch(insn),
    })
}

fn branch(insn: Insn) -> Option<Vec<Piece>> {
    let letter = if insn.class() == opcode::JMP { 'r' } else { 'w' };
    let right = if insn.uses_register() { Src(letter) } else { HexImm };
    Some(vec![Word("if "), Dst(letter), Word(comparison(insn.op())?), right, Word(" goto pc"), Off])
}

fn comparison(op: u8) -> Option<&'static str> {
    Some(match op {
        opcode::JEQ => " == ",
        opcode::JGT => " > ",
        opcode::JLT => " < ",
        opcode::JGE => " >= ",
        opcode::JLE => " <= ",
        opcode::JSET => " & ",
        opcode::JNE => " != ",
        opcode::JSGT => " s> ",
        opcode::JSLT => " s< ",
        opcode::JSGE => " s>= ",
        opcode::JSLE => " s<= ",
        _ => return None,
    })
}

fn load_constant(insn: Insn) -> Option<Vec<Piece>> {
    if insn.is_wide() {
        return Some([vec![Dst('r'), Word(" = ")], constant(insn)].concat());
    }
    let from = [Word("r0 = "), Word(pointer(insn.size()))];
    match insn.mode() {
        opcode::ABS => Some([&from[..], &[Word("skb["), Imm, Word("]")]].concat()),
        opcode::IND => Some([&from[..], &[Word("skb["), Src('r'), Word(" + "), Imm, Word("]")]].concat()),
        _ => None,
    }
}

fn constant(insn: Insn) -> Vec<Piece> {
    match insn.src {
        0 if insn.off == opcode::NOT_SHOWN_OFFSET => vec![HiddenImm],
        opcode::PSEUDO_MAP => vec![Word("map[id:"), UnsignedImm, Word("]")],
        opcode::PSEUDO_MAP_VALUE => vec![Word("map[id:"), UnsignedImm, Word("][0]+"), NextImm],
        opcode::PSEUDO_MAP_IDX_VALUE => vec![Word("map[idx:"), UnsignedImm, Word("]+"), NextImm],
        opcode::PSEUDO_FUNC => vec![Word("subprog["), SignedImm, Word("]")],
        _ => vec![WideImm],
    }
}

fn pointer(size: u8) -> &'static str {
    match size {
        opcode::W => "*(u32 *)",
        opcode::H => "*(u16 *)",
        opcode::B => "*(u8 *)",
        _ => "*(u64 *)",
    }
}

fn signed_pointer(size: u8) -> Option<&'static str> {
    Some(match size {
        opcode::W => "*(s32 *)",
        opcode::H => "*(s16 *)",
        opcode::B => "*(s8 *)",
        _ => return None,
    })
}

/// A place in memory: `*(u32 *)(r1 +4)`.
fn place(pointer: &'static str, register: Piece) -> [Piece; 6] {
    [Word(pointer), Word("("), register, Word(" "), Off, Word(")")]
}

fn load(insn: Insn) -> Option<Vec<Piece>> {
    let pointer = match insn.mode() {
        opcode::MEM => pointer(insn.size()),
        opcode::MEMSX => signed_pointer(insn.size())?,
        _ => return None,
    };
    Some([&[Dst('r'), Word(" = ")][..], &place(pointer, Src('r'))].concat())
}

fn store(insn: Insn) -> Option<Vec<Piece>> {
    match insn.mode() {
        opcode::MEM => Some([&place(pointer(insn.size()), Dst('r'))[..], &[Word(" = "), Imm]].concat()),
        opcode::NOSPEC => Some(vec![Word("nospec")]),
        _ => None,
    }
}

fn store_register(insn: Insn) -> Option<Vec<Piece>> {
    match insn.mode() {
        opcode::MEM => Some([&place(pointer(insn.size()), Dst('r'))[..], &[Word(" = "), Src('r')]].concat()),
        opcode::ATOMIC => atomic(insn),
        _ => None,
    }
}

fn atomic(insn: Insn) -> Option<Vec<Piece>> {
    let to = place(pointer(insn.size()), Dst('r'));
    if let Some(assignment) = atomic_assignment(insn.imm) {
        return Some([&[Word("lock ")][..], &to, &[Word(assignment), Src('r')]].concat());
    }
    // As an argument the pointer loses its star: `(u64 *)(r1 +0)`.
    let argument = [&[Word(to_cast(insn.size()))][..], &to[1..]].concat();
    let wide = Word(if insn.size() == opcode::DW { "64" } else { "" });
    let value = [Word(", "), Src('r'), Word(")")];
    Some(match insn.imm {
        opcode::XCHG => {
            [&[Src('r'), Word(" = atomic"), wide, Word("_xchg(")], &argument[..], &value].concat()
        }
        opcode::CMPXCHG => {
            [&[Word("r0 = atomic"), wide, Word("_cmpxchg(")], &argument[..], &[Word(", r0")], &value].concat()
        }
        opcode::LOAD_ACQ => {
            let from = place(to_cast(insn.size()), Src('r'));
            [&[Dst('r'), Word(" = load_acquire(")][..], &from, &[Word(")")]].concat()
        }
        opcode::STORE_REL => [&[Word("store_release(")][..], &argument, &value].concat(),
        _ => {
            let name = Word(fetch_name(insn.imm)?);
            [&[Src('r'), Word(" = atomic"), wide, name], &argument[..], &value].concat()
        }
    })
}

fn to_cast(size: u8) -> &'static str {
    pointer(size).trim_start_matches('*')
}

fn atomic_assignment(imm: i32) -> Option<&'static str> {
    Some(match u8::try_from(imm).ok()? {
        opcode::ADD => " += ",
        opcode::AND => " &= ",
        opcode::OR => " |= ",
        opcode::XOR => " ^= ",
        _ => return None,
    })
}

fn fetch_name(imm: i32) -> Option<&'static str> {
    if imm & opcode::FETCH == 0 {
        return None;
    }
    Some(match u8::try_from(imm & !opcode::FETCH).ok()? {
        opcode::ADD => "_fetch_add(",
        opcode::AND => "_fetch_and(",
        opcode::OR => "_fetch_or(",
        opcode::XOR => "_fetch_xor(",
        _ => return None,
    })
}
