//! Loads and stores: the program's argument, its stack, the values of maps.

use std::collections::BTreeMap;

use crate::bytecode::{Arithmetic, AtomicKind, Comparison};

use super::code::Table;
use super::compute;
use super::diagram::Bdd;
use super::frame::Frame;
use super::machine::{Machine, Stop};
use super::state::State;
use super::value::{Base, Pointer, Selection, Value};
use super::word::Word;

/// Most places a computed address is followed to.
const MAX_PLACES: usize = 1 << 14;

const ELSEWHERE: &str = "it depends on kernel memory that gpumap does not model";

impl Machine<'_> {
    /// The `size` bytes at `address + offset`.
    pub fn load(&mut self, state: &State, address: &Value, offset: i64, size: usize) -> Value {
        match address {
            Value::Pointer(pointer) => self.load_at(state, pointer, offset, size),
            Value::Choice(alternatives) => {
                let loaded = alternatives
                    .iter()
                    .map(|(guard, address)| (*guard, self.load(state, address, offset, size)))
                    .collect();
                Value::of_alternatives(loaded, self.symbols)
            }
            Value::Scalar(_) | Value::Unset => self.unknown(size, ELSEWHERE),
        }
    }

    /// A number of `size` bytes that is not known because of `why`.
    pub fn unknown(&mut self, size: usize, why: &str) -> Value {
        Value::Scalar(self.symbols.unknown_word(size as u32 * 8, why))
    }

    fn load_at(&mut self, state: &State, pointer: &Pointer, offset: i64, size: usize) -> Value {
        if let Base::MapObject(_) | Base::HashElement(_) | Base::Subprogram = pointer.base {
            return self.unknown(size, ELSEWHERE);
        }
        let Some(places) = self.places(pointer, offset) else {
            return self.unknown(size, "it depends on memory at too many possible addresses");
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

    /// Where a pointer can lead, with the questions for which it does.
    fn places(&mut self, pointer: &Pointer, offset: i64) -> Option<Vec<(Bdd, i64)>> {
        if let Some(known) = pointer.offset.as_constant() {
            return Some(vec![(Bdd::TRUE, (known as i64).wrapping_add(offset))]);
        }
        let guard = self.guard();
        let places = pointer.offset.cases(guard, MAX_PLACES, &mut self.symbols.diagram)?;
        Some(places.into_iter().map(|(guard, place)| (guard, (place as i64).wrapping_add(offset))).collect())
    }

    fn load_place(&mut self, state: &State, base: &Base, place: i64, size: usize) -> Value {
        match base {
            Base::Context => self.load_context(place, size),
            Base::Stack(frame) => match state.frame(*frame).filter(|_| Frame::holds(place, size)) {
                Some(frame) => frame.load(place as i16, size, self.symbols),
                None => self.unknown(size, "the program reads outside of its stack"),
            },
            Base::MapValue(selection) => self.load_selected(state, selection, place, size),
            _ => self.unknown(size, ELSEWHERE),
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

    /// Reads from whichever of the selected hash entries was found.
    fn load_selected(&mut self, state: &State, selection: &Selection, place: i64, size: usize) -> Value {
        if state.has_written(selection.map) {
            return self.written(selection.map, size);
        }
        let table = &self.code.maps[selection.map];
        let slices: Option<Vec<(Bdd, u64)>> = selection
            .hits
            .iter()
            .map(|(guard, entry)| {
                let entry = table.entries.as_ref().ok()?.get(*entry)?;
                Some((*guard, number(&entry.value.0, place, size)?))
            })
            .collect();
        match slices {
            Some(slices) => Value::Scalar(self.one_of(&slices)),
            None => self.unknown(size, "the program reads past a map value"),
        }
    }

    /// Reads from an array map at places counted from its first value.
    fn load_array(&mut self, state: &State, map: usize, places: &[(Bdd, i64)], size: usize) -> Value {
        if state.has_written(map) {
            return self.written(map, size);
        }
        let table = &self.code.maps[map];
        if let Err(why) = &table.entries {
            let why = why.clone();
            return self.unknown(size, &why);
        }
        let slices: Option<Vec<(Bdd, u64)>> =
            places.iter().map(|(guard, place)| Some((*guard, array_number(table, *place, size)?))).collect();
        match slices {
            Some(slices) => Value::Scalar(self.one_of(&slices)),
            None => self.unknown(size, "the program reads past an array map's values"),
        }
    }

    fn written(&mut self, map: usize, size: usize) -> Value {
        let why = format!("it depends on map {}, which the program itself writes", self.code.maps[map].id);
        self.unknown(size, &why)
    }

    /// The number whose guard holds; equal numbers share the work.
    fn one_of(&mut self, slices: &[(Bdd, u64)]) -> Word {
        let mut guards: BTreeMap<u64, Bdd> = BTreeMap::new();
        for (guard, number) in slices {
            let sum = guards.entry(*number).or_insert(Bdd::FALSE);
            *sum = self.symbols.diagram.or(*sum, *guard);
        }
        let mut guards = guards.into_iter();
        let Some((first, _)) = guards.next() else { return Word::ZERO };
        guards.fold(Word::Constant(first), |word, (number, guard)| {
            Word::ite(guard, &Word::Constant(number), &word, &mut self.symbols.diagram)
        })
    }

    /// Writes the low `size` bytes of `value` to `address + offset`.
    pub fn store(
        &mut self,
        state: &mut State,
        address: &Value,
        offset: i64,
        size: usize,
        value: &Value,
    ) -> Result<(), Stop> {
        for (guard, address) in address.alternatives() {
            match &address {
                Value::Pointer(pointer) => self.store_at(state, guard, pointer, offset, size, value)?,
                // Somewhere in the kernel: perhaps in a map.
                Value::Scalar(_) => self.mark_written(state, 0..self.code.maps.len()),
                _ => return Err(Stop("the program writes through a register that was never set".into())),
            }
        }
        Ok(())
    }

    fn store_at(
        &mut self,
        state: &mut State,
        guard: Bdd,
        pointer: &Pointer,
        offset: i64,
        size: usize,
        value: &Value,
    ) -> Result<(), Stop> {
        match &pointer.base {
            Base::Stack(frame) => self.store_stack(state, *frame, guard, pointer, offset, size, value),
            Base::MapValue(selection) => {
                self.mark_written(state, [selection.map]);
                Ok(())
            }
            Base::Array(map) => {
                self.mark_written(state, [*map]);
                Ok(())
            }
            // The inlined lookup in an LRU map marks the element as used.
            Base::HashElement(_) => Ok(()),
            Base::Context | Base::MapObject(_) | Base::Subprogram => {
                Err(Stop("the program writes where the verifier lets no program write".into()))
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one store")]
    fn store_stack(
        &mut self,
        state: &mut State,
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
        state: &mut State,
    ) -> Result<(), Stop> {
        let address = state.registers[base].clone();
        let width = size * 8;
        let old = Value::Scalar(self.load(state, &address, offset, size).word(self.symbols));
        let operand = state.registers[source].clone();
        let new = match kind {
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
    pub fn load_bytes(&mut self, state: &State, address: &Value, size: usize) -> Vec<[Bdd; 8]> {
        (0..size)
            .map(|place| {
                let bits = self.load(state, address, place as i64, 1).word(self.symbols).bits();
                std::array::from_fn(|bit| bits[bit])
            })
            .collect()
    }
}

/// The little-endian number of `size` bytes at `place`.
fn number(bytes: &[u8], place: i64, size: usize) -> Option<u64> {
    let start = usize::try_from(place).ok()?;
    let bytes = bytes.get(start..start.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn array_number(table: &Table<'_>, place: i64, size: usize) -> Option<u64> {
    let (stride, place) = (table.stride() as u64, u64::try_from(place).ok()?);
    let value = table.array_value(place / stride)?;
    number(value, (place % stride) as i64, size)
}
