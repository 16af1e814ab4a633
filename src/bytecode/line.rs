//! Classifies one line of a pasted bpftool listing, and reads bytes as bpftool prints them:
//! `"0x1f"` in JSON, `1f` in text.

use serde::Deserialize;

use super::Insn;

/// One line, recognised by its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// Nothing, a source annotation or a function header.
    Skip,
    /// `   9: (b7) r0 = 1`.
    Insn {
        /// Its number.
        pc: usize,
        /// The rest of the line after the number.
        text: &'a str,
    },
    /// The opcode bytes below an instruction.
    Bytes(Vec<Insn>),
    /// `4197: cgroup_device  name Slurm_Cgroup_v2  tag 1a261c8a913ff67c  gpl`.
    Header(Header<'a>),
    /// `xlated 224B  jited 147B  memlock 4096B  map_ids 343`.
    Size {
        /// Bytes of xlated instructions.
        xlated: usize,
        /// The maps.
        map_ids: Vec<u32>,
    },
    /// A shell prompt with the command `bpftool prog dump xlated`.
    Command {
        /// The id that was asked for, if it was asked for by id.
        id: Option<u32>,
    },
    /// bpftool's own error message.
    Error(&'a str),
    /// A number and a colon in front of something unknown.
    Broken(&'a str),
    /// Anything else.
    Prose(&'a str),
}

/// The first line that `bpftool prog show` prints about a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header<'a> {
    /// The id.
    pub(super) id: u32,
    /// The type.
    pub(super) kind: &'a str,
    /// The name; may be empty.
    pub(super) name: &'a str,
    /// The tag.
    pub(super) tag: &'a str,
    /// Whether it is marked `gpl`.
    pub(super) gpl: bool,
}

/// Recognises a line. Ignores the marks of a quotation in front of it (`> `, `| `).
pub(super) fn recognise(line: &str) -> Line<'_> {
    let line = unquoted(line);
    if line.is_empty() || line.starts_with(';') {
        return Line::Skip;
    }
    let numbered = line.split_once(':').filter(|(_, rest)| rest.starts_with(char::is_whitespace));
    match numbered.and_then(|(number, rest)| Some((number.parse().ok()?, rest.trim_start()))) {
        Some((pc, text)) if text.starts_with('(') || text.starts_with("BUG_") => Line::Insn { pc, text },
        Some((pc, text)) => header(pc, text).map_or(Line::Broken(line), Line::Header),
        None => unnumbered(line),
    }
}

/// The line without the marks of a quotation.
pub(super) fn unquoted(line: &str) -> &str {
    line.trim_start_matches(|c: char| c.is_whitespace() || c == '>' || c == '|').trim_end()
}

fn unnumbered(line: &str) -> Line<'_> {
    if let Some(slots) = pairs(line).as_deref().and_then(Insn::parse_all) {
        return Line::Bytes(slots);
    }
    if let Some(command) = command(line) {
        return command;
    }
    let is_error = line.starts_with("Error:")
        || line.contains("no instructions returned")
        || line.contains("error retrieving insn dump");
    match size(line) {
        Some(size) => size,
        None if is_error => Line::Error(line),
        // `int prog(struct bpf_cgroup_dev_ctx * ctx):`
        None if line.ends_with("):") => Line::Skip,
        None => Line::Prose(line),
    }
}

fn header(id: usize, text: &str) -> Option<Header<'_>> {
    let id = u32::try_from(id).ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let after = |key: &str| words.iter().skip(1).skip_while(|word| **word != key).nth(1).copied();
    let tag = after("tag").filter(|tag| is_tag(tag))?;
    let name = after("name").unwrap_or_default();
    Some(Header { id, kind: words.first()?, name, tag, gpl: words.contains(&"gpl") })
}

fn command(line: &str) -> Option<Line<'_>> {
    let (_, arguments) = line.split_once("bpftool")?.1.split_once("dump xlated")?;
    let mut words = arguments.split_whitespace();
    let id = words.next().filter(|word| *word == "id").and_then(|_| words.next()?.parse().ok());
    Some(Line::Command { id })
}

fn size(line: &str) -> Option<Line<'_>> {
    let mut words = line.split_whitespace();
    let xlated = match words.next()? {
        "xlated" => words.next()?.strip_suffix('B')?.parse().ok()?,
        _ => return None,
    };
    let list = words.skip_while(|word| *word != "map_ids").nth(1).unwrap_or_default();
    Some(Line::Size { xlated, map_ids: list.split(',').filter_map(|id| id.parse().ok()).collect() })
}

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
