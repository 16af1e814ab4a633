//! A program as it came out of a file.

use std::collections::BTreeMap;

use super::assemble::{Assembled, assemble, normalise};
use super::error::{MAX_INSNS, Position, ReadError, shown};
use super::line::is_tag;
use super::{Insn, disasm, opcode, tag};
use crate::observation::{Answer, HexBytes, Program};

/// A program read from a file: its instructions, and what the file says about
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedProgram {
    /// Its id on the machine it comes from.
    pub id: Option<u32>,
    /// Its name; empty if the file has none.
    pub name: String,
    /// Its tag; empty if the file has none.
    pub tag: String,
    /// Whether the file says that its licence is GPL compatible.
    pub gpl_compatible: bool,
    /// Its instructions.
    pub insns: Vec<Insn>,
    /// Names of called functions by the immediate of the call.
    pub calls: BTreeMap<i32, String>,
    /// Ids of the maps it uses, as its 64-bit loads and the file name them.
    pub map_ids: Vec<u32>,
    /// Where the text of an instruction says something else than its bytes, which
    /// count; the first such place.
    pub note: Option<String>,
}

impl SavedProgram {
    /// The program as an observed fact; `fallback_id` is for files that do
    /// not say the id.
    pub fn into_program(self, fallback_id: u32) -> Program {
        let xlated = self.insns.iter().flat_map(|insn| insn.bytes()).collect();
        Program {
            id: self.id.unwrap_or(fallback_id),
            name: self.name.into(),
            tag: self.tag,
            gpl_compatible: self.gpl_compatible,
            map_ids: self.map_ids,
            xlated: Answer::Known(HexBytes(xlated)),
            calls: self.calls,
            ..Program::default()
        }
    }

    /// Adds one instruction of a listing: its text, and its bytes if the listing has
    /// them. The instruction is taken from the bytes: an older bpftool prints newer
    /// instructions as others.
    pub(super) fn push(
        &mut self,
        text: &str,
        bytes: Option<&[Insn]>,
        place: Position,
    ) -> Result<(), ReadError> {
        let read = assemble(text);
        let call = read.as_ref().and_then(|read| read.call.clone());
        let slots = match bytes {
            Some(bytes) => self.slots_of(bytes, text, call.as_ref(), place)?,
            None => {
                let slots = read.map(|Assembled { slots, .. }| slots).ok_or_else(|| unknown(text, place))?;
                slots.into_iter().map(not_shown_whole).collect()
            }
        };
        self.name_call(call);
        self.insns.extend(slots);
        if self.insns.len() > MAX_INSNS { Err(ReadError::TooLong) } else { Ok(()) }
    }

    /// Keeps the name of a called function, if it is one.
    pub(super) fn name_call(&mut self, call: Option<(i32, String)>) {
        self.calls.extend(call.filter(|(imm, name)| is_symbol(*imm, name)));
    }

    /// Takes what the listing does not show for nothing, if the tag proves it.
    fn prove_by_tag(&mut self) {
        let tag = u64::from_str_radix(&self.tag, 16).ok().filter(|_| is_tag(&self.tag));
        let shown = |insn: &Insn| Insn {
            off: if insn.off == opcode::NOT_SHOWN_OFFSET { 0 } else { insn.off },
            ..*insn
        };
        let plain: Vec<Insn> = self.insns.iter().map(shown).collect();
        if tag.is_some_and(|tag| tag::is_tag_of(&tag.to_be_bytes(), &plain)) {
            self.insns = plain;
        }
    }

    /// The slots of an instruction whose bytes are known.
    fn slots_of(
        &mut self,
        bytes: &[Insn],
        text: &str,
        call: Option<&(i32, String)>,
        place: Position,
    ) -> Result<Vec<Insn>, ReadError> {
        let calls: BTreeMap<i32, String> = call.into_iter().cloned().collect();
        let meaning = disasm::text(bytes, 0, &calls);
        let text = normalise(text);
        let code = bytes.first().map(|first| format!("({:02x}) ", first.code)).unwrap_or_default();
        let is_one = disasm::walk(bytes).count() == 1;
        // An older bpftool says BUG where it does not know the instruction.
        if !is_one || !text.starts_with(&code) && !text.starts_with("BUG_") {
            return Err(ReadError::Disagree { place, text: shown(&text), bytes: meaning });
        }
        if text != meaning && !text.starts_with("BUG_") {
            let text = shown(&text);
            self.note.get_or_insert_with(|| {
                format!("{place}: the text says `{text}`, its opcode bytes `{meaning}`: the bytes count, there and elsewhere")
            });
        }
        Ok(bytes.to_vec())
    }

    /// The finished program: whole, or an error.
    pub(super) fn finish(mut self) -> Result<Self, ReadError> {
        self.prove_by_tag();
        whole(&self.insns)?;
        self.map_ids.extend(disasm::walk(&self.insns).filter_map(|(_, insn)| map_id(insn)));
        self.map_ids.sort_unstable();
        self.map_ids.dedup();
        Ok(self)
    }
}

/// The instruction with a mark where a listing does not show all of it: bpftool before
/// 7.3 prints a sign-extending move as a move, and a signed division as a division.
fn not_shown_whole(insn: Insn) -> Insn {
    let is_open = match (insn.class(), insn.op()) {
        (opcode::ALU | opcode::ALU64, opcode::DIV | opcode::MOD) => true,
        (opcode::ALU | opcode::ALU64, opcode::MOV) => insn.uses_register(),
        _ => false,
    };
    if is_open && insn.off == 0 { Insn { off: opcode::NOT_SHOWN_OFFSET, ..insn } } else { insn }
}

/// Checks rules that every program keeps which the kernel loads.
fn whole(insns: &[Insn]) -> Result<(), ReadError> {
    if insns.len() > MAX_INSNS {
        return Err(ReadError::TooLong);
    }
    let is_second = |pc: usize| insns.get(pc).is_some_and(|second| second.code == 0);
    let halved = disasm::walk(insns).find(|&(pc, insn)| insn.is_wide() && !is_second(pc + 1));
    if let Some((pc, _)) = halved {
        return Err(ReadError::Half(pc));
    }
    match disasm::walk(insns).last() {
        None => Err(ReadError::NoInstructions),
        Some((_, last)) if last.ends_path() || last.code == opcode::NOT_SHOWN => Ok(()),
        Some((pc, _)) => Err(ReadError::End { pc, text: disasm::text(insns, pc, &BTreeMap::new()) }),
    }
}

fn map_id(insn: Insn) -> Option<u32> {
    let is_map = insn.is_wide() && matches!(insn.src, opcode::PSEUDO_MAP | opcode::PSEUDO_MAP_VALUE);
    is_map.then(|| insn.imm.cast_unsigned())
}

/// Whether a call's text names a function. A number in place of the name is an
/// address. An immediate of 0 means that the kernel hid all symbols.
fn is_symbol(imm: i32, name: &str) -> bool {
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    imm != 0
        && is_name
        && !["unknown", disasm::KFUNC].contains(&name)
        && name.bytes().all(|byte| byte.is_ascii_graphic())
}

fn unknown(text: &str, place: Position) -> ReadError {
    let expected = match text.starts_with("BUG_") {
        true => "an instruction, because this bpftool is older than the program: dump again with `opcodes`",
        false => "an instruction as bpftool prints it; copy the line whole, or dump again with `opcodes`",
    };
    ReadError::Unknown { place, found: shown(text), expected }
}
