//! A map as the program sees it: how lookups in it work and what its values hold, as far
//! as the observation says; with an index of its keys, for many single questions.

use std::collections::{BTreeMap, HashMap};

use crate::model::MapType;
use crate::observation::{Answer, HiddenBytes, Map, MapEntry, Program, with_inner};

/// `BPF_F_RDONLY_PROG`: the verifier lets no program write to the map
/// (`bpf_map_flags_to_cap`, `linux/bpf.h`).
const READ_ONLY: u32 = 1 << 7;

/// A map as the program sees it.
#[derive(Debug)]
pub struct Table<'a> {
    /// Map id.
    pub id: u32,
    /// The kind of its lookups.
    pub kind: TableKind,
    /// Whether every CPU has its own values.
    pub per_cpu: bool,
    /// Whether no program may write to it.
    pub read_only: bool,
    /// Key size in bytes.
    pub key_size: usize,
    /// Value size in bytes.
    pub value_size: usize,
    /// Capacity.
    pub max_entries: u64,
    /// The entries, or why they are not known.
    pub entries: Result<&'a [MapEntry], String>,
    hidden: &'a [HiddenBytes],
    /// The index of its keys, if many questions are asked.
    keys: Option<&'a KeyIndex>,
}

/// Maps that were checked, by their ids.
pub type CheckedMaps = BTreeMap<u32, CheckedMap>;

/// A map that was checked once for many questions.
#[derive(Debug)]
pub struct CheckedMap {
    /// Why its entries are not known, if they are not.
    usable: Result<(), String>,
    keys: Option<KeyIndex>,
}

/// The kinds of lookups in a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// By equal key.
    Hash,
    /// By number, every entry exists.
    Array,
    /// By the longest prefix of the key.
    Trie,
    /// By the cgroup that the program is attached to.
    CgroupStorage,
    /// By number, entries are maps themselves.
    ArrayOfMaps,
    /// By equal key, entries are maps themselves.
    HashOfMaps,
    /// Entries are programs to continue in.
    Programs,
    /// Memory that programs share with user space.
    Arena,
    /// In a way that gpumap does not model.
    Other,
    /// Not known: the map is not part of the observation.
    Absent,
}

/// A number read from a map's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reading {
    /// It is this.
    Known(u64),
    /// The copies of the CPUs, or of the cgroups, are not the same.
    Differs,
    /// The kernel does not show these bytes.
    Hidden,
    /// There is no such place.
    Outside,
}

impl TableKind {
    /// Whether entries are maps.
    pub fn holds_maps(self) -> bool {
        matches!(self, Self::ArrayOfMaps | Self::HashOfMaps)
    }
}

impl<'a> Table<'a> {
    /// The map with `id`, which may have been checked before.
    fn with(id: u32, maps: &'a [Map], checked: Option<&'a CheckedMaps>) -> Self {
        match maps.iter().find(|map| map.id == id) {
            Some(map) => Self::of(map, checked.and_then(|checked| checked.get(&id))),
            None => Self {
                id,
                kind: TableKind::Absent,
                per_cpu: false,
                read_only: false,
                key_size: 0,
                value_size: 0,
                max_entries: 0,
                entries: Err(format!("map {id} is not part of the observation")),
                hidden: &[],
                keys: None,
            },
        }
    }

    fn of(map: &'a Map, checked: Option<&'a CheckedMap>) -> Self {
        let (kind, per_cpu) = kind(map);
        let mut table = Self {
            id: map.id,
            kind,
            per_cpu,
            read_only: map.flags & READ_ONLY != 0,
            key_size: map.key_size as usize,
            value_size: map.value_size as usize,
            max_entries: map.max_entries.into(),
            entries: Ok(&[]),
            hidden: &map.hidden,
            keys: checked.and_then(|checked| checked.keys.as_ref()),
        };
        if let Some(checked) = checked {
            let entries = map.entries.known().map_or(&[][..], Vec::as_slice);
            table.entries = checked.usable.clone().map(|()| entries);
            return table;
        }
        table.entries = match (&map.entries, kind) {
            (_, TableKind::Arena) => {
                Err(format!("map {} is memory that programs share with user space (an arena)", map.id))
            }
            (_, TableKind::Other) => {
                Err(format!("map {} is of type {}, which gpumap does not model", map.id, map.kind))
            }
            (Answer::Missing(why), _) => Err(format!("map {} could not be read: {why}", map.id)),
            (Answer::Known(entries), _) if !table.fits(entries) => {
                Err(format!("map {} has entries of the wrong size", map.id))
            }
            (Answer::Known(entries), TableKind::Array) if !is_complete(entries, map) => {
                Err(format!("array map {} is not complete and in order", map.id))
            }
            (Answer::Known(entries), _) => Ok(entries.as_slice()),
        };
        table
    }

