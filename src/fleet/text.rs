//! Text, lists and devices of documents that others wrote, read without copying and with
//! a bound on every length; sets of devices as bit masks in hexadecimal text, as compact
//! documents have them.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::hash::{BuildHasher as _, RandomState};
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::LazyLock;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Text, borrowed from the document unless an escape stands in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Str<'a>(Cow<'a, str>);

impl Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<String> for Str<'_> {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl<'a> From<&'a str> for Str<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }
        deserializer.deserialize_str(Text).map(Self)
    }
}

/// A list of at most `N` elements: a longer one is an error before it takes memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Short<T, const N: usize>(pub(super) Vec<T>);

impl<T, const N: usize> Default for Short<T, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for Short<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T, const N: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for List<T, N> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {N}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = list.next_element()? {
                    if all.len() >= N {
                        return Err(A::Error::custom(format_args!("a list of more than {N}")));
                    }
                    all.push(one);
                }
                Ok(all)
            }
        }
        deserializer.deserialize_seq(List::<T, N>(PhantomData)).map(Self)
    }
}

/// Pairs of at most `N` keys, in the order of the document.
#[derive(Clone, Debug)]
pub(super) struct Pairs<K, V, const N: usize>(pub(super) Vec<(K, V)>);

impl<K, V, const N: usize> Default for Pairs<K, V, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, K: Deserialize<'de>, V: Deserialize<'de>, const N: usize> Deserialize<'de> for Pairs<K, V, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map<K, V, const N: usize>(PhantomData<(K, V)>);
        impl<'de, K: Deserialize<'de>, V: Deserialize<'de>, const N: usize> Visitor<'de> for Map<K, V, N> {
            type Value = Vec<(K, V)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object of at most {N} keys")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    if all.len() >= N {
                        return Err(A::Error::custom(format_args!("an object of more than {N} keys")));
                    }
                    all.push(pair);
                }
                Ok(all)
            }
        }
        deserializer.deserialize_map(Map::<K, V, N>(PhantomData)).map(Self)
    }
}

/// The key of a GPU, as a number that this process alone knows: a node's text cannot
/// be made to collide with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(u64);

static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Key {
    /// The key with this text.
    pub(super) fn of(text: &str) -> Self {
        Self(KEYS.hash_one(text))
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Str::deserialize(deserializer).map(|text| Self::of(&text))
    }
}

/// A GPU by its key, or an instance on it, `KEY/GI/CI`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Device {
    pub(super) gpu: Key,
    pub(super) instance: Option<(u16, u16)>,
}

impl Device {
    /// The device with this key.
    pub(super) fn of(key: &str) -> Self {
        let mut parts = key.rsplitn(3, '/');
        let mut number = || parts.next().and_then(|text| text.parse().ok());
        let (ci, gi): (Option<u16>, Option<u16>) = (number(), number());
        match (parts.next(), gi.zip(ci)) {
            (Some(gpu), Some(instance)) => Self { gpu: Key::of(gpu), instance: Some(instance) },
            _ => Self { gpu: Key::of(key), instance: None },
        }
    }
}

impl<'de> Deserialize<'de> for Device {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Str::deserialize(deserializer).map(|key| Self::of(&key))
    }
}

/// Devices that a mask may have.
pub(super) const DEVICES: usize = 4096;

/// A set as compact documents write it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mask {
    /// Whether only the owner itself says so.
    pub(super) claimed: bool,
    /// Positions of devices that are in the set, ascending.
    pub(super) certain: Vec<usize>,
    /// Positions of those that may be, ascending.
    pub(super) maybe: Vec<usize>,
}

impl Mask {
    /// Its text: `3`, `~3`, `3?c`.
    pub(super) fn text(&self) -> String {
        let claimed = if self.claimed { "~" } else { "" };
        let maybe = if self.maybe.is_empty() { String::new() } else { format!("?{}", hex(&self.maybe)) };
        format!("{claimed}{}{maybe}", hex(&self.certain))
    }

    /// Whether the device at this position is in the set.
    pub(super) fn has(&self, at: usize) -> bool {
        self.certain.binary_search(&at).is_ok()
    }

    /// Whether it may be.
    pub(super) fn may_have(&self, at: usize) -> bool {
        self.maybe.binary_search(&at).is_ok()
    }

    /// The mask with this text, of at most [`DEVICES`] devices; `None` for any other
    /// text.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (claimed, text) = text.strip_prefix('~').map_or((false, text), |text| (true, text));
        let (certain, maybe) = text.split_once('?').unwrap_or((text, "0"));
        Some(Self { claimed, certain: positions(certain)?, maybe: positions(maybe)? })
    }
}

fn hex(positions: &[usize]) -> String {
    let mut digits = vec![0_u8; positions.iter().max().map_or(0, |last| last / 4) + 1];
    for position in positions {
        if let Some(digit) = digits.get_mut(position / 4) {
            *digit |= 1 << (position % 4);
        }
    }
    let mut text = String::with_capacity(digits.len());
    for digit in digits.iter().rev() {
        let _infallible = write!(text, "{digit:x}");
    }
    text
}

fn positions(hex: &str) -> Option<Vec<usize>> {
    if hex.is_empty() || hex.len() > DEVICES / 4 {
        return None;
    }
    let mut found = Vec::new();
    for (digit, c) in hex.bytes().rev().enumerate() {
        let value = char::from(c).to_digit(16).filter(|_| !c.is_ascii_uppercase())?;
        found.extend((0..4).filter(|bit| value & (1 << bit) != 0).map(|bit| digit * 4 + bit));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that every set comes back from its text, and no other text is one.
    #[test]
    fn texts() {
        let mask = |claimed, certain: &[usize], maybe: &[usize]| Mask {
            claimed,
            certain: certain.to_vec(),
            maybe: maybe.to_vec(),
        };
        for (mask, text) in [
            (mask(false, &[], &[]), "0"),
            (mask(false, &[0, 1, 2, 3], &[]), "f"),
            (mask(true, &[0, 5], &[]), "~21"),
            (mask(false, &[1], &[2, 64]), "2?10000000000000004"),
        ] {
            assert_eq!(mask.text(), text);
            assert_eq!(Mask::read(text), Some(mask));
        }
        for text in ["", "~", "?", "g", "F", "1?", "0x1", "-1", " 1", &"1".repeat(DEVICES)] {
            assert_eq!(Mask::read(text), None, "{text}");
        }
    }
}
