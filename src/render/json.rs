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
    part(out, value)?;
    writeln!(out)
}

/// Writes a value alone.
fn part<T: Serialize>(out: &mut dyn Write, value: &T) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *out, Visible)).map_err(io::Error::from)
}

/// A document with one list that is written element by element.
///
/// Each call writes its bytes immediately, so the document can be ended between any
/// two calls, whatever went wrong there.
#[derive(Debug, Default)]
pub struct StreamedDocument {
    bytes: Vec<u8>,
    has_elements: bool,
}

impl StreamedDocument {
    /// Begins a document: the keys of `head`, an object, and then the list.
    ///
    /// # Errors
    ///
    /// Those of writing.
    pub fn begin<T: Serialize>(&mut self, out: &mut dyn Write, head: &T, list: &str) -> io::Result<()> {
        self.bytes.clear();
        part(&mut self.bytes, head)?;
        self.bytes.pop_if(|last| *last == b'}');
        let comma = if self.bytes.len() > 1 { "," } else { "" };
        write!(self.bytes, "{comma}\"{list}\":[")?;
        self.has_elements = false;
        out.write_all(&self.bytes)
    }

    /// Writes one more element.
    ///
    /// # Errors
    ///
    /// Those of writing.
    pub fn element<T: Serialize>(&mut self, out: &mut dyn Write, element: &T) -> io::Result<()> {
        self.bytes.clear();
        if self.has_elements {
            self.bytes.push(b',');
        }
        part(&mut self.bytes, element)?;
        self.has_elements = true;
        out.write_all(&self.bytes)
    }
}

/// Ends a document that a [`StreamedDocument`] began: the keys of `tail`, an object that
/// has some.
///
/// # Errors
///
/// Those of writing.
pub fn end<T: Serialize>(out: &mut dyn Write, tail: &T) -> io::Result<()> {
    let mut bytes = Vec::new();
    part(&mut bytes, tail)?;
    let keys = bytes.strip_prefix(b"{").unwrap_or(&bytes);
    out.write_all(&[b"],", keys, b"\n"].concat())
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

    /// Make sure that a document in pieces is the document in one.
    #[test]
    fn streams() {
        use serde_json::json;
        for count in 0..3 {
            let mut out = Vec::new();
            let mut stream = StreamedDocument::default();
            stream.begin(&mut out, &json!({"a": "\u{202e}"}), "list").unwrap();
            (0..count).for_each(|number| stream.element(&mut out, &json!({"n": number})).unwrap());
            end(&mut out, &json!({"z": [1]})).unwrap();
            let list: Vec<_> = (0..count).map(|number| json!({"n": number})).collect();
            let whole: serde_json::Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(whole, json!({"a": "\u{202e}", "list": list, "z": [1]}));
        }
    }

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
