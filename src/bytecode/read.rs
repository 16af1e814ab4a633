//! Recognises the formats in which programs are saved.

use super::error::MAX_BYTES;
use super::saved::SavedProgram;
use super::{ReadError, json, raw, text};

/// Reads the programs of a file: raw xlated bytes, a bpftool text listing
/// (with or without `opcodes`, also as pasted from a mail), or bpftool's JSON.
///
/// Raw bytes and text are never mixed up: every raw program holds a zero byte
/// (its last instruction has unused fields), no text does.
pub fn read(bytes: &[u8]) -> Result<Vec<SavedProgram>, ReadError> {
    match bytes {
        [] => Err(ReadError::Empty),
        _ if bytes.len() > MAX_BYTES => Err(ReadError::TooLarge(bytes.len())),
        [0x7f, b'E', b'L', b'F', ..] => Err(ReadError::Elf),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Err(ReadError::Utf16),
        _ if bytes.contains(&0) => raw::read(bytes).map(|program| vec![program]),
        _ => read_text(&String::from_utf8_lossy(bytes)),
    }
}

fn read_text(content: &str) -> Result<Vec<SavedProgram>, ReadError> {
    let content = content.trim_start_matches('\u{feff}');
    if content.trim().is_empty() {
        Err(ReadError::Empty)
    } else if is_json(content) {
        json::read(content)
    } else {
        text::read(content)
    }
}

/// A shell prompt such as `[root@node1 ~]#` starts with a bracket too.
fn is_json(content: &str) -> bool {
    let mut marks = content.chars().filter(|c| !c.is_whitespace());
    matches!((marks.next(), marks.next()), (Some('['), Some('{' | ']')) | (Some('{'), Some('"' | '}')))
}
