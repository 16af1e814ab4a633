//! Instructions as text, exactly as bpftool prints them.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::form::{Piece, form};
use super::{Insn, helper, opcode};

/// What stands for an instruction or an operand that the log does not show which the
/// program was read from.
pub(super) const NOT_SHOWN: &str = "(not shown)";
/// The placeholder for the name of a kernel function without one.
pub(super) const KFUNC: &str = "kernel-function";

/// The instruction at `pc`, as bpftool prints it: `(55) if r2 != 0x2 goto pc+4`.
///
/// `calls` names the functions behind call immediates; one that it lacks reads
/// `unknown`. What is no instruction reads `BUG_` and the opcode, and a `pc`
/// outside the program is empty. Never panics.
pub fn text(insns: &[Insn], pc: usize, calls: &BTreeMap<i32, String>) -> String {
    let Some(&insn) = insns.get(pc) else { return String::new() };
    let next = insns.get(pc + 1).copied();
    // A 64-bit load without its second half is no instruction either.
    let pieces = form(insn).filter(|_| !insn.is_wide() || next.is_some());
    let Some(pieces) = pieces else {
        let is_hidden = insn.code == opcode::NOT_SHOWN;
        return if is_hidden { NOT_SHOWN.to_owned() } else { format!("BUG_{:02x}", insn.code) };
    };
    let line = Line { insn, next: next.unwrap_or_default(), calls };
    let mut text = format!("({:02x}) ", insn.code);
    for piece in pieces {
        line.write(&mut text, piece);
    }
    text
}

/// Every instruction with its pc; the second slot of a 64-bit load is not an
/// instruction and is passed over.
pub fn walk(insns: &[Insn]) -> impl Iterator<Item = (usize, Insn)> + '_ {
    let mut is_second = false;
    insns.iter().copied().enumerate().filter(move |(_, insn)| {
        let is_first = !is_second;
        is_second = is_first && insn.is_wide();
        is_first
    })
}

struct Line<'a> {
    insn: Insn,
    next: Insn,
    calls: &'a BTreeMap<i32, String>,
}

impl Line<'_> {
    fn write(&self, out: &mut String, piece: Piece) {
        let Insn { dst, src, off, imm, .. } = self.insn;
        let unsigned = imm.cast_unsigned();
        // Writing to a `String` cannot fail.
        let _ = match piece {
            Piece::Word(word) => out.write_str(word),
            Piece::Dst(letter) => write!(out, "{letter}{dst}"),
            Piece::Src(letter) => write!(out, "{letter}{src}"),
            Piece::Off => write!(out, "{off:+}"),
            Piece::SignedImm => write!(out, "{imm:+}"),
            Piece::Imm => write!(out, "{imm}"),
            Piece::UnsignedImm => write!(out, "{unsigned}"),
            Piece::HexImm => write!(out, "{unsigned:#x}"),
            Piece::HalvesImm => write!(out, "{}, {}", unsigned >> 16, unsigned & 0xffff),
            Piece::NextImm => write!(out, "{}", self.next.imm.cast_unsigned()),
            Piece::HiddenImm => out.write_str(NOT_SHOWN),
            Piece::WideImm => write!(out, "{:#x}", wide(self.insn, self.next)),
            Piece::Callee => write!(out, "{}#{imm}", self.callee()),
        };
    }

    fn callee(&self) -> String {
        let known = self.calls.get(&self.insn.imm).cloned();
        let general = || match self.insn.src {
            opcode::PSEUDO_KFUNC => Some(KFUNC.to_owned()),
            _ => helper::name(self.insn.imm),
        };
        known.or_else(general).unwrap_or_else(|| "unknown".to_owned())
    }
}

fn wide(first: Insn, second: Insn) -> u64 {
    u64::from(second.imm.cast_unsigned()) << 32 | u64::from(first.imm.cast_unsigned())
}
