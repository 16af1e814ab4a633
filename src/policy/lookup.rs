//! Looks up keys in maps: which entry each key finds, for all keys at once.

use std::rc::Rc;

use super::diagram::Bdd;
use super::helpers::LookupResult;
use super::machine::{Machine, Stop};
use super::memory::MAX_PLACES;
use super::state::MachineState;
use super::table::{Table, TableKind, prefix_length};
use super::value::{Base, Holds, Selection, Value};
use super::word::Word;

/// `BPF_CGROUP_DEVICE` (`linux/bpf.h`), as it is in the keys of maps for cgroups.
const DEVICE: [u8; 4] = [6, 0, 0, 0];

/// One bit of a key or prefix at a time.
type Byte = [Bdd; 8];

impl Machine<'_> {
    /// The map that r1 names. A blinded program loads its address as a plain
    /// constant; if the program has only one map it can be no other.
    pub fn map_argument(&self, argument: &Value) -> Option<usize> {
        match argument {
            Value::Pointer(pointer) => match pointer.base {
                Base::MapObject(map) => Some(map),
                _ => None,
            },
            value if value.is_constant_address() && self.code.maps.len() == 1 => Some(0),
            _ => None,
        }
    }

    /// A lookup in the map of r1 by the key at r2: an entry or null. The path
    /// may have chosen between several maps.
    pub fn lookup(&mut self, state: &mut MachineState, found: LookupResult) -> Result<Value, Stop> {
        let argument = state.registers[1].clone();
        let mut results = Vec::new();
        for (guard, argument) in argument.alternatives() {
            let result = match self.map_argument(&argument) {
                Some(map) => self.lookup_in(map, state, found),
                None => self.lookup_in_one_of(&argument, state, found)?,
            };
            for (inner, value) in result.alternatives() {
                results.push((self.symbols.diagram.and(guard, inner), value));
            }
        }
        Ok(Value::of_alternatives(results, self.symbols))
    }

    /// A blinded program with several maps: any of them, the reader cannot
    /// know which.
    fn lookup_in_one_of(
        &mut self,
        argument: &Value,
        state: &mut MachineState,
        found: LookupResult,
    ) -> Result<Value, Stop> {
        if !argument.is_constant_address() {
            let why = self.why_of_address(argument);
            return Ok(self.unknown(8, &why));
        }
        let mut result: Option<Value> = None;
        for map in 0..self.code.maps.len() {
            let candidate = self.lookup_in(map, state, found);
            result = Some(match result {
                None => candidate,
                Some(known) => {
                    let this = self
                        .symbols
                        .unknown_bit("the program is blinded, so that it is not known which map it reads");
                    candidate.merged_with(&known, this, self.symbols)
                }
            });
        }
        Ok(result.unwrap_or(Value::Unset))
    }

    fn lookup_in(&mut self, map: usize, state: &MachineState, found: LookupResult) -> Value {
        let table = &self.code.maps[map];
        let (kind, key_size) = (table.kind, table.key_size);
        if let (TableKind::Absent | TableKind::ArrayOfMaps | TableKind::HashOfMaps, Err(why)) =
            (kind, &table.entries)
        {
            let why = why.clone();
            return self.unknown(8, &why);
        }
        let value = match kind {
            TableKind::ArrayOfMaps => {
                let key = self.load_bytes(state, &state.registers[2], key_size);
                let slot = Value::pointer(Base::InnerSlots(map), word(&key).shl_by(3));
                return self.load(state, &slot, 0, 8);
            }
            TableKind::Array => {
                let key = self.load_bytes(state, &state.registers[2], key_size);
                self.array_entry(map, &key)
            }
            _ => match self.why_any(map, state) {
                Some(why) => self.any_entry(map, found, &why),
                None => {
                    let key = self.load_bytes(state, &state.registers[2], key_size);
                    self.entry(map, &key, found)
                }
            },
        };
        if found != LookupResult::ValueOfCpu {
            return value;
        }
        // Numbers of CPUs may have gaps, so that the highest is at least their count.
        let cpu = state.registers[3].as_constant().map(|cpu| cpu & u64::from(u32::MAX));
        if cpu.is_some_and(|cpu| cpu < self.code.maps[map].copies()) {
            return value;
        }
        let exists = self.symbols.unknown_bit("it depends on the number of CPUs");
        value.merged_with(&0.into(), exists, self.symbols)
    }

    /// Why a lookup may find any entry, if it may.
    fn why_any(&self, map: usize, state: &MachineState) -> Option<String> {
        let table = &self.code.maps[map];
        match &table.entries {
            Err(why) => Some(why.clone()),
            Ok(_) if state.spoiled(map).is_some_and(|spoil| spoil.keys) => Some(self.why_written(map)),
            Ok(_) => None,
        }
    }

    /// Any entry or none, because of `why`.
    fn any_entry(&mut self, map: usize, found: LookupResult, why: &str) -> Value {
        let exists = self.symbols.unknown_bit(why);
        let pointer = self.selected(map, None, found);
        pointer.merged_with(&0.into(), exists, self.symbols)
    }

    /// The value that a map keeps for something outside of the program.
    pub fn storage(&mut self, map: usize, may_be_null: bool) -> Value {
        if !may_be_null {
            let hits = self.storage_of_cgroup(map);
            return self.selected(map, hits, LookupResult::Value);
        }
        let pointer = self.selected(map, None, LookupResult::Value);
        let why =
            format!("it depends on what map {} keeps for a process or a cgroup", self.code.maps[map].id);
        let exists = self.symbols.unknown_bit(&why);
        pointer.merged_with(&0.into(), exists, self.symbols)
    }

    /// The entries that may be those of the cgroup to which the program is attached: one
    /// of those on the path to the cgroup asked about. `None` if that is not known.
    fn storage_of_cgroup(&mut self, map: usize) -> Option<Vec<(Bdd, usize)>> {
        let table = &self.code.maps[map];
        let entries = table.entries.as_ref().ok()?;
        let is_here = |key: &[u8]| {
            let id = key.first_chunk().is_some_and(|id| self.code.path.contains(&u64::from_le_bytes(*id)));
            id && key.get(8..12).is_none_or(|kind| kind == DEVICE)
        };
        let here: Vec<usize> =
            entries.iter().enumerate().filter(|(_, entry)| is_here(&entry.key.0)).map(|(at, _)| at).collect();
        let (last, others) = here.split_last()?;
        let why = format!("it depends on the cgroup that the program is attached to (map {})", table.id);
        let (mut rest, mut hits) = (Bdd::TRUE, Vec::with_capacity(here.len()));
        for entry in others {
            let is_this = self.symbols.unknown_bit(&why);
            hits.push((self.symbols.diagram.and(rest, is_this), *entry));
            rest = self.symbols.diagram.and(rest, !is_this);
        }
        hits.push((rest, *last));
        Some(hits)
    }

    fn selected(&mut self, map: usize, hits: Option<Vec<(Bdd, usize)>>, found: LookupResult) -> Value {
        let table = &self.code.maps[map];
        let holds = match (table.kind.holds_maps(), table.per_cpu) {
            (true, _) => Holds::Maps,
            (false, true) => Holds::PerCpu,
            (false, false) => Holds::Values,
        };
        let selection = Rc::new(Selection { map, holds, hits });
        let base = match (found, holds) {
            (LookupResult::Element, _) => Base::HashElement(selection),
            (_, Holds::Maps) => return self.inner_of(&selection),
            _ => Base::MapValue(selection),
        };
        Value::pointer(base, Word::ZERO)
    }

    /// The map that is the selected entry.
    pub fn inner_of(&mut self, selection: &Selection) -> Value {
        let Some(hits) = &selection.hits else {
            return self.unknown(8, &self.why_written(selection.map));
        };
        let maps =
            hits.iter().map(|(guard, entry)| (*guard, self.inner_map(selection.map, *entry))).collect();
        Value::of_alternatives(maps, self.symbols)
    }

    /// The map that is entry number `entry` of the map of maps `map`.
    fn inner_map(&mut self, map: usize, entry: usize) -> Value {
        let code = self.code;
        match code.maps[map].inner(entry).and_then(|id| code.map(id)) {
            Some(inner) => Value::pointer(Base::MapObject(inner), Word::ZERO),
            None => self.unknown(8, &format!("it depends on a map inside map {}", code.maps[map].id)),
        }
    }

    /// The map whose address an array of maps has at `pointer`, or null.
    pub fn inner_at(&mut self, map: usize, places: &[(Bdd, i64)]) -> Value {
        let maps = places
            .iter()
            .map(|(guard, place)| {
                let index = u64::try_from(*place).ok().filter(|place| place % 8 == 0).map(|place| place / 8);
                let inner = match (index, index.and_then(|index| self.code.maps[map].slot(index))) {
                    (_, Some(entry)) => self.inner_map(map, entry),
                    (Some(_), None) => 0.into(),
                    (None, None) => self.unknown(8, "the program reads outside of a map"),
                };
                (*guard, inner)
            })
            .collect();
        Value::of_alternatives(maps, self.symbols)
    }

    fn entry(&mut self, map: usize, key: &[Byte], found: LookupResult) -> Value {
        let indexed = constant(key).and_then(|key| self.code.maps[map].find(&key));
        let hits = match self.code.maps[map].kind {
            _ if indexed.is_some() => indexed.flatten().map(|entry| (Bdd::TRUE, entry)).into_iter().collect(),
            TableKind::Trie => self.longest_prefixes(map, key),
            _ => self.equal_keys(map, key),
        };
        let any = hits.iter().fold(Bdd::FALSE, |any, (here, _)| self.symbols.diagram.or(any, *here));
        let pointer = self.selected(map, Some(hits), found);
        Value::of_alternatives(vec![(any, pointer), (!any, 0.into())], self.symbols)
    }

    fn equal_keys(&mut self, map: usize, key: &[Byte]) -> Vec<(Bdd, usize)> {
        let code = self.code;
        let entries = code.maps[map].entries.as_ref().map_or(&[][..], |entries| entries);
        let mut hits = Vec::new();
        for (number, entry) in entries.iter().enumerate() {
            let here = self.equals(key, &entry.key.0);
            if here != Bdd::FALSE {
                hits.push((here, number));
            }
        }
        hits
    }

    /// The entries of a trie with where each is the longest prefix of the key
    /// (`trie_lookup_elem`, `kernel/bpf/lpm_trie.c`). A key is the number of
    /// its bits that count, 32 bits, and then the bits, those of a byte from
    /// the most significant.
    fn longest_prefixes(&mut self, map: usize, key: &[Byte]) -> Vec<(Bdd, usize)> {
        let code = self.code;
        let entries = code.maps[map].entries.as_ref().map_or(&[][..], |entries| entries);
        let (length, bits) = key.split_at(4.min(key.len()));
        let length = word(length);
        let longest = Word::Constant(bits.len() as u64 * 8);
        let mut free = !longest.less_than(&length, &mut self.symbols.diagram);
        let mut order: Vec<(u32, usize)> =
            entries.iter().enumerate().map(|(number, entry)| (prefix_length(&entry.key.0), number)).collect();
        order.sort_unstable_by(|a, b| b.cmp(a));
        let mut hits = Vec::new();
        for (prefix, number) in order {
            let too_short = length.less_than(&Word::Constant(prefix.into()), &mut self.symbols.diagram);
            let begins = self.begins_with(bits, entries[number].key.0.get(4..).unwrap_or_default(), prefix);
            let diagram = &mut self.symbols.diagram;
            let matches = diagram.and(begins, !too_short);
            let here = diagram.and(free, matches);
            free = diagram.and(free, !matches);
            if here != Bdd::FALSE {
                hits.push((here, number));
            }
        }
        hits
    }

    /// The questions for which the first `count` bits of `key` are those of
    /// `prefix`.
    fn begins_with(&mut self, key: &[Byte], prefix: &[u8], count: u32) -> Bdd {
        let bits = key.iter().zip(prefix).flat_map(|(bits, byte)| {
            (0..8).rev().map(move |place| if byte >> place & 1 == 1 { bits[place] } else { !bits[place] })
        });
        bits.take(count as usize).fold(Bdd::TRUE, |all, bit| self.symbols.diagram.and(bit, all))
    }

    fn array_entry(&mut self, map: usize, key: &[Byte]) -> Value {
        let index = word(key);
        let table: &Table<'_> = &self.code.maps[map];
        let (max, stride) = (Word::Constant(table.max_entries), Word::Constant(table.stride() as u64));
        let exists = index.less_than(&max, &mut self.symbols.diagram);
        let value = match table.per_cpu {
            true => {
                let guard = self.guard();
                let guard = self.symbols.diagram.and(guard, exists);
                self.per_cpu_entry(map, &index, guard)
            }
            false => Value::pointer(Base::Array(map), index.mul(&stride, &mut self.symbols.diagram)),
        };
        Value::of_alternatives(vec![(exists, value), (!exists, 0.into())], self.symbols)
    }

    /// A CPU's copy of the entry at `index` of a per-CPU array, for the questions of
    /// `guard`. Unlike the values of an array, the copies of two entries are not
    /// adjacent in memory.
    pub fn per_cpu_entry(&mut self, map: usize, index: &Word, guard: Bdd) -> Value {
        let cases = index.cases(guard, MAX_PLACES, &mut self.symbols.diagram);
        self.is_wide |= cases.is_none();
        let hits = cases.map(|cases| {
            let entry = |index| usize::try_from(index).unwrap_or(usize::MAX);
            cases.into_iter().map(|(guard, index)| (guard, entry(index))).collect()
        });
        self.selected(map, hits, LookupResult::Value)
    }

    /// The questions for which the bytes are equal to `constant`.
    fn equals(&mut self, bytes: &[Byte], constant: &[u8]) -> Bdd {
        let mut equal = Bdd::TRUE;
        for (bits, byte) in bytes.iter().zip(constant) {
            for (place, bit) in bits.iter().enumerate() {
                let matches = if byte >> place & 1 == 1 { *bit } else { !*bit };
                if matches == Bdd::FALSE {
                    return Bdd::FALSE;
                }
                equal = self.symbols.diagram.and(matches, equal);
            }
        }
        equal
    }
}

/// The key's bytes, if none depends on anything.
fn constant(key: &[Byte]) -> Option<Vec<u8>> {
    let byte = |bits: &Byte| {
        bits.iter().rev().try_fold(0, |byte, bit| Some(byte << 1 | u8::from(bit.as_constant()?)))
    };
    key.iter().map(byte).collect()
}

fn word(bytes: &[Byte]) -> Word {
    let mut bits = [Bdd::FALSE; 64];
    bits.iter_mut().zip(bytes.iter().flatten()).for_each(|(bit, from)| *bit = *from);
    Word::from_bits(bits)
}
