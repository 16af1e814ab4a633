//! Reads of arrays with more entries than are told apart one by one.
//!
//! Most entries of such an array are equal to their neighbours. So the array is read as
//! runs of equal numbers, and the bits of the index choose the run.

use super::diagram::{Bdd, Diagram};
use super::machine::Machine;
use super::memory::is_spoiled;
use super::state::MachineState;
use super::table::{Reading, Table};
use super::value::{Base, Pointer};
use super::word::Word;
use super::written::{Bytes, Spoil};

/// Most runs of equal numbers that are told apart.
const MAX_RUNS: usize = 1 << 14;

/// Equal numbers of neighbouring entries: the first index, and the number.
type Run = (u64, u64);

impl Machine<'_> {
    /// The number of `size` bytes at `pointer + offset` in an array map, which leads into
    /// one of very many entries. `None` where the entries have too many different numbers,
    /// the address may lead elsewhere, or what is there may have been written.
    pub(super) fn load_large(
        &mut self,
        state: &MachineState,
        pointer: &Pointer,
        offset: i64,
        size: usize,
    ) -> Option<Word> {
        let Base::Array(map) = pointer.base else { return None };
        let code = self.code;
        let table = &code.maps[map];
        let (index, inside) = self.place_in_large(pointer, offset, table.stride())?;
        let guard = self.guard();
        let diagram = &mut self.symbols.diagram;
        let is_entry = index.less_than(&Word::Constant(table.max_entries), diagram);
        let is_elsewhere = diagram.and(guard, !is_entry) != Bdd::FALSE;
        if is_elsewhere || is_spoiled(state, map, inside, size) {
            return None;
        }
        let runs = runs(table, inside, size)?;
        Some(chosen(&runs, 0, index.length(), &index, diagram))
    }

    /// What a store spoils at `pointer + offset`, which leads to the same bytes of any of
    /// very many entries, if these bytes are known.
    pub(super) fn spoil_of_each(
        &mut self,
        pointer: &Pointer,
        offset: i64,
        size: usize,
        stride: usize,
    ) -> Option<Spoil> {
        let (_, inside) = self.place_in_large(pointer, offset, stride)?;
        let first = usize::try_from(inside).ok()?;
        let bytes = (first..first + size).collect();
        Some(Spoil { keys: false, bytes: Bytes::Only(bytes) })
    }

    /// The index of the entry to which an address in an array leads, and the place in its
    /// value if it is the same for all entries.
    fn place_in_large(&mut self, pointer: &Pointer, offset: i64, stride: usize) -> Option<(Word, i64)> {
        let shift = stride.is_power_of_two().then(|| stride.trailing_zeros() as usize)?;
        let diagram = &mut self.symbols.diagram;
        let place = pointer.offset.add(&Word::Constant(offset.cast_unsigned()), diagram);
        let inside = i64::try_from(place.zero_extended(shift).as_constant()?).ok()?;
        Some((place.shr(&Word::Constant(shift as u64), 6, diagram), inside))
    }
}

/// The numbers at one place of all entries, in runs.
fn runs(table: &Table<'_>, place: i64, size: usize) -> Option<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for index in 0..table.max_entries {
        let Reading::Known(number) = table.number(usize::try_from(index).ok()?, place, size) else {
            return None;
        };
        if runs.last().is_none_or(|(_, last)| *last != number) {
            runs.push((index, number));
        }
        if runs.len() > MAX_RUNS {
            return None;
        }
    }
    Some(runs)
}

/// The number of the run that the low `width` bits of `index` choose behind `first`.
fn chosen(runs: &[Run], first: u64, width: usize, index: &Word, diagram: &mut Diagram) -> Word {
    let middle = width.checked_sub(1).map(|bit| (bit, first | 1 << bit));
    let (Some((bit, middle)), [_, _, ..]) = (middle, runs) else {
        return Word::Constant(runs.first().map_or(0, |(_, number)| *number));
    };
    // The run that the middle is in belongs to both halves.
    let upper = runs.partition_point(|(start, _)| *start <= middle).saturating_sub(1);
    let lower = runs.partition_point(|(start, _)| *start < middle);
    let high = chosen(&runs[upper..], middle, bit, index, diagram);
    let low = chosen(&runs[..lower], first, bit, index, diagram);
    Word::ite(index.bit(bit), &high, &low, diagram)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that every index chooses its run.
    #[test]
    fn indices_choose_runs() {
        let diagram = &mut Diagram::default();
        let mut bits = [Bdd::FALSE; 64];
        for (place, bit) in bits.iter_mut().enumerate().take(5) {
            *bit = diagram.variable(4 - place as u32);
        }
        let index = Word::from_bits(bits);
        let runs = [(0, 7), (3, 0), (4, 9), (16, 7), (17, 1), (31, 4)];
        let word = chosen(&runs, 0, index.length(), &index, diagram);
        for number in 0..32_u64 {
            let question = (0..5).fold(0, |sum, place| sum | (number >> place & 1) << (4 - place));
            let found = word.bits().iter().enumerate().fold(0, |sum, (place, bit)| {
                sum | u64::from(diagram.evaluate(*bit, question) == Some(true)) << place
            });
            let run = runs.iter().rfind(|(start, _)| *start <= number).map(|(_, value)| *value);
            assert_eq!(Some(found), run, "{number}");
        }
    }
}
