//! Runs the instructions that neither jump nor end: what each leaves in registers and
//! memory.
//!
//! A listing may not show which of several instructions one is. What such a one leaves is
//! known as far as it is the same for all of them.

use super::step::operand;
use super::{Machine, Stop};
use crate::bytecode::{Arithmetic, Operand, Operation};
use crate::policy::compute;
use crate::policy::diagram::Bdd;
use crate::policy::state::MachineState;
use crate::policy::table::TableKind;
use crate::policy::value::{Base, Value};
use crate::policy::word::Word;

impl Machine<'_> {
    /// Operations after which the next instruction follows.
    pub(super) fn straight(
        &mut self,
        pc: usize,
        operation: Operation,
        state: &mut MachineState,
    ) -> Result<(), Stop> {
        match operation {
            Operation::Unclear { kind, width, dst, source } => {
                let right = operand(state, source);
                let is_own = source == Operand::Register(dst);
                let value = self.unclear(pc, (kind, width, is_own), &state.registers[dst], &right);
                // The verifier's own instruction after `bpf_rdonly_cast`.
                let is_cast = (dst, source) == (0, Operand::Register(1));
                state.registers[dst] = if is_cast { self.perhaps_cast(&value) } else { value };
            }
            // The idiom for zero, whatever the register held.
            Operation::Arithmetic { kind: Arithmetic::Xor | Arithmetic::Sub, dst, source, .. }
                if source == Operand::Register(dst) =>
            {
                state.registers[dst] = 0.into();
            }
            Operation::Arithmetic {
                kind: Arithmetic::Move,
                width: 64,
                dst: 0,
                source: Operand::Register(1),
            } => {
                state.registers[0] = self.perhaps_cast(&state.registers[1]);
            }
            Operation::Arithmetic {
                kind: Arithmetic::Add,
                width: 64,
                dst,
                source: source @ Operand::Immediate(1..4096),
            } if state.registers[dst].alternatives().iter().any(|(_, value)| map_object(value).is_some()) => {
                let step = operand(state, source);
                let moved = state.registers[dst].alternatives().into_iter().map(|(guard, value)| {
                    let moved = match map_object(&value) {
                        Some(map) => self.first_value(map),
                        None => compute::arithmetic(Arithmetic::Add, 64, &value, &step, self.symbols),
                    };
                    (guard, moved)
                });
                let moved = moved.collect();
                state.registers[dst] = Value::of_alternatives(moved, self.symbols);
            }
            Operation::Arithmetic { kind, width, dst, source } => {
                let right = operand(state, source);
                state.registers[dst] =
                    compute::arithmetic(kind, width, &state.registers[dst], &right, self.symbols);
            }
            Operation::SwapBytes { dst, width, reverse } => {
                let word = state.registers[dst].word(self.symbols);
                let word = if reverse { word.bytes_swapped(width) } else { word.zero_extended(width) };
                state.registers[dst] = Value::Scalar(word);
            }
            Operation::LoadConstant { dst, value } => state.registers[dst] = value.into(),
            Operation::LoadMap { dst, map } => {
                state.registers[dst] = match self.code.map(map) {
                    Some(place) => Value::pointer(Base::MapObject(place), Word::ZERO),
                    None => Value::Scalar(self.symbols.unknown_word(64, &missing_map(map))),
                };
            }
            Operation::LoadMapValue { dst, map, offset } => {
                state.registers[dst] = self.map_value(map, offset);
            }
            Operation::LoadSubprogram { dst, target } => {
                state.registers[dst] = Value::pointer(Base::Subprogram(target), Word::ZERO);
            }
            Operation::LoadUnknown { dst } => {
                let unknown = self.symbols.unknown_word(64, "it depends on a kernel variable");
                state.registers[dst] = Value::Scalar(unknown);
            }
            Operation::Load { dst, base, offset, size, signed } => {
                let loaded = self.load(state, &state.registers[base], offset.into(), size);
                state.registers[dst] = match (signed, &loaded) {
                    (true, _) => Value::Scalar(loaded.word(self.symbols).sign_extended(size * 8)),
                    (false, _) => loaded,
                };
            }
            Operation::Store { base, offset, size, source } => {
                let value = operand(state, source);
                let address = state.registers[base].clone();
                self.store(state, &address, offset.into(), size, &value)?;
            }
            Operation::Atomic { kind, base, offset, size, source, fetches } => {
                self.atomic(kind, (base, offset.into(), size), source, fetches, state)?;
            }
            Operation::Nothing => {}
            Operation::Jump { .. }
            | Operation::Branch { .. }
            | Operation::CallHelper { .. }
            | Operation::CallLocal { .. }
            | Operation::CallKernel { .. }
            | Operation::Exit
            | Operation::Unsupported { .. } => return Err(Stop("an instruction that goes elsewhere".into())),
        }
        Ok(())
    }

    /// The address `offset` bytes into the values of the map with this id.
    fn map_value(&mut self, map: u32, offset: u32) -> Value {
        let why = match self.code.map(map).map(|place| (place, &self.code.maps[place])) {
            Some((place, table)) if table.kind == TableKind::Array && !table.per_cpu => {
                return Value::pointer(Base::Array(place), Word::Constant(offset.into()));
            }
            Some((_, table)) => table.entries.as_ref().err().cloned(),
            None => None,
        };
        Value::Scalar(self.symbols.unknown_word(64, &why.unwrap_or_else(|| missing_map(map))))
    }

    /// The value of r0 after `r0 = r1`. The kernel writes the same instruction for
    /// `bpf_rdonly_cast(r1)`, after which the program may read anything near a map's
    /// structure; no other code needs the address of a map in r0.
    fn perhaps_cast(&mut self, value: &Value) -> Value {
        let is_map = |value: &Value| match value {
            Value::Pointer(pointer) => matches!(pointer.base, Base::MapObject(_)),
            value => self.code.is_blinded() && value.is_constant_address(),
        };
        if !value.alternatives().iter().any(|(_, value)| is_map(value)) {
            return value.clone();
        }
        let why = "it depends on kernel memory read through bpf_rdonly_cast";
        Value::Scalar(self.symbols.unknown_word(64, why))
    }

    /// A map's address and the constant step that the kernel adds to it: only
    /// its own inlined lookups can (the verifier refuses it to programs).
    fn first_value(&mut self, map: usize) -> Value {
        let table = &self.code.maps[map];
        match (table.kind, table.per_cpu) {
            (TableKind::Array, false) => Value::pointer(Base::Array(map), Word::ZERO),
            (TableKind::Array, true) => Value::pointer(Base::PerCpuSlots(map), Word::ZERO),
            (TableKind::ArrayOfMaps, _) if table.entries.is_ok() => {
                Value::pointer(Base::InnerSlots(map), Word::ZERO)
            }
            _ => {
                let why = match &table.entries {
                    Err(why) => why.clone(),
                    Ok(_) => format!("it depends on a map inside map {}", table.id),
                };
                Value::Scalar(self.symbols.unknown_word(64, &why))
            }
        }
    }
}

