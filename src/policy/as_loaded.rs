//! Reconstructs a program as it was loaded from the dump of what the verifier
//! made of it.
//!
//! The verifier replaces calls of lookups by instructions, and lengthens all
//! jumps across them. Both are undone here. Dead code that it removed cannot be
//! brought back: the result is then another program, and its tag shows it.

use crate::bytecode::{Insn, helper, opcode};

/// A call of a function of the kernel or of the program.
const CALL: u8 = opcode::JMP | opcode::CALL;
/// An instruction by opcode, registers, offset and immediate; `None` is any.
type Form = (u8, u8, u8, Option<i16>, Option<i32>);

const JUMP_IF_EQUAL: u8 = opcode::JMP | opcode::JEQ | opcode::K;
const JUMP_IF_UNEQUAL: u8 = opcode::JMP | opcode::JNE | opcode::K;
const JUMP_IF_NOT_BELOW: u8 = opcode::JMP | opcode::JGE | opcode::K;
const JUMP: u8 = opcode::JMP | opcode::JA;
const ADD: u8 = opcode::ALU64 | opcode::ADD | opcode::K;
const ADD_REGISTER: u8 = opcode::ALU64 | opcode::ADD | opcode::X;
const SHIFT: u8 = opcode::ALU64 | opcode::LSH | opcode::K;
const MULTIPLY: u8 = opcode::ALU64 | opcode::MUL | opcode::K;
const MASK: u8 = opcode::ALU | opcode::AND | opcode::K;
const SET: u8 = opcode::ALU64 | opcode::MOV | opcode::K;
const MOVE: u8 = opcode::ALU64 | opcode::MOV | opcode::X;
const LOAD_WORD: u8 = opcode::LDX | opcode::MEM | opcode::W;
const LOAD_BYTE: u8 = opcode::LDX | opcode::MEM | opcode::B;
const LOAD_POINTER: u8 = opcode::LDX | opcode::MEM | opcode::DW;
const STORE_BYTE: u8 = opcode::ST | opcode::MEM | opcode::B;

/// The instructions that the kernel writes after the call of a lookup in a hash
/// table: `htab_map_gen_lookup`, `htab_of_map_gen_lookup`, `htab_lru_map_gen_lookup`
/// and `htab_percpu_map_gen_lookup` (`kernel/bpf/hashtab.c`).
const AFTER_HASH: &[&[Form]] = &[
    &[(JUMP_IF_EQUAL, 0, 0, Some(1), Some(0)), (ADD, 0, 0, Some(0), None)],
    &[
        (JUMP_IF_EQUAL, 0, 0, Some(2), Some(0)),
        (ADD, 0, 0, Some(0), None),
        (LOAD_POINTER, 0, 0, Some(0), Some(0)),
    ],
    &[
        (JUMP_IF_EQUAL, 0, 0, Some(4), Some(0)),
        (LOAD_BYTE, 1, 0, None, Some(0)),
        (JUMP_IF_UNEQUAL, 1, 0, Some(1), Some(0)),
        (STORE_BYTE, 0, 0, None, Some(1)),
        (ADD, 0, 0, Some(0), None),
    ],
    &[
        (JUMP_IF_EQUAL, 0, 0, Some(3), Some(0)),
        (ADD, 0, 0, Some(0), None),
        (LOAD_POINTER, 0, 0, Some(0), Some(0)),
        (MOVE, 0, 0, Some(opcode::ADDR_PERCPU), Some(0)),
    ],
];

/// Instructions after a lookup in which its result is read for the first time.
const MOST_BEFORE_READ: usize = 12;

/// The ends of what the kernel writes in place of a lookup in an array:
/// `array_map_gen_lookup`, `array_of_map_gen_lookup` and
/// `percpu_array_map_gen_lookup` (`kernel/bpf/arraymap.c`).
const END_OF_ARRAY: &[&[Form]] = &[
    &[(JUMP, 0, 0, Some(1), Some(0)), (SET, 0, 0, Some(0), Some(0))],
    &[
        (LOAD_POINTER, 0, 0, Some(0), Some(0)),
        (JUMP_IF_EQUAL, 0, 0, Some(1), Some(0)),
        (JUMP, 0, 0, Some(1), Some(0)),
        (SET, 0, 0, Some(0), Some(0)),
    ],
    &[
        (LOAD_POINTER, 0, 0, Some(0), Some(0)),
        (MOVE, 0, 0, Some(opcode::ADDR_PERCPU), Some(0)),
        (JUMP, 0, 0, Some(1), Some(0)),
        (SET, 0, 0, Some(0), Some(0)),
    ],
];

