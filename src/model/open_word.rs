//! Reads the words of sets that later versions may add to.
//!
//! What serde derives for such a set keeps the whole JSON value before it compares it with
//! the words, whatever the value is: a list of zeros of 64 MiB in the place of a word would
//! take a gigabyte. Here anything but text is an error before it takes memory.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};

/// Reads text, and gives what `of` makes of it.
pub(super) fn deserialize<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    of: fn(&str) -> T,
) -> Result<T, D::Error> {
    deserializer.deserialize_str(Word(of))
}

struct Word<T>(fn(&str) -> T);

impl<T> Visitor<'_> for Word<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<T, E> {
        Ok((self.0)(word))
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{MapType, OwnerKind, ProblemCode, Writer};

    /// Make sure that every word is read as itself, and that what is no word is an error
    /// at its first byte.
    #[test]
    fn words() {
        let kind = |text: &str| serde_json::from_str::<OwnerKind>(text);
        assert_eq!(kind("\"cri-o\"").unwrap(), OwnerKind::CriO);
        assert_eq!(kind("\"\\u0073lurm\"").unwrap(), OwnerKind::Slurm);
        assert_eq!(kind("\"new\"").unwrap(), OwnerKind::Other("new".to_owned()));
        for text in ["[0,0]", "{\"slurm\":null}", "null", "7"] {
            for error in [
                kind(text).unwrap_err(),
                serde_json::from_str::<Writer>(text).unwrap_err(),
                serde_json::from_str::<MapType>(text).unwrap_err(),
                serde_json::from_str::<ProblemCode>(text).unwrap_err(),
            ] {
                assert!(error.to_string().contains("expected a word") && error.column() <= 4, "{error}");
            }
        }
    }
}