    /// Which entry a lookup of this key finds, or that it finds none; `None` if the
    /// entries must be looked through.
    pub fn find(&self, key: &[u8]) -> Option<Option<usize>> {
        Some(self.keys?.find(key))
    }

    /// Whether every entry has a key and values of the stated sizes.
    fn fits(&self, entries: &[MapEntry]) -> bool {
        let value_fits = |value: &[u8]| match (self.kind, self.per_cpu) {
            (TableKind::Programs, _) => matches!(value.len(), 0 | 4),
            (kind, _) if kind.holds_maps() => value.len() == 4,
            (_, true) => !value.is_empty() && value.len().is_multiple_of(self.stride()),
            (_, false) => value.len() == self.value_size,
        };
        entries.iter().all(|entry| entry.key.0.len() == self.key_size && value_fits(&entry.value.0))
    }

    /// Bytes from one array value, or one CPU's value, to the next: the kernel
    /// rounds up to 8.
    pub fn stride(&self) -> usize {
        self.value_size.next_multiple_of(8).max(8)
    }

    /// Bytes of all values of an array.
    pub fn array_size(&self) -> i64 {
        i64::try_from(self.max_entries.saturating_mul(self.stride() as u64)).unwrap_or(i64::MAX)
    }

    /// How many CPUs have a value of their own, as far as an entry shows it.
    pub fn copies(&self) -> u64 {
        let entry = self.entries.as_ref().ok().and_then(|entries| entries.first());
        entry.filter(|_| self.per_cpu).map_or(0, |entry| (entry.value.0.len() / self.stride()) as u64)
    }

    /// The map that entry number `entry` of a map of maps is.
    pub fn inner(&self, entry: usize) -> Option<u32> {
        self.entries.as_ref().ok()?.get(entry)?.inner_id()
    }

    /// The programs in a map of programs, by id, each with the indices at which it is;
    /// `None` if that is not known.
    pub fn programs(&self) -> Option<BTreeMap<u32, Vec<u32>>> {
        let entries = self.entries.as_ref().ok().filter(|_| self.kind == TableKind::Programs)?;
        let mut programs: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| !entry.value.0.is_empty()) {
            let index = u32::from_le_bytes(*entry.key.0.first_chunk()?);
            programs.entry(entry.inner_id()?).or_default().push(index);
        }
        Some(programs)
    }

    /// The position of the entry of an array of maps that is the map at `index`;
    /// `None` if there is none.
    pub fn slot(&self, index: u64) -> Option<usize> {
        let key = u32::try_from(index).ok()?.to_le_bytes();
        self.entries.as_ref().ok()?.iter().position(|entry| entry.key.0 == key)
    }

    /// The number of `size` bytes at `place` of an array's values, counted
    /// from the first.
    pub fn array_number(&self, place: i64, size: usize) -> Reading {
        let Ok(place) = u64::try_from(place) else { return Reading::Outside };
        let stride = self.stride() as u64;
        match usize::try_from(place / stride) {
            Ok(index) => self.number(index, (place % stride) as i64, size),
            Err(_) => Reading::Outside,
        }
    }

    /// The number of `size` bytes at `place` of an entry's value.
    pub fn number(&self, entry: usize, place: i64, size: usize) -> Reading {
        let entries = self.entries.as_ref().map_or(&[][..], |entries| entries);
        let (Some(entry), Ok(start)) = (entries.get(entry), usize::try_from(place)) else {
            return Reading::Outside;
        };
        if start.checked_add(size).is_none_or(|end| end > self.value_size) {
            return Reading::Outside;
        }
        if self.hidden.iter().any(|hidden| hidden.touches(start, size)) {
            return Reading::Hidden;
        }
        if !self.per_cpu {
            return number(&entry.value.0, start, size).map_or(Reading::Outside, Reading::Known);
        }
        alike(entry.value.0.chunks_exact(self.stride()).map(|value| number(value, start, size)))
    }

    /// The number at `place` of whichever value, if all are the same there.
    pub fn any_number(&self, place: i64, size: usize) -> Reading {
        let count = self.entries.as_ref().map_or(0, |entries| entries.len());
        let mut readings = (0..count).map(|entry| self.number(entry, place, size));
        match readings.next() {
            Some(first) if readings.all(|reading| reading == first) => first,
            Some(_) => Reading::Differs,
            None => Reading::Outside,
        }
    }

    /// Why a number is not known.
    pub fn why(&self, reading: Reading) -> String {
        let id = self.id;
        match (reading, self.kind) {
            (Reading::Hidden, _) => {
                format!("the kernel does not show these bytes of map {id} (a lock, timer or kernel pointer)")
            }
            (Reading::Differs, TableKind::CgroupStorage) => {
                format!("it depends on the cgroup that the program is attached to (map {id})")
            }
            (Reading::Differs, _) => format!("it depends on the CPU (map {id})"),
            _ => format!("the program reads outside of the values of map {id}"),
        }
    }
}

