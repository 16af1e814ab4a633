//! Values of facts: an answer or why there is none, text of unknown encoding, bytes.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::CgroupPathBuf;

/// Text of unknown encoding: a cgroup name, a command name.
///
/// In JSON it is a string when it is UTF-8, else `{"hex": "…"}`, so that
/// nothing is lost.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Vec<u8>);

/// Bytes, written in JSON as lower-case hex.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HexBytes(pub Vec<u8>);

impl Text {
    /// The bytes as they were read.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text with every invalid sequence replaced. Not yet safe for a
    /// terminal.
    pub fn lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// Hex of the bytes if they are not UTF-8.
    pub fn hex(&self) -> Option<String> {
        std::str::from_utf8(&self.0).is_err().then(|| encode(&self.0))
    }
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl From<CgroupPathBuf> for Text {
    fn from(path: CgroupPathBuf) -> Self {
        Self(path.into())
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Debug for HexBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode(&self.0))
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Wire<'a> {
    Plain(Cow<'a, str>),
    Hex { hex: HexBytes },
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => Wire::Plain(Cow::Borrowed(text)),
            Err(_) => Wire::Hex { hex: HexBytes(self.0.clone()) },
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Text {
    /// What serde derives for text or an object would keep any other value whole before
    /// it refuses it, however long that is.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrHex)
    }
}

struct TextOrHex;

impl<'de> Visitor<'de> for TextOrHex {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, or an object with the hex of bytes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Text, E> {
        Ok(text.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text, A::Error> {
        let mut hex: Option<HexBytes> = None;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key != "hex" {
                map.next_value::<IgnoredAny>()?;
            } else if hex.replace(map.next_value()?).is_some() {
                return Err(A::Error::duplicate_field("hex"));
            }
        }
        hex.map(|hex| hex.0.into()).ok_or_else(|| A::Error::missing_field("hex"))
    }
}

impl JsonSchema for Text {
    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "a string, or an object with the hex of bytes that are not UTF-8",
            "anyOf": [
                { "type": "string" },
                { "type": "object", "properties": { "hex": { "type": "string" } }, "required": ["hex"] }
            ]
        })
    }
}

impl Serialize for HexBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for HexBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        decode(&text).map(Self).ok_or_else(|| D::Error::custom("expected an even number of hex digits"))
    }
}

impl JsonSchema for HexBytes {
    fn schema_name() -> Cow<'static, str> {
        "HexBytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^([0-9a-f]{2})*$" })
    }
}

/// The two digits of each byte. Tables, because shared regions of two megabytes go this
/// way from helpers, and a build without optimisation takes seconds for them otherwise.
const DIGITS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
};

/// No hex digit.
const NONE: u8 = 0xff;
/// What each character stands for.
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < 16 {
        values[b"0123456789abcdef"[value] as usize] = value as u8;
        values[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    values
};

fn encode(bytes: &[u8]) -> String {
    let mut text = vec![0; bytes.len() * 2];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&DIGITS[usize::from(*byte)]);
    }
    String::from_utf8(text).unwrap_or_default()
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 2);
    for pair in pairs {
        let (high, low) = (VALUES[usize::from(pair[0])], VALUES[usize::from(pair[1])]);
        if high == NONE || low == NONE {
            return None;
        }
        bytes.push(high << 4 | low);
    }
    Some(bytes)
}

/// A fact, or the reason why it is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Answer<T> {
    /// The fact.
    Known(T),
    /// The reason it could not be had, one clause.
    Missing(String),
}

impl<T> Answer<T> {
    /// The fact, if there is one.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(fact) => Some(fact),
            Self::Missing(_) => None,
        }
    }

    /// The reason it is missing, if it is.
    pub fn missing(&self) -> Option<&str> {
        match self {
            Self::Known(_) => None,
            Self::Missing(why) => Some(why),
        }
    }
}

impl<T: Default> Default for Answer<T> {
    fn default() -> Self {
        Self::Known(T::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that no byte string is lost on the way through JSON.
    #[test]
    fn text_round_trips() {
        for bytes in [&b"job_1"[..], b"\xff\x1b[31m", b"", "ü".as_bytes()] {
            let text = Text::from(bytes);
            let json = serde_json::to_string(&text).unwrap();
            assert_eq!(serde_json::from_str::<Text>(&json).unwrap(), text, "{json}");
        }
        assert!(serde_json::from_str::<Text>(r#"{"hex":"f"}"#).is_err());
        for bad in [r#""0g""#, r#""0""#, r#""ü""#, r#""0 ""#, r#""+1""#] {
            assert!(serde_json::from_str::<HexBytes>(bad).is_err(), "{bad}");
        }
    }

    /// Make sure that every byte has its two digits, and that both cases are read.
    #[test]
    fn all_bytes() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text = encode(&bytes);
        assert_eq!(text, bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        assert_eq!(decode(&text), Some(bytes.clone()));
        assert_eq!(decode(&text.to_uppercase()), Some(bytes));
    }
}
