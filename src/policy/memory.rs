//! Carries out loads and stores: the program's argument, its stack, the values of
//! maps.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::bytecode::{Arithmetic, AtomicKind, Comparison};

use super::compute;
use super::diagram::Bdd;
use super::frame::Frame;
use super::machine::{Machine, Stop};
use super::state::MachineState;
use super::table::{self, Reading, TableKind};
use super::value::{Base, Pointer, Selection, Value};
use super::word::Word;
use super::written::{Bytes, Spoil, Written};

/// Most places a computed address is followed to.
pub const MAX_PLACES: usize = 1 << 14;
/// Why a read is unknown that may be at more places.
const WIDE: &str = "it depends on memory at too many possible addresses";

impl Machine<'_> {
    /// The `size` bytes at `address + offset`.
    pub fn load(&mut self, state: &MachineState, address: &Value, offset: i64, size: usize) -> Value {
        match address {
            Value::Pointer(pointer) => self.load_at(state, pointer, offset, size),
            Value::Choice(alternatives) => {
                let loaded = alternatives
                    .iter()
                    .map(|(guard, address)| (*guard, self.load(state, address, offset, size)))
                    .collect();
                Value::of_alternatives(loaded, self.symbols)
            }
            Value::Scalar(_) | Value::Unset => {
                let why = self.why_of_address(address);
                self.unknown(size, &why)
            }
        }
    }

    /// Why memory at `address`, which leads to nothing that gpumap models, is
    /// not known.
    pub fn why_of_address(&self, address: &Value) -> String {
        let Value::Scalar(word) = address else {
            return "it depends on a register that was never set".into();
        };
        if let Some(why) = self.symbols.why_unknown(word) {
            return why.to_owned();
        }
        let arena = self.code.maps.iter().find(|table| table.kind == TableKind::Arena);
        match arena.and_then(|table| table.entries.as_ref().err()) {
            Some(why) => why.clone(),
            None if address.is_constant_address() => "it depends on a variable of the kernel".into(),
            None => "it depends on memory at a computed address".into(),
        }
    }

    /// Why memory of this kind, which gpumap does not model, is not known.
    fn why_of_base(&self, base: &Base) -> String {
        let of_map =
            |map: usize| format!("it depends on what the kernel keeps beside map {}", self.code.maps[map].id);
        match base {
            Base::MapObject(map) | Base::PerCpuSlots(map) | Base::InnerSlots(map) => of_map(*map),
            Base::HashElement(selection) | Base::PerCpuSlot(selection) | Base::InnerSlot(selection) => {
                of_map(selection.map)
            }
            Base::Scratch => "it depends on what a record or an object of the program holds".into(),
            Base::Subprogram(_) => "it depends on the machine code of the program".into(),
            _ => "it depends on memory of the kernel".into(),
        }
    }

    /// A number of `size` bytes that is not known because of `why`.
    pub fn unknown(&mut self, size: usize, why: &str) -> Value {
        Value::Scalar(self.symbols.unknown_word(size as u32 * 8, why))
    }

    fn load_at(&mut self, state: &MachineState, pointer: &Pointer, offset: i64, size: usize) -> Value {
        match &pointer.base {
            Base::MapObject(_) | Base::HashElement(_) | Base::Subprogram(_) | Base::Scratch => {
                let why = self.why_of_base(&pointer.base);
                return self.unknown(size, &why);
            }
            Base::PerCpuSlots(_) | Base::PerCpuSlot(_) => return self.load_slot(pointer, offset, size),
            Base::InnerSlot(_) | Base::InnerSlots(_) => return self.load_inner(state, pointer, offset, size),
            _ => {}
        }
        let Some(places) = self.places(pointer, offset) else {
            let large = self.load_large(state, pointer, offset, size);
            return large.map_or_else(|| self.unknown(size, WIDE), Value::Scalar);
        };
        match &pointer.base {
            Base::Array(map) => self.load_array(state, *map, &places, size),
            base => {
                let loaded = places
                    .into_iter()
                    .map(|(guard, place)| (guard, self.load_place(state, base, place, size)));
                let loaded = loaded.collect();
                Value::of_alternatives(loaded, self.symbols)
            }
        }
    }

    /// Reads the address of per-CPU values, as inlined lookups do.
    fn load_slot(&mut self, pointer: &Pointer, offset: i64, size: usize) -> Value {
        match &pointer.base {
            Base::PerCpuSlots(map) if size == 8 && offset == 0 => {
                let index = pointer.offset.shr(&Word::Constant(3), 6, &mut self.symbols.diagram);
                let guard = self.guard();
                self.per_cpu_entry(*map, &index, guard)
            }
            Base::PerCpuSlot(selection)
                if size == 8 && offset == 0 && pointer.offset.as_constant() == Some(0) =>
            {
                Value::pointer(Base::MapValue(selection.clone()), Word::ZERO)
            }
            base => {
                let why = self.why_of_base(base);
                self.unknown(size, &why)
            }
        }
    }

    /// Reads the address of a map out of a map of maps, as inlined lookups do.
    fn load_inner(&mut self, state: &MachineState, pointer: &Pointer, offset: i64, size: usize) -> Value {
        let map = match &pointer.base {
            Base::InnerSlots(map) => *map,
            Base::InnerSlot(selection) => selection.map,
            base => {
                let why = self.why_of_base(base);
                return self.unknown(size, &why);
            }
        };
        if state.spoiled(map).is_some() {
            return self.unknown(size, &self.why_written(map));
        }
        if size != 8 || offset != 0 {
            let why = self.why_of_base(&pointer.base);
            return self.unknown(size, &why);
        }
        match &pointer.base {
            Base::InnerSlot(selection) if pointer.offset.as_constant() == Some(0) => self.inner_of(selection),
            Base::InnerSlots(map) => match self.places(pointer, 0) {
                Some(places) => self.inner_at(*map, &places),
                None => self.unknown(size, WIDE),
            },
            base => {
                let why = self.why_of_base(base);
                self.unknown(size, &why)
            }
        }
    }

    /// The places that a pointer can lead to, each with the questions for which it
    /// does; `None` if there are too many, while for one question there may be one.
    pub fn places(&mut self, pointer: &Pointer, offset: i64) -> Option<Vec<(Bdd, i64)>> {
        if let Some(known) = pointer.offset.as_constant() {
            return Some(vec![(Bdd::TRUE, (known as i64).wrapping_add(offset))]);
        }
        let guard = self.guard();
        let places = pointer.offset.cases(guard, MAX_PLACES, &mut self.symbols.diagram);
        self.is_wide |= places.is_none();
        Some(places?.into_iter().map(|(guard, place)| (guard, (place as i64).wrapping_add(offset))).collect())
    }

    fn load_place(&mut self, state: &MachineState, base: &Base, place: i64, size: usize) -> Value {
        match base {
            Base::Context => self.load_context(place, size),
            Base::Stack(frame) => match state.frame(*frame).filter(|_| Frame::holds(place, size)) {
                Some(frame) => frame.load(place as i16, size, self.symbols),
                None => self.unknown(size, "the program reads outside of its stack"),
            },
            Base::MapValue(selection) => self.load_selected(state, selection, place, size),
            Base::Bytes(bytes) => {
                match table::number(bytes, usize::try_from(place).unwrap_or(usize::MAX), size) {
                    Some(number) => number.into(),
                    None => self.unknown(size, "the program reads outside of a map's key"),
                }
            }
            base => {
                let why = self.why_of_base(base);
                self.unknown(size, &why)
            }
        }
    }

    fn load_context(&mut self, place: i64, size: usize) -> Value {
        let bytes: Option<Vec<[Bdd; 8]>> =
            (0..size).map(|byte| self.context_byte(usize::try_from(place).ok()? + byte)).collect();
        match bytes {
            Some(bytes) => {
                let mut bits = [Bdd::FALSE; 64];
                bits.iter_mut().zip(bytes.iter().flatten()).for_each(|(bit, from)| *bit = *from);
                Value::Scalar(Word::from_bits(bits))
            }
            None => self.unknown(size, "the program reads past its argument"),
        }
    }

    /// Reads from whichever of the selected entries was found.
    fn load_selected(
        &mut self,
        state: &MachineState,
        selection: &Selection,
        place: i64,
        size: usize,
    ) -> Value {
        let (table, map) = (&self.code.maps[selection.map], selection.map);
        if let Err(why) = &table.entries {
            let why = why.clone();
            return self.unknown(size, &why);
        }
        if is_spoiled(state, map, place, size) || selection.hits.is_none() && state.spoiled(map).is_some() {
            return self.unknown(size, &self.why_written(map));
        }
        let readings: Vec<(Bdd, Reading)> = match &selection.hits {
            Some(hits) => {
                hits.iter().map(|(guard, entry)| (*guard, table.number(*entry, place, size))).collect()
            }
            None => vec![(Bdd::TRUE, table.any_number(place, size))],
        };
        Value::Scalar(self.one_of(map, &readings, size))
    }

    /// Reads from an array map at places counted from its first value.
    fn load_array(&mut self, state: &MachineState, map: usize, places: &[(Bdd, i64)], size: usize) -> Value {
        let table = &self.code.maps[map];
        if let Err(why) = &table.entries {
            let why = why.clone();
            return self.unknown(size, &why);
        }
        let stride = table.stride() as i64;
        if places.iter().any(|(_, place)| is_spoiled(state, map, place.rem_euclid(stride), size)) {
            return self.unknown(size, &self.why_written(map));
        }
        let readings: Vec<(Bdd, Reading)> =
            places.iter().map(|(guard, place)| (*guard, table.array_number(*place, size))).collect();
        Value::Scalar(self.one_of(map, &readings, size))
    }

    /// Why a read of a map is unknown that this program, or another one in force
    /// with it, writes.
    pub fn why_written(&self, map: usize) -> String {
        format!("it depends on map {}, to which the device programs themselves write", self.code.maps[map].id)
    }

    /// The result of a read from several places, by their guards; equal readings
    /// share the work.
    fn one_of(&mut self, map: usize, readings: &[(Bdd, Reading)], size: usize) -> Word {
        let mut guards: BTreeMap<Reading, Bdd> = BTreeMap::new();
        for (guard, reading) in readings {
            let sum = guards.entry(*reading).or_insert(Bdd::FALSE);
            *sum = self.symbols.diagram.or(*sum, *guard);
        }
        let mut word = None;
        for (reading, guard) in guards {
            let read = match reading {
                Reading::Known(number) => Word::Constant(number),
                _ => {
                    let why = self.code.maps[map].why(reading);
                    self.symbols.unknown_word(size as u32 * 8, &why)
                }
            };
            word = Some(match word {
                None => read,
                Some(word) => Word::ite(guard, &read, &word, &mut self.symbols.diagram),
            });
        }
        word.unwrap_or(Word::ZERO)
    }

    /// Writes the low `size` bytes of `value` to `address + offset`.
    pub fn store(
        &mut self,
        state: &mut MachineState,
        address: &Value,
        offset: i64,
        size: usize,
        value: &Value,
    ) -> Result<(), Stop> {
        for (guard, address) in address.alternatives() {
            match &address {
                Value::Pointer(pointer) => self.store_at(state, guard, pointer, offset, size, value)?,
                Value::Scalar(word) if word.may_be_address() => {
                    self.write_anywhere("the program writes through an address of unknown origin", state);
                }
                // Null: no question gets here.
                Value::Scalar(_) => {}
                _ => return Err(Stop("the program writes through a register that was never set".into())),
            }
        }
        Ok(())
    }

    fn store_at(
        &mut self,
        state: &mut MachineState,
        guard: Bdd,
        pointer: &Pointer,
        offset: i64,
        size: usize,
        value: &Value,
    ) -> Result<(), Stop> {
        match &pointer.base {
            Base::Stack(frame) => self.store_stack(state, *frame, guard, pointer, offset, size, value),
            Base::MapValue(selection) => {
                let spoil = self.spoil_of(pointer, offset, size, None);
                self.spoil(state, selection.map, &spoil);
                Ok(())
            }
            Base::Array(map) => {
                let stride = self.code.maps[*map].stride();
                let spoil = self.spoil_of(pointer, offset, size, Some(stride));
                self.spoil(state, *map, &spoil);
                Ok(())
            }
            Base::Scratch => Ok(()),
            // The inlined lookup in an LRU map marks the element as used.
            Base::HashElement(_) => Ok(()),
            Base::Context
            | Base::MapObject(_)
            | Base::PerCpuSlots(_)
            | Base::PerCpuSlot(_)
            | Base::InnerSlot(_)
            | Base::InnerSlots(_)
            | Base::Subprogram(_)
            | Base::Bytes(_) => {
                Err(Stop("the program writes where the verifier lets no program write".into()))
            }
        }
    }

    /// The bytes of a map's values that a store touches.
    pub fn spoil_of(&mut self, pointer: &Pointer, offset: i64, size: usize, stride: Option<usize>) -> Spoil {
        let Some(places) = self.places(pointer, offset) else {
            return stride
                .and_then(|stride| self.spoil_of_each(pointer, offset, size, stride))
                .unwrap_or(Spoil::VALUES);
        };
        let mut bytes = BTreeSet::new();
        for (_, place) in places {
            let Ok(place) = usize::try_from(place) else { return Spoil::VALUES };
            let place = stride.map_or(place, |stride| place % stride);
            bytes.extend(place..place + size);
        }
        Spoil { keys: false, bytes: Bytes::Only(bytes) }
    }

    /// A write through an address of unknown origin: to any map that the program may
    /// reach, or to a stack whose address was lost on the way.
    pub fn write_anywhere(&mut self, why: &str, state: &mut MachineState) {
        state.forget_frames(&Rc::from(why));
        self.spoil_all(state, &self.code.own.clone());
    }

    /// Remembers that the program may change `map`, here and in every run.
    pub fn spoil(&mut self, state: &mut MachineState, map: usize, spoil: &Spoil) {
        if let Some(table) = self.code.maps.get(map) {
            self.writes.spoil(table.id, spoil);
            state.spoil(map, spoil);
        }
    }

    /// Forgets the contents of many maps.
    pub fn spoil_all(&mut self, state: &mut MachineState, written: &Written) {
        self.writes.add_all(written);
        for (place, spoil) in self.code.spoiled_by(written) {
            state.spoil(place, &spoil);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one store")]
    fn store_stack(
        &mut self,
        state: &mut MachineState,
        frame: usize,
        guard: Bdd,
        pointer: &Pointer,
        offset: i64,
        size: usize,
        value: &Value,
    ) -> Result<(), Stop> {
        let outside = || Stop("the program writes outside of its stack".into());
        let places = self.places(pointer, offset).ok_or_else(outside)?;
        for (place_guard, place) in places {
            let guard = self.symbols.diagram.and(guard, place_guard);
            let stack = state.frame_mut(frame).filter(|_| Frame::holds(place, size)).ok_or_else(outside)?;
            if guard == Bdd::TRUE {
                stack.store(place as i16, size, value, self.symbols);
                continue;
            }
            let mut changed = stack.clone();
            changed.store(place as i16, size, value, self.symbols);
            *stack = changed.merged_with(stack, guard, self.symbols);
        }
        Ok(())
    }

    /// A read-modify-write of `size` bytes at `(base, offset)`.
    pub fn atomic(
        &mut self,
        kind: AtomicKind,
        (base, offset, size): (usize, i64, usize),
        source: usize,
        fetches: Option<usize>,
        state: &mut MachineState,
    ) -> Result<(), Stop> {
        let address = state.registers[base].clone();
        let width = size * 8;
        let old = Value::Scalar(self.load(state, &address, offset, size).word(self.symbols));
        let operand = state.registers[source].clone();
        // Of a map only what may have been written is kept, not what.
        let is_stack =
            |value: &Value| matches!(value, Value::Pointer(to) if matches!(to.base, Base::Stack(_)));
        let is_kept = address.alternatives().iter().any(|(_, value)| is_stack(value));
        let new = match kind {
            _ if !is_kept => Value::Unset,
            AtomicKind::Arithmetic(kind) => compute::arithmetic(kind, width, &old, &operand, self.symbols),
            AtomicKind::Exchange => operand,
            AtomicKind::CompareExchange => {
                let expected = state.registers[0].clone();
                let equal = compute::condition(Comparison::Equal, width, &old, &expected, self.symbols);
                compute::arithmetic(Arithmetic::Move, width, &old, &operand, self.symbols).merged_with(
                    &old,
                    equal,
                    self.symbols,
                )
            }
        };
        self.store(state, &address, offset, size, &new)?;
        if let Some(register) = fetches {
            state.registers[register] = old;
        }
        Ok(())
    }

    /// `size` bytes at `address`, each by itself.
    pub fn load_bytes(&mut self, state: &MachineState, address: &Value, size: usize) -> Vec<[Bdd; 8]> {
        (0..size)
            .map(|place| {
                let bits = self.load(state, address, place as i64, 1).word(self.symbols).bits();
                std::array::from_fn(|bit| bits[bit])
            })
            .collect()
    }
}

/// Whether a read at `place` of a map's values may find something that was written.
pub fn is_spoiled(state: &MachineState, map: usize, place: i64, size: usize) -> bool {
    let place = usize::try_from(place).ok();
    state.spoiled(map).is_some_and(|spoil| place.is_none_or(|place| spoil.bytes.touch(place, size)))
}