/// Checks maps about which many questions are asked.
pub fn checked(maps: &[Map]) -> CheckedMaps {
    maps.iter().map(|map| (map.id, CheckedMap::of(&Table::of(map, None)))).collect()
}

impl CheckedMap {
    fn of(table: &Table<'_>) -> Self {
        let is_trie = table.kind == TableKind::Trie;
        let has_keys = is_trie || matches!(table.kind, TableKind::Hash | TableKind::HashOfMaps);
        let entries = table.entries.as_ref().ok().filter(|_| has_keys);
        Self {
            usable: table.entries.as_ref().map(|_| ()).map_err(Clone::clone),
            keys: entries.and_then(|entries| KeyIndex::of(entries, is_trie)),
        }
    }
}

/// The maps of a program in the order of its list, and after them the maps
/// that are inside these.
pub fn of_program<'a>(
    program: &Program,
    maps: &'a [Map],
    checked: Option<&'a CheckedMaps>,
) -> Vec<Table<'a>> {
    let of = |id: u32| maps.iter().find(|map| map.id == id);
    let mut ids = program.map_ids.clone();
    let inner = with_inner(ids.iter().copied(), of);
    ids.extend(inner.into_iter().filter(|id| !program.map_ids.contains(id)));
    ids.into_iter().map(|id| Table::with(id, maps, checked)).collect()
}

fn kind(map: &Map) -> (TableKind, bool) {
    match &map.kind {
        MapType::Hash | MapType::LruHash => (TableKind::Hash, false),
        MapType::PercpuHash | MapType::LruPercpuHash => (TableKind::Hash, true),
        MapType::Array if map.key_size == 4 => (TableKind::Array, false),
        MapType::PercpuArray if map.key_size == 4 => (TableKind::Array, true),
        MapType::LpmTrie if map.key_size > 4 => (TableKind::Trie, false),
        MapType::CgroupStorage => (TableKind::CgroupStorage, false),
        MapType::PercpuCgroupStorage => (TableKind::CgroupStorage, true),
        MapType::ArrayOfMaps if map.key_size == 4 => (TableKind::ArrayOfMaps, false),
        MapType::HashOfMaps => (TableKind::HashOfMaps, false),
        MapType::ProgArray if map.key_size == 4 => (TableKind::Programs, false),
        MapType::Arena => (TableKind::Arena, false),
        kind if kind.is_unknown() => (TableKind::Absent, false),
        _ => (TableKind::Other, false),
    }
}

