//! An index of a map's keys, for many single questions.

use std::collections::HashMap;

use crate::observation::MapEntry;

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
