//! Runs the instructions that neither jump nor end: what each leaves in registers and
//! memory.

use crate::bytecode::{Arithmetic, Operand, Operation};

use super::super::compute;
use super::super::state::MachineState;
use super::super::table::TableKind;
use super::super::value::{Base, Value};
use super::super::word::Word;
use super::step::operand;
use super::{Machine, Stop};

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
