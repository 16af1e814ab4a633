//! Recognises the formats in which programs are saved.

use super::error::MAX_BYTES;
use super::saved::SavedProgram;
use super::{ReadError, json, paste, raw, text, verifier_log};

/// Reads the programs of a file: raw xlated bytes, a bpftool text listing
/// (with or without `opcodes`, also as pasted from a mail), bpftool's JSON, or a log of
/// the verifier.
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
    let content = &paste::plain(content.trim_start_matches('\u{feff}'));
    if content.trim().is_empty() {
        Err(ReadError::Empty)
    } else if is_json(content) {
        json::read(content)
    } else if verifier_log::is_log(content) {
        verifier_log::read(content)
    } else if content.trim_start().starts_with("digraph ") || content.contains("\ndigraph \"") {
        Err(ReadError::Graph)
    } else {
        match text::read(content) {
            Err(ReadError::NoInstructions) => {
                json_below(content).map_or(Err(ReadError::NoInstructions), json::read)
            }
            listing => listing,
        }
    }
}

/// The JSON that a command printed, between its prompt and the next one.
fn json_below(content: &str) -> Option<&str> {
    let lines = content.split_inclusive('\n').scan(0, |end, line| {
        let start = *end;
        *end += line.len();
        Some(start)
    });
    let below = lines.map(|start| &content[start..]).find(|rest| is_json(rest))?;
    let mut values = serde_json::Deserializer::from_str(below).into_iter::<serde::de::IgnoredAny>();
    let is_whole = values.next().is_some_and(|value| value.is_ok());
    Some(if is_whole { &below[..values.byte_offset()] } else { below })
}

/// A shell prompt such as `[root@node1 ~]#` starts with a bracket too.
fn is_json(content: &str) -> bool {
    let mut marks = content.chars().filter(|c| !c.is_whitespace());
    matches!((marks.next(), marks.next()), (Some('['), Some('{' | ']')) | (Some('{'), Some('"' | '}')))
}
