//! Bytes from the kernel that are usually text, and bytes that never are.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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

#[derive(Serialize, Deserialize)]
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
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Wire::deserialize(deserializer)? {
            Wire::Plain(text) => text.into_owned().into(),
            Wire::Hex { hex } => hex.0.into(),
        })
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

fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|nibble| char::from(DIGITS[usize::from(nibble)]))
        .collect()
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let nibbles: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok())).collect();
    let nibbles = nibbles?;
    nibbles.len().is_multiple_of(2).then(|| nibbles.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
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
        assert!(serde_json::from_str::<HexBytes>(r#""0g""#).is_err());
    }
}
