//! Maps that many single questions are asked about: checked once, and with an index of
//! their keys.

use std::collections::{BTreeMap, HashMap};

use super::table::{Table, TableKind, prefix_length};
use crate::observation::Map;

/// What was found out about some maps, by their ids.
pub type MapIndex = BTreeMap<u32, Indexed>;

/// A map whose entries were checked.
#[derive(Debug)]
pub struct Indexed {
    /// Why its entries are not known, if they are not.
    pub usable: Result<(), String>,
    /// The entries by key; of a trie, by the bits that count. `None` if entries must be
    /// looked through one by one.
    positions: Option<HashMap<Vec<u8>, usize>>,
}

/// Checks maps, and makes their indices.
pub fn of_maps(maps: &[Map]) -> MapIndex {
    maps.iter().map(|map| (map.id, Indexed::of(&Table::new(map.id, maps)))).collect()
}

impl Indexed {
    fn of(table: &Table<'_>) -> Self {
        let usable = table.entries.as_ref().map(|_| ()).map_err(Clone::clone);
        Self { usable, positions: positions(table) }
    }

    /// Which entry a lookup of this key finds, or that it finds none; `None` without an
    /// index.
    pub fn find(&self, kind: TableKind, key: &[u8]) -> Option<Option<usize>> {
        let positions = self.positions.as_ref()?;
        if kind != TableKind::Trie {
            return Some(positions.get(key).copied());
        }
        let bits = key.len().saturating_sub(4) as u32 * 8;
        let length = prefix_length(key);
        if length > bits {
            return Some(None);
        }
        Some((0..=length).rev().find_map(|prefix| positions.get(&counting(key, prefix)).copied()))
    }
}

/// The places of the entries; `None` if two of them have one key, which no map has.
fn positions(table: &Table<'_>) -> Option<HashMap<Vec<u8>, usize>> {
    let is_indexed = matches!(table.kind, TableKind::Hash | TableKind::HashOfMaps | TableKind::Trie);
    let entries = table.entries.as_ref().ok().filter(|_| is_indexed)?;
    let key = |key: &[u8]| match table.kind {
        TableKind::Trie => counting(key, prefix_length(key)),
        _ => key.to_vec(),
    };
    let found: HashMap<_, _> = entries.iter().enumerate().map(|(at, one)| (key(&one.key.0), at)).collect();
    (found.len() == entries.len()).then_some(found)
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
    use crate::model::MapType;
    use crate::observation::{Answer, HexBytes, MapEntry};

    fn map(kind: MapType, keys: &[&[u8]]) -> Map {
        let entry = |key: &&[u8]| MapEntry { key: HexBytes(key.to_vec()), value: HexBytes(vec![1]) };
        let entries = Answer::Known(keys.iter().map(entry).collect());
        Map { id: 1, kind, key_size: keys[0].len() as u32, value_size: 1, entries, ..Map::default() }
    }

    /// Make sure that a trie finds the longest prefix, whatever stands after it, and that
    /// a key that is too long finds none.
    #[test]
    fn tries() {
        let keys: [&[u8]; 3] = [&[4, 0, 0, 0, 0xff, 9], &[0, 0, 0, 0, 7, 7], &[12, 0, 0, 0, 0xf1, 0x2f]];
        let index = of_maps(&[map(MapType::LpmTrie, &keys)]);
        let find = |key: [u8; 6]| index[&1].find(TableKind::Trie, &key);
        assert_eq!(find([16, 0, 0, 0, 0xf1, 0x20]), Some(Some(2)));
        assert_eq!(find([16, 0, 0, 0, 0xf1, 0x30]), Some(Some(0)));
        assert_eq!(find([11, 0, 0, 0, 0xf1, 0x20]), Some(Some(0)));
        assert_eq!(find([16, 0, 0, 0, 0, 0]), Some(Some(1)));
        assert_eq!(find([17, 0, 0, 0, 0xf1, 0x20]), Some(None));
    }

    /// Make sure that equal keys are found, and that a map that says a key twice has no
    /// index.
    #[test]
    fn hashes() {
        let index = of_maps(&[map(MapType::Hash, &[&[1, 2], &[3, 4]])]);
        assert_eq!(index[&1].find(TableKind::Hash, &[3, 4]), Some(Some(1)));
        assert_eq!(index[&1].find(TableKind::Hash, &[3, 5]), Some(None));
        assert_eq!(of_maps(&[map(MapType::Hash, &[&[1], &[1]])])[&1].find(TableKind::Hash, &[1]), None);
    }
}