/// Instructions of a dump that were one instruction when the program was
/// loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSlots {
    /// The slots it takes in the dump.
    pub slots: usize,
    /// The number of the helper that it called; `None` if it is as it was.
    pub helper: Option<i32>,
}

/// The program that was loaded if the dump's parts were those of `by_slot`, one
/// for each slot where a part may begin. `None` if a jump leads into the middle
/// of one.
pub fn original(insns: &[Insn], by_slot: &[CallSlots]) -> Option<Vec<Insn>> {
    let mut places = vec![None; insns.len() + 1];
    let mut parts = Vec::with_capacity(insns.len());
    let (mut at, mut place) = (0, 0);
    while let Some(insn) = insns.get(at) {
        let part = *by_slot.get(at)?;
        *places.get_mut(at)? = Some(place);
        parts.push((at, part));
        place += if part.helper.is_none() && insn.is_wide() { 2 } else { 1 };
        at += part.slots.max(1);
    }
    *places.get_mut(at)? = Some(place);
    let mut loaded = Vec::with_capacity(insns.len());
    for (at, part) in parts {
        let insn = *insns.get(at)?;
        match part.helper {
            Some(number) => loaded.push(Insn { code: CALL, imm: number, ..Insn::default() }),
            None if insn.is_wide() => loaded.extend([insn, *insns.get(at + 1)?]),
            None => loaded.push(moved(insn, at, &places)?),
        }
    }
    Some(loaded)
}

/// The instruction with the distance it had before others grew longer.
fn moved(insn: Insn, at: usize, places: &[Option<usize>]) -> Option<Insn> {
    let distance = |by: i64| -> Option<i64> {
        let target = usize::try_from(i64::try_from(at).ok()? + 1 + by).ok()?;
        let (from, to) = ((*places.get(at)?)?, (*places.get(target)?)?);
        Some(i64::try_from(to).ok()? - i64::try_from(from).ok()? - 1)
    };
    match (insn.class(), insn.op()) {
        (opcode::JMP, opcode::CALL) if insn.src == opcode::PSEUDO_CALL => {
            let by = if insn.off != 0 { insn.off.into() } else { insn.imm.into() };
            Some(Insn { off: 0, imm: distance(by)?.try_into().ok()?, ..insn })
        }
        (opcode::JMP, opcode::CALL | opcode::EXIT) => Some(insn),
        (opcode::JMP32, opcode::JA) => {
            Some(Insn { imm: distance(insn.imm.into())?.try_into().ok()?, ..insn })
        }
        (opcode::JMP | opcode::JMP32, _) => {
            Some(Insn { off: distance(insn.off.into())?.try_into().ok()?, ..insn })
        }
        _ => Some(insn),
    }
}

/// How many slots the call at `at` takes with the instructions after it, if it may
/// be the kernel's call for a lookup in a hash table.
pub fn hash_lookup(insns: &[Insn], at: usize) -> Option<usize> {
    AFTER_HASH.iter().find(|form| is_at(insns, at + 1, form)).map(|form| 1 + form.len())
}

/// The distance that the instructions after the call at `at` add to what it returns,
/// if nothing but a lookup in a hash table can stand there: the kernel's own
/// instructions follow it, and then the program reads `size` bytes from there on,
/// which lie behind any value of `step` bytes or fewer. What a program adds that
/// much to by itself, it may not read (`check_map_access`, `kernel/bpf/verifier.c`).
pub fn element_step(insns: &[Insn], at: usize) -> Option<Step> {
    let form = AFTER_HASH.iter().find(|form| is_at(insns, at + 1, form))?;
    let step = form.iter().position(|(code, ..)| *code == ADD)?;
    let step = usize::try_from(insns.get(at + 1 + step)?.imm).ok()?;
    let read = bytes_read(insns.get(at + 1 + form.len()..)?)?;
    Some(Step { step, read })
}