fn map_object(value: &Value) -> Option<usize> {
    match value {
        Value::Pointer(pointer) => match pointer.base {
            Base::MapObject(map) => Some(map),
            _ => None,
        },
        _ => None,
    }
}

fn missing_map(id: u32) -> String {
    format!("map {id} is not part of the observation")
}

/// The plain kind, the width, and whether a register is moved to itself.
type Unclear = (Arithmetic, usize, bool);

impl Machine<'_> {
    /// The result of an instruction that is not clear.
    pub(super) fn unclear(&mut self, pc: usize, unclear: Unclear, left: &Value, right: &Value) -> Value {
        let (kind, width, _) = unclear;
        let why = format!(
            "it depends on instruction {pc}, which a listing without opcodes does not show whole: dump the program again with `opcodes`"
        );
        if kind != Arithmetic::Move {
            return self.agreed(unclear, left, right, &why);
        }
        let moved: Vec<(Bdd, Value)> = right
            .alternatives()
            .into_iter()
            .map(|(guard, value)| match value {
                Value::Scalar(_) | Value::Unset if self.may_change_space(unclear) => {
                    (guard, Value::Scalar(self.symbols.unknown_word(64, &why)))
                }
                Value::Scalar(_) | Value::Unset => (guard, self.agreed(unclear, left, &value, &why)),
                Value::Pointer(_) | Value::Choice(_) if width == 64 && !self.code.moves_addresses(pc) => {
                    (guard, Value::Scalar(self.symbols.unknown_word(64, &why)))
                }
                address => (guard, compute::arithmetic(kind, width, left, &address, self.symbols)),
            })
            .collect();
        Value::of_alternatives(moved, self.symbols)
    }

    /// Whether the move may be one to or from an arena, or to the copy of a CPU: the
    /// verifier alone writes that, to the register that it is from.
    fn may_change_space(&self, (_, width, is_own): Unclear) -> bool {
        let may_be_arena = |kind| matches!(kind, TableKind::Arena | TableKind::Absent);
        width == 64 && (is_own || self.code.maps.iter().any(|table| may_be_arena(table.kind)))
    }

    /// The bits that all readings share; the others are unknown.
    fn agreed(&mut self, (kind, width, _): Unclear, left: &Value, right: &Value, why: &str) -> Value {
        let mut result =
            |kind| compute::arithmetic(kind, width, left, right, self.symbols).word(self.symbols);
        let first = result(kind);
        let others: Vec<Word> = others(kind, width).iter().map(|kind| result(*kind)).collect();
        let mut differs = Word::ZERO;
        for other in others {
            let diagram = &mut self.symbols.diagram;
            let here = first.xor(&other, diagram);
            differs = differs.or(&here, diagram);
        }
        let (mut bits, differs) = (first.bits(), differs.bits());
        for (bit, differs) in bits.iter_mut().zip(differs) {
            if differs != Bdd::FALSE {
                let unknown = self.symbols.unknown_bit(why);
                *bit = self.symbols.diagram.ite(differs, unknown, *bit);
            }
        }
        Value::Scalar(Word::from_bits(bits))
    }
}

/// What else an instruction may be that is printed as this kind.
fn others(kind: Arithmetic, width: usize) -> &'static [Arithmetic] {
    use Arithmetic::{Div, Mod, MoveSigned, SignedDiv, SignedMod};
    const MOVES: [Arithmetic; 3] = [MoveSigned(8), MoveSigned(16), MoveSigned(32)];
    match kind {
        Div => &[SignedDiv],
        Mod => &[SignedMod],
        _ if width == 64 => &MOVES,
        _ => &MOVES[..2],
    }
}
