//! Text, lists and devices of documents that others wrote, read without copying and with
//! a bound on every length.

use std::borrow::Cow;
use std::fmt;
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