/// What [`element_step`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is added to the address that the call returned.
    pub step: usize,
    /// How many bytes of a value the program reads there.
    pub read: usize,
}

/// Up to which byte the program reads from the address in r0, or in a copy of it, on
/// the way on which it is not null.
fn bytes_read(insns: &[Insn]) -> Option<usize> {
    let mut copies = 1_u16;
    let holds = |copies: u16, register: u8| copies >> register & 1 == 1;
    for insn in insns.iter().take(MOST_BEFORE_READ) {
        let is_copy = holds(copies, insn.src);
        match insn.class() {
            opcode::LDX if is_copy && insn.mode() == opcode::MEM => {
                return usize::try_from(insn.off).ok().map(|first| first + bytes_of(insn.size()));
            }
            opcode::JMP
                if is(insn, &(JUMP_IF_EQUAL, insn.dst, 0, None, Some(0))) && holds(copies, insn.dst) =>
            {
                continue;
            }
            opcode::JMP | opcode::JMP32 => return None,
            opcode::ST | opcode::STX => continue,
            // The second slot of a constant.
            opcode::LD if insn.code == 0 => continue,
            _ => {}
        }
        copies &= !(1 << insn.dst);
        // `r0 = r1` may be `bpf_rdonly_cast`, after which a program may read anywhere.
        if insn.code == MOVE && insn.off == 0 && is_copy && (insn.dst, insn.src) != (0, 1) {
            copies |= 1 << insn.dst;
        }
    }
    None
}

fn bytes_of(size: u8) -> usize {
    match size {
        opcode::B => 1,
        opcode::H => 2,
        opcode::W => 4,
        _ => 8,
    }
}

/// The original of the part that begins at `at` and is no call: a lookup in an
/// array, or the part itself.
pub fn part_without_call(insns: &[Insn], at: usize) -> CallSlots {
    match array_lookup(insns, at) {
        Some(slots) => CallSlots { slots, helper: helper::number("bpf_map_lookup_elem") },
        None => {
            CallSlots { slots: insns.get(at).map_or(1, |insn| 1 + usize::from(insn.is_wide())), helper: None }
        }
    }
}

/// How many slots the inlined array lookup at `at` takes, if there is one.
fn array_lookup(insns: &[Insn], at: usize) -> Option<usize> {
    const START: &[Form] = &[(ADD, 1, 0, Some(0), None), (LOAD_WORD, 0, 2, Some(0), Some(0))];
    const SCALE: [u8; 2] = [SHIFT, MULTIPLY];
    if !is_at(insns, at, START) {
        return None;
    }
    let guard = insns.get(at + 2).filter(|insn| is(insn, &(JUMP_IF_NOT_BELOW, 0, 0, None, None)))?;
    let is_masked = is_at(insns, at + 3, &[(MASK, 0, 0, Some(0), None)]);
    let scale = at + 3 + usize::from(is_masked);
    let is_scaled = SCALE.iter().any(|code| is_at(insns, scale, &[(*code, 0, 0, Some(0), None)]));
    if !is_scaled || !is_at(insns, scale + 1, &[(ADD_REGISTER, 0, 1, Some(0), Some(0))]) {
        return None;
    }
    let end = END_OF_ARRAY.iter().find(|form| is_at(insns, scale + 2, form))?;
    let slots = scale + 2 + end.len() - at;
    // Past the end of the array it leads to the last of these: `r0 = 0`.
    (usize::try_from(guard.off) == Ok(slots - 4)).then_some(slots)
}

fn is_at(insns: &[Insn], at: usize, forms: &[Form]) -> bool {
    insns
        .get(at..at + forms.len())
        .is_some_and(|insns| insns.iter().zip(forms).all(|(insn, form)| is(insn, form)))
}

fn is(insn: &Insn, &(code, dst, src, off, imm): &Form) -> bool {
    (insn.code, insn.dst, insn.src) == (code, dst, src)
        && off.is_none_or(|off| off == insn.off)
        && imm.is_none_or(|imm| imm == insn.imm)
}
