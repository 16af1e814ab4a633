//! The disassembler's text back to instructions.
//!
//! The opcode stands in front of every line, so the text only has to fill the
//! fields of a form that is already known. Fields that the text does not show
//! become zero.

use std::collections::BTreeMap;

use super::form::{Piece, form};
use super::{Insn, disasm, opcode};

/// What one line of a listing says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assembled {
    /// One slot, or two for a 64-bit load.
    pub(super) slots: Vec<Insn>,
    /// The immediate and name of a called function, where the text knows it.
    pub(super) call: Option<(i32, String)>,
}

/// Reads one instruction such as `(55) if r2 != 0x2 goto pc+4`. Nothing if it
/// is not spelled exactly as [`disasm::text`] spells it.
pub(super) fn assemble(line: &str) -> Option<Assembled> {
    let line = normalise(line);
    let (code, rest) = split_opcode(&line)?;
    starting_points(code).into_iter().find_map(|start| {
        let found = fill(start, rest)?;
        (found.spelling() == line).then_some(found)
    })
}

/// The spelling that this version of the disassembler would have used: single
/// spaces, and 32-bit registers as `w1` where bpftool of Linux 5.0 and older
/// has `(u32) r1`. The symbol of a call inside the program is left out, since
/// it says nothing about the instruction.
pub(super) fn normalise(line: &str) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.replace("(u32) r", "w").replace("(u32) ", "");
    match line.split_once('#') {
        Some((call, _)) if call.contains(" call pc") => call.to_owned(),
        _ => line,
    }
}

fn split_opcode(line: &str) -> Option<(u8, &str)> {
    let (code, rest) = line.strip_prefix('(')?.split_once(") ")?;
    Some((u8::from_str_radix(code, 16).ok()?, rest))
}

/// One instruction for every form that an opcode can take: those fields are
/// set that choose the form.
fn starting_points(code: u8) -> Vec<Insn> {
    let bare = Insn { code, ..Insn::default() };
    let with_src = |sources: &[u8]| sources.iter().map(|&src| Insn { src, ..bare }).collect();
    let with_off = |offsets: &[i16]| offsets.iter().map(|&off| Insn { off, ..bare }).collect();
    match (bare.class(), bare.op()) {
        (opcode::LD, _) if bare.is_wide() => with_src(&[0, 1, 2, 4, 6]),
        (opcode::JMP, opcode::CALL) => with_src(&[0, opcode::PSEUDO_CALL]),
        (opcode::ALU | opcode::ALU64, opcode::DIV | opcode::MOD) => with_off(&[0, 1]),
        (opcode::ALU | opcode::ALU64, opcode::MOV) => with_off(&[0, 8, 16, 32, 1, -1]),
        (opcode::STX, _) if bare.mode() == opcode::ATOMIC => {
            ATOMICS.iter().map(|&imm| Insn { imm, ..bare }).collect()
        }
        _ => vec![bare],
    }
}

/// Every atomic operation: add, or, and, xor with and without fetch, then the
/// named ones.
const ATOMICS: [i32; 12] = [
    0x00,
    0x40,
    0x50,
    0xa0,
    0x01,
    0x41,
    0x51,
    0xa1,
    opcode::XCHG,
    opcode::CMPXCHG,
    opcode::LOAD_ACQ,
    opcode::STORE_REL,
];

fn fill(start: Insn, text: &str) -> Option<Assembled> {
    let mut filler = Filler { insn: start, next: Insn::default(), call: None, rest: text };
    for piece in form(start)? {
        filler.take(piece)?;
    }
    if !filler.rest.is_empty() {
        return None;
    }
    let slots = if start.is_wide() { vec![filler.insn, filler.next] } else { vec![filler.insn] };
    Some(Assembled { slots, call: filler.call })
}

impl Assembled {
    fn spelling(&self) -> String {
        let calls: BTreeMap<i32, String> = self.call.iter().cloned().collect();
        disasm::text(&self.slots, 0, &calls)
    }
}

/// An instruction whose fields are read off a text, piece by piece.
struct Filler<'a> {
    insn: Insn,
    next: Insn,
    call: Option<(i32, String)>,
    rest: &'a str,
}

impl<'a> Filler<'a> {
    fn take(&mut self, piece: Piece) -> Option<()> {
        match piece {
            Piece::Word(word) => self.rest = self.rest.strip_prefix(word)?,
            Piece::Dst(letter) => self.insn.dst = self.register(letter)?,
            Piece::Src(letter) => self.insn.src = self.register(letter)?,
            Piece::Off => self.insn.off = self.number()?.parse().ok()?,
            Piece::SignedImm | Piece::Imm => self.insn.imm = self.number()?.parse().ok()?,
            Piece::UnsignedImm => self.insn.imm = self.unsigned()?,
            Piece::NextImm => self.next.imm = self.unsigned()?,
            Piece::HexImm => self.insn.imm = u32::try_from(self.hex()?).ok()?.cast_signed(),
            Piece::HalvesImm => self.take_halves()?,
            Piece::WideImm => self.take_wide()?,
            Piece::Callee => self.take_callee()?,
        }
        Some(())
    }

    fn take_halves(&mut self) -> Option<()> {
        let high: u16 = self.number()?.parse().ok()?;
        self.rest = self.rest.strip_prefix(", ")?;
        let low: u16 = self.number()?.parse().ok()?;
        self.insn.imm = (u32::from(high) << 16 | u32::from(low)).cast_signed();
        Some(())
    }

    fn take_wide(&mut self) -> Option<()> {
        let value = self.hex()?;
        let [low, high] = [value & u64::from(u32::MAX), value >> 32].map(u32::try_from);
        self.insn.imm = low.ok()?.cast_signed();
        self.next.imm = high.ok()?.cast_signed();
        Some(())
    }

    fn take_callee(&mut self) -> Option<()> {
        let (name, imm) = self.rest.rsplit_once('#')?;
        self.insn.imm = imm.parse().ok()?;
        self.call = Some((self.insn.imm, name.to_owned()));
        self.rest = "";
        Some(())
    }

    fn register(&mut self, letter: char) -> Option<u8> {
        self.rest = self.rest.strip_prefix(letter)?;
        self.number()?.parse().ok().filter(|number| *number < 16)
    }

    fn unsigned(&mut self) -> Option<i32> {
        self.number()?.parse().ok().map(u32::cast_signed)
    }

    fn number(&mut self) -> Option<&'a str> {
        let signs = self.rest.len() - self.rest.trim_start_matches(['+', '-']).len();
        let digits = self.rest[signs..].find(|c: char| !c.is_ascii_digit());
        Some(self.split(digits.map_or(self.rest.len(), |digits| signs + digits)))
    }

    fn hex(&mut self) -> Option<u64> {
        self.rest = self.rest.strip_prefix("0x")?;
        let end = self.rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(self.rest.len());
        u64::from_str_radix(self.split(end), 16).ok()
    }

    fn split(&mut self, end: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}
