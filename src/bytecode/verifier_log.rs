//! Programs in the log of the kernel's verifier, which a failed load prints, or a
//! verbose one: each instruction once or more, in the order in which the verifier went
//! through them, with the states of registers between.
//!
//! What the verifier did not get to is not in the log. It stands in the program as an
//! instruction that is not shown, so that only what depends on it is unknown.

use std::collections::BTreeMap;

use super::assemble::{Assembled, assemble};
use super::error::{MAX_INSNS, Position, ReadError, shown};
use super::line::unquoted;
use super::saved::SavedProgram;
use super::{Insn, Operation, opcode};

/// Whether a text is such a log.
pub(super) fn is_log(content: &str) -> bool {
    content.lines().map(unquoted).any(|line| match line.split_once(':') {
        _ if is_end(line) => true,
        Some((number, rest)) if is_number(number) => {
            is_state(rest) || split_state(rest).1.is_some_and(is_state)
        }
        Some((from, rest)) => is_arrival(from) && (is_state(rest) || rest.trim() == "safe"),
        None => false,
    })
}

/// Reads every program of a log.
pub(super) fn read(content: &str) -> Result<Vec<SavedProgram>, ReadError> {
    let (mut programs, mut log) = (Vec::new(), Log::default());
    for (index, line) in content.lines().enumerate() {
        let line = unquoted(line);
        if is_end(line) {
            programs.extend(std::mem::take(&mut log).program().transpose()?);
        } else if let Some((number, rest)) = line.split_once(':').filter(|(number, _)| is_number(number)) {
            log.add(number, split_state(rest).0, Position::Line(index + 1))?;
        }
    }
    programs.extend(log.program().transpose()?);
    if programs.is_empty() { Err(ReadError::NoInstructions) } else { Ok(programs) }
}

/// `processed 14 insns (limit 1000000) …`
fn is_end(line: &str) -> bool {
    line.strip_prefix("processed ").is_some_and(|rest| rest.contains(" insns"))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `from 10 to 13`
fn is_arrival(text: &str) -> bool {
    text.strip_prefix("from ")
        .and_then(|rest| rest.split_once(" to "))
        .is_some_and(|(from, to)| is_number(from) && is_number(to.split(' ').next().unwrap_or_default()))
}

/// `R1=ctx(off=0,imm=0) R10=fp0`, `frame1: R6=…`
fn is_state(text: &str) -> bool {
    let text = text.trim_start();
    let register = |text: &str| {
        let rest = text.strip_prefix('R')?.trim_start_matches(|c: char| c.is_ascii_digit());
        Some(rest.starts_with(['=', '_', '(']))
    };
    let frame =
        || text.strip_prefix("frame")?.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix(':');
    register(text).unwrap_or(false) || frame().is_some()
}

/// An instruction, and the state that stands behind it.
fn split_state(text: &str) -> (&str, Option<&str>) {
    match text.split_once(';') {
        Some((insn, state)) => (insn.trim(), Some(state)),
        None => (text.trim(), None),
    }
}

#[derive(Default)]
struct Log {
    insns: BTreeMap<usize, Assembled>,
}

impl Log {
    fn add(&mut self, number: &str, text: &str, place: Position) -> Result<(), ReadError> {
        // A state, or what the verifier has to say of an instruction.
        if !text.starts_with('(') {
            return Ok(());
        }
        let pc: usize = number.parse().ok().filter(|pc| *pc < MAX_INSNS).ok_or(ReadError::TooLong)?;
        let mut read = assemble(text).ok_or_else(|| unknown(text, place))?;
        if let [first, second] = read.slots.as_mut_slice() {
            hide_address(first, *second);
        }
        match self.insns.get(&pc) {
            Some(known) if *known != read => Err(ReadError::Twice { place, pc }),
            _ => {
                self.insns.insert(pc, read);
                Ok(())
            }
        }
    }

    /// The program so far; nothing if there is none.
    fn program(self) -> Option<Result<SavedProgram, ReadError>> {
        let end = self.insns.iter().map(|(pc, read)| pc + read.slots.len()).max()?;
        let hidden = Insn { code: opcode::NOT_SHOWN, ..Insn::default() };
        let mut program = SavedProgram { insns: vec![hidden; end], ..SavedProgram::default() };
        for (pc, Assembled { slots, call }) in self.insns {
            for (slot, place) in slots.into_iter().zip(program.insns.iter_mut().skip(pc)) {
                *place = slot;
            }
            program.name_call(call);
        }
        let target = Operation::decode_all(&program.insns).iter().filter_map(farthest).max().unwrap_or(0);
        let length = if program.insns.last().is_some_and(|last| last.ends_path()) { end } else { end + 1 };
        if target >= MAX_INSNS {
            return Some(Err(ReadError::TooLong));
        }
        program.insns.resize(length.max(target + 1), hidden);
        Some(program.finish())
    }
}

/// The instruction to which another one leads.
fn farthest(operation: &Operation) -> Option<usize> {
    match operation {
        Operation::Jump { target }
        | Operation::Branch { target, .. }
        | Operation::CallLocal { target }
        | Operation::LoadSubprogram { target, .. } => Some(*target),
        _ => None,
    }
}

/// A log shows a map as an address of the kernel, or as 0: which one, or whether it is a
/// number, cannot be known.
fn hide_address(first: &mut Insn, second: Insn) {
    let is_zero = first.imm == 0 && second.imm == 0;
    if first.src == 0 && (second.imm.cast_unsigned() >> 16 == 0xffff || is_zero) {
        first.off = opcode::NOT_SHOWN_OFFSET;
    }
}

fn unknown(text: &str, place: Position) -> ReadError {
    let expected = "an instruction as the verifier prints it; copy the line whole";
    ReadError::Unknown { place, found: shown(text), expected }
}
