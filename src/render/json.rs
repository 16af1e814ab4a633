//! JSON output: one line, valid, and harmless on a terminal.
//!
//! JSON must escape only C0 controls. Terminals also act on DEL and on the C1
//! controls, and direction marks reorder what an admin reads, so those are
//! written as `\u` escapes too. Nothing is lost by it.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use super::sanitize;

/// Writes a value and a line end.
pub fn write<T: Serialize>(out: &mut dyn Write, value: &T) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *out, Visible)).map_err(io::Error::from)?;
    writeln!(out)
}

/// serde_json's compact format with every hostile character escaped.
struct Visible;

impl Formatter for Visible {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        if fragment.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return out.write_all(fragment.as_bytes());
        }
        let mut clean = 0;
        for (at, c) in fragment.char_indices().filter(|(_, c)| sanitize::is_hostile(*c)) {
            out.write_all(&fragment.as_bytes()[clean..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            clean = at + c.len_utf8();
        }
        out.write_all(&fragment.as_bytes()[clean..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that hostile text is escaped and comes back as it was.
    #[test]
    fn hostile_text_round_trips() {
        for text in ["plain", "a\x1b[1m\"\\\n", "\u{9b}2J\x7f", "\u{202e}abc\u{e0041}z", "é\u{200b}é"] {
            let mut out = Vec::new();
            write(&mut out, &text).unwrap();
            let json = String::from_utf8(out).unwrap();
            assert!(!json.trim_end().chars().any(sanitize::is_hostile), "{json:?}");
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }
}
