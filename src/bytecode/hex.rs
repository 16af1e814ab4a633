//! Bytes as bpftool prints them: `"0x1f"` in JSON, `1f` in text.

use serde::Deserialize;

/// One byte, in JSON a string such as `"0x1f"`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct HexByte(pub(super) u8);

impl TryFrom<String> for HexByte {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let digits = text.strip_prefix("0x").filter(|digits| is_hex(digits));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        byte.map(Self).ok_or_else(|| "expected bytes as strings such as \"0x1f\"".to_owned())
    }
}

/// Bytes such as `61 12 00 00`; nothing if there is anything else.
pub(super) fn pairs(text: &str) -> Option<Vec<u8>> {
    let pair = |word: &str| (word.len() == 2 && is_hex(word)).then(|| u8::from_str_radix(word, 16).ok())?;
    text.split_whitespace().map(pair).collect()
}

/// Whether `text` is a program tag: 16 hex digits.
pub(super) fn is_tag(text: &str) -> bool {
    text.len() == 16 && is_hex(text)
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
