//! Recognises the formats in which programs are saved. Raw instructions, as `bpftool prog
//! dump xlated id N file F` saves them, are read here; around a listing stands what
//! terminals and other tools put there (colours, and the line numbers of `cat -n` and `grep
//! -n`), which is taken away.

use std::borrow::Cow;

use super::error::MAX_BYTES;
use super::saved::SavedProgram;
use super::{Insn, ReadError, json, text, verifier_log};

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
        _ if bytes.contains(&0) => raw(bytes).map(|program| vec![program]),
        _ => read_text(&String::from_utf8_lossy(bytes)),
    }
}

fn read_text(content: &str) -> Result<Vec<SavedProgram>, ReadError> {
    let content = &plain(content.trim_start_matches('\u{feff}'));
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

const ESCAPE: char = '\u{1b}';

const BELL: char = '\u{7}';

/// The listing alone.
pub(super) fn plain(content: &str) -> Cow<'_, str> {
    let content = if content.contains(ESCAPE) { uncoloured(content).into() } else { Cow::from(content) };
    match unnumbered(&content) {
        Some(lines) => lines.into(),
        None => content,
    }
}

/// The text without the sequences that set colours and titles (ECMA-48).
fn uncoloured(content: &str) -> String {
    let mut plain = String::with_capacity(content.len());
    let mut rest = content.chars();
    while let Some(c) = rest.next() {
        if c != ESCAPE {
            plain.push(c);
            continue;
        }
        match rest.next() {
            Some('[') => drop(rest.find(|c| ('@'..='~').contains(c))),
            Some(']') => drop(rest.find(|c| matches!(*c, BELL | ESCAPE))),
            _ => {}
        }
    }
    plain
}

/// The lines without their numbers, if every line has its own.
fn unnumbered(content: &str) -> Option<String> {
    let rest = |(index, line): (usize, &'_ str)| {
        let rest = line.trim_start().strip_prefix(&(index + 1).to_string())?;
        let is_apart = rest.is_empty() || rest.starts_with([' ', '\t', ':']);
        is_apart.then(|| rest.strip_prefix([' ', '\t', ':']).unwrap_or_default().to_owned() + "\n")
    };
    content.lines().enumerate().map(rest).collect()
}

/// Reads raw slots. Fails with the reason if they cannot be a program.
fn raw(bytes: &[u8]) -> Result<SavedProgram, ReadError> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Err(ReadError::Zeros(bytes.len()));
    }
    let insns = Insn::parse_all(bytes).ok_or(ReadError::Length(bytes.len()))?;
    SavedProgram { insns, ..SavedProgram::default() }.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that colours and numbers go, and nothing else does.
    #[test]
    fn wrappings() {
        let listing = "   0: (b7) r0 = 1\n   1: (95) exit\n";
        let numbered = "     1\t   0: (b7) r0 = 1\n     2\t   1: (95) exit\n";
        assert_eq!(plain(numbered), listing);
        assert_eq!(plain("1:   0: (b7) r0 = 1\n2:   1: (95) exit\n"), listing);
        assert_eq!(plain("\u{1b}[32m   0: (b7)\u{1b}[0m r0 = 1\n   1: (95) exit\n"), listing);
        assert_eq!(plain("\u{1b}]0;title\u{7}x"), "x");
        assert_eq!(plain("\u{1b}["), "");
        assert_eq!(plain(listing), listing);
        assert_eq!(plain("1: (95) exit"), " (95) exit\n");
    }
}
