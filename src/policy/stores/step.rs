//! What an instruction leaves in registers, and what it writes.

use std::collections::BTreeSet;

use super::super::address::{AddressSet, Number, Pointee};
use super::super::helpers::{self, KernelFunction};
use super::super::table::TableKind;
use super::super::written::{Bytes, Spoil};
use super::search::{AddressRegisters, Search};
use crate::bytecode::{Arithmetic, Operand, Operation};

impl Search<'_> {
    /// What an instruction leaves after which the next one follows.
    pub(super) fn step(&mut self, operation: Operation, registers: &mut AddressRegisters) {
        match operation {
            Operation::Arithmetic { kind, width, dst, source, .. } => {
                let right = match source {
                    Operand::Register(register) => registers[register].clone(),
                    Operand::Immediate(number) => Number::Exact(number).into(),
                };
                registers[dst] = self.arithmetic(kind, width, &registers[dst], &right);
            }
            Operation::Unclear { dst, source, .. } => {
                let mut result = AddressSet::from(Pointee::Anywhere);
                if let Operand::Register(source) = source {
                    result.join(&registers[source]);
                }
                result.number = Number::ANY;
                registers[dst] = result;
            }
            Operation::LoadConstant { dst, value } => registers[dst] = Number::Exact(value).into(),
            Operation::LoadMap { dst, map } => registers[dst] = self.map(map, Pointee::Map).into(),
            Operation::LoadMapValue { dst, map, offset } => {
                let value = |place| Pointee::Value(place, Some(offset.into()));
                registers[dst] = self.map(map, value).into();
            }
            Operation::LoadSubprogram { dst, target } => {
                registers[dst] = Pointee::Function.into();
                let arguments: Vec<(usize, AddressSet)> = (1..).zip(self.handed.iter().cloned()).collect();
                self.enter(target, &arguments);
            }
            Operation::LoadUnknown { dst } => registers[dst] = Pointee::Anywhere.into(),
            Operation::SwapBytes { dst, .. } => registers[dst] = AddressSet::any_number(),
            Operation::Load { dst, base, size, signed, .. } => {
                registers[dst] =
                    if signed { AddressSet::any_number() } else { self.loaded(&registers[base], size) };
            }
            Operation::Store { base, offset, size, source } => {
                if let Operand::Register(source) = source {
                    self.keep(&registers[source]);
                }
                self.store(&registers[base], offset.into(), size);
            }
            Operation::Atomic { base, offset, size, source, fetches, .. } => {
                self.keep(&registers[source]);
                self.store(&registers[base], offset.into(), size);
                if let Some(register) = fetches {
                    registers[register] = self.loaded(&registers[base], size);
                }
            }
            Operation::CallHelper { helper } => {
                let result = self.helper(self.code.name(helper), registers);
                self.end_call(registers, result);
            }
            Operation::CallKernel { function } => {
                let known = helpers::known_function(self.code.calls, function);
                if known == Some(KernelFunction::Slice) {
                    self.fill(&registers[3], &Spoil::VALUES);
                }
                // An iterator is on the stack, and so is its number. Objects count as
                // the stack here: a store to either writes to no map.
                let result = match known {
                    Some(_) => AddressSet { number: Number::ANY, ..AddressSet::of([Pointee::Stack]) },
                    None => self.unmodelled(registers),
                };
                self.end_call(registers, result);
            }
            Operation::Nothing
            | Operation::Jump { .. }
            | Operation::Branch { .. }
            | Operation::CallLocal { .. }
            | Operation::Exit
            | Operation::Unsupported { .. } => {}
        }
    }

    pub(super) fn map(&self, id: u32, place: impl Fn(usize) -> Pointee) -> Pointee {
        let known = self.code.maps.iter().position(|table| table.id == id);
        known.map_or(Pointee::Anywhere, place)
    }

    fn arithmetic(
        &self,
        kind: Arithmetic,
        width: usize,
        left: &AddressSet,
        right: &AddressSet,
    ) -> AddressSet {
        let (a, b) = (left.number, right.number);
        let number = match kind {
            Arithmetic::Move => b,
            Arithmetic::Add => a.plus(b),
            Arithmetic::Mul => a.times(b),
            Arithmetic::And => a.masked(b),
            Arithmetic::ShiftLeft => match b {
                Number::Exact(by @ 0..32) => a.times(Number::Exact(1 << by)),
                _ => Number::ANY,
            },
            _ => Number::ANY,
        };
        let number = if width == 64 { number } else { number.low_half() };
        let places = match (kind, width) {
            (Arithmetic::Move | Arithmetic::MovePerCpu, 64) => right.places.iter().copied().collect(),
            (Arithmetic::MoveSpace, _) => vec![Pointee::Anywhere],
            (Arithmetic::Move | Arithmetic::MoveSigned(_) | Arithmetic::MovePerCpu, _) => {
                right.moved(Number::ANY, self.code.maps)
            }
            // One of the two is a number: the verifier adds no addresses.
            (Arithmetic::Add, 64) => {
                let mut places = left.moved(b, self.code.maps);
                places.extend(right.moved(a, self.code.maps));
                places
            }
            (Arithmetic::Sub, 64) => {
                let by = match b {
                    Number::Exact(by) => Number::Exact(by.wrapping_neg()),
                    other => other,
                };
                let mut places = left.moved(by, self.code.maps);
                places.extend(right.moved(Number::ANY, self.code.maps));
                places
            }
            _ => left
                .moved(Number::ANY, self.code.maps)
                .into_iter()
                .chain(right.moved(Number::ANY, self.code.maps))
                .collect(),
        };
        let mut result = AddressSet::of(places);
        result.number = number;
        result
    }

    /// What is read at `address`. No value of a map and no memory of the
    /// kernel holds the address of a map's value that a program may write to.
    fn loaded(&self, address: &AddressSet, size: usize) -> AddressSet {
        let mut loaded = AddressSet::from(Number::of_bytes(size));
        if size != 8 {
            return loaded;
        }
        for place in &address.places {
            match *place {
                Pointee::Stack | Pointee::Anywhere => drop(loaded.join(&self.kept)),
                Pointee::Slot(map) if self.code.maps[map].kind.holds_maps() => {
                    loaded.join(&AddressSet::of(self.inside(map)));
                }
                Pointee::Slot(map) => drop(loaded.join(&Pointee::Value(map, Some(0)).into())),
                Pointee::Argument
                | Pointee::Record
                | Pointee::Function
                | Pointee::Map(_)
                | Pointee::Element(_)
                | Pointee::Value(..) => {}
            }
        }
        loaded
    }

    /// The maps inside a map.
    pub(super) fn inside(&self, map: usize) -> Vec<Pointee> {
        let table = &self.code.maps[map];
        let Ok(entries) = &table.entries else { return vec![Pointee::Anywhere] };
        let inner = entries
            .iter()
            .map(|entry| entry.inner_id().map_or(Pointee::Anywhere, |id| self.map(id, Pointee::Map)));
        inner.collect()
    }

    pub(super) fn keep(&mut self, value: &AddressSet) {
        self.has_grown |= self.kept.join(value);
    }

    fn store(&mut self, address: &AddressSet, offset: i64, size: usize) {
        let is_writable = |place: &Pointee| !matches!(place, Pointee::Argument | Pointee::Function);
        if !address.places.iter().any(is_writable) {
            self.note(self.code.own);
        }
        for place in &address.places {
            match *place {
                Pointee::Stack | Pointee::Record | Pointee::Argument | Pointee::Function => {}
                // The inlined lookup in an LRU map marks the element as used.
                Pointee::Element(_) if size == 1 => {}
                Pointee::Value(map, Some(at)) => {
                    self.spoil(map, &self.bytes(map, at.saturating_add(offset), size))
                }
                Pointee::Value(map, None) => self.spoil(map, &Spoil::VALUES),
                Pointee::Element(map) | Pointee::Slot(map) | Pointee::Map(map) => {
                    self.spoil(map, &Spoil::ALL)
                }
                Pointee::Anywhere => self.note(self.code.own),
            }
        }
    }

    pub(super) fn bytes(&self, map: usize, at: i64, size: usize) -> Spoil {
        let table = &self.code.maps[map];
        let stride = table.stride();
        let is_array = table.kind == TableKind::Array && !table.per_cpu;
        let at = if is_array { at.rem_euclid(stride as i64) } else { at };
        match usize::try_from(at) {
            Ok(at) if at + size <= stride => {
                Spoil { keys: false, bytes: Bytes::Only((at..at + size).collect::<BTreeSet<usize>>()) }
            }
            _ => Spoil::VALUES,
        }
    }

    pub(super) fn spoil(&mut self, map: usize, spoil: &Spoil) {
        if let Some(table) = self.code.maps.get(map).filter(|_| self.is_complete) {
            self.written.spoil(table.id, spoil);
        }
    }
}