fn alike(numbers: impl Iterator<Item = Option<u64>>) -> Reading {
    let mut known = None;
    for number in numbers {
        let Some(number) = number else { return Reading::Outside };
        if known.is_some_and(|known| known != number) {
            return Reading::Differs;
        }
        known = Some(number);
    }
    known.map_or(Reading::Outside, Reading::Known)
}

/// The little-endian number of `size` bytes at `start`.
pub fn number(bytes: &[u8], start: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(start..start.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Whether an array's entries are all there, each at its number.
fn is_complete(entries: &[MapEntry], map: &Map) -> bool {
    entries.len() == map.max_entries as usize
        && (0u32..).zip(entries).all(|(index, entry)| entry.key.0 == index.to_le_bytes())
}

/// The entries of a map by key; of a trie, by the bits that count.
#[derive(Debug)]
pub struct KeyIndex {
    is_trie: bool,
    positions: HashMap<Vec<u8>, usize>,
}

impl KeyIndex {
    /// The index; `None` if two entries have one key, which no map has.
    pub fn of(entries: &[MapEntry], is_trie: bool) -> Option<Self> {
        let key = |key: &[u8]| if is_trie { counting(key, prefix_length(key)) } else { key.to_vec() };
        let positions: HashMap<_, _> =
            entries.iter().enumerate().map(|(at, entry)| (key(&entry.key.0), at)).collect();
        (positions.len() == entries.len()).then_some(Self { is_trie, positions })
    }

    /// Which entry a lookup of this key finds.
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        if !self.is_trie {
            return self.positions.get(key).copied();
        }
        let bits = key.len().saturating_sub(4) as u32 * 8;
        let length = prefix_length(key);
        if length > bits {
            return None;
        }
        (0..=length).rev().find_map(|prefix| self.positions.get(&counting(key, prefix)).copied())
    }
}

/// How many bits of a trie's key count.
pub fn prefix_length(key: &[u8]) -> u32 {
    key.first_chunk().map_or(0, |length| u32::from_le_bytes(*length))
}

/// A trie's key with this prefix length, and zeros where its bits do not count.
fn counting(key: &[u8], prefix: u32) -> Vec<u8> {
    let mut counting = prefix.to_le_bytes().to_vec();
    counting.extend(key.iter().skip(4).zip(0u32..).map(|(byte, place)| {
        let kept = prefix.saturating_sub(place * 8).min(8);
        byte & 0xff_u8.checked_shl(8 - kept).unwrap_or(0)
    }));
    counting
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::HexBytes;

    fn index(keys: &[&[u8]], is_trie: bool) -> Option<KeyIndex> {
        let entry = |key: &&[u8]| MapEntry { key: HexBytes(key.to_vec()), value: HexBytes(vec![1]) };
        KeyIndex::of(&keys.iter().map(entry).collect::<Vec<_>>(), is_trie)
    }

    /// Make sure that a trie finds the longest prefix, whatever stands after it, and that
    /// a key that is too long finds none.
    #[test]
    fn tries() {
        let keys: [&[u8]; 3] = [&[4, 0, 0, 0, 0xff, 9], &[0, 0, 0, 0, 7, 7], &[12, 0, 0, 0, 0xf1, 0x2f]];
        let index = index(&keys, true).unwrap();
        assert_eq!(index.find(&[16, 0, 0, 0, 0xf1, 0x20]), Some(2));
        assert_eq!(index.find(&[16, 0, 0, 0, 0xf1, 0x30]), Some(0));
        assert_eq!(index.find(&[11, 0, 0, 0, 0xf1, 0x20]), Some(0));
        assert_eq!(index.find(&[16, 0, 0, 0, 0, 0]), Some(1));
        assert_eq!(index.find(&[17, 0, 0, 0, 0xf1, 0x20]), None);
    }

    /// Make sure that equal keys are found, and that a map that says a key twice has no
    /// index.
    #[test]
    fn hashes() {
        let index = |keys: &[&[u8]]| index(keys, false);
        let two = index(&[&[1, 2], &[3, 4]]).unwrap();
        assert_eq!([two.find(&[3, 4]), two.find(&[3, 5])], [Some(1), None]);
        assert!(index(&[&[1], &[1]]).is_none());
    }
}
