//! Why a file could not be read, and what to do about it.

use std::fmt;

use thiserror::Error;

/// Largest file that is read, 16 MiB.
pub const MAX_BYTES: usize = 16 << 20;
/// Most instructions of a program (`BPF_COMPLEXITY_LIMIT_INSNS`, `linux/bpf.h`): the
/// verifier looks at no more.
pub const MAX_INSNS: usize = 1_000_000;

/// Why a file is not a program, or not the maps of one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file is larger than [`MAX_BYTES`].
    #[error(
        "the file has {0} bytes, more than the {MAX_BYTES} that are read: is it the right file? Save one program per file"
    )]
    TooLarge(usize),
    /// The program is longer than [`MAX_INSNS`].
    #[error(
        "the program has more than {MAX_INSNS} instructions, which the kernel would not load: is it the right file?"
    )]
    TooLong,
    /// There is nothing in the file.
    #[error(
        "the file is empty: dump the program again and check bpftool's own message (it needs CAP_SYS_ADMIN or CAP_BPF)"
    )]
    Empty,
    /// Raw bytes that are not whole slots.
    #[error(
        "{0} bytes is not a whole number of 8-byte instructions: the file is cut or no program; save it with `bpftool prog dump xlated id N file F`"
    )]
    Length(usize),
    /// Bytes that are all zero: the kernel refused to fill the buffer.
    #[error(
        "all {0} bytes are zero: the kernel refused the raw dump (its constants are blinded); dump again with CAP_SYSLOG, or with kernel.kptr_restrict below 2"
    )]
    Zeros(usize),
    /// The last instruction lets control run off the end.
    #[error(
        "the program does not end with exit or a jump but with `{text}` at {pc}: the file is cut or no program; dump it again"
    )]
    End {
        /// The slot at which the program ends.
        pc: usize,
        /// The instruction there.
        text: String,
    },
    /// The second slot of a 64-bit load is missing or is something else.
    #[error("the 64-bit load at {0} has no second half: the file is damaged or no program; dump it again")]
    Half(usize),
    /// A compiled object file.
    #[error(
        "this is an ELF object, not a loaded program: load it and save `bpftool prog dump xlated id N file F`"
    )]
    Elf,
    /// Text in two-byte characters.
    #[error("this is UTF-16 text: save it as UTF-8")]
    Utf16,
    /// A saved observation of gpumap.
    #[error("this is a saved gpumap observation, not a single program: give it with --from")]
    Observation,
    /// Text without an instruction in it.
    #[error(
        "no instruction found; expected the output of `bpftool prog dump xlated id N opcodes`, with lines such as `   9: (b7) r0 = 1`"
    )]
    NoInstructions,
    /// bpftool's own error message was saved instead of a program.
    #[error(
        "{place}: bpftool saved an error instead of a program: {message}; dump again with the right it names (root has all)"
    )]
    Refused {
        /// Where the message is in the file.
        place: Position,
        /// The message of bpftool.
        message: String,
    },
    /// A program of some other type.
    #[error(
        "{place}: the program is of type {kind}, but only cgroup_device programs decide about devices; see `bpftool cgroup tree`"
    )]
    Kind {
        /// Where the file says so.
        place: Position,
        /// The type it names.
        kind: String,
    },
    /// A listing that breaks off or repeats itself.
    #[error(
        "{place}: instruction {found} where {expected} comes next: lines are missing, repeated or from another program; copy the listing again"
    )]
    Order {
        /// The instruction's line.
        place: Position,
        /// Its number.
        found: usize,
        /// The number that follows from the lines before.
        expected: usize,
    },
    /// A log that has two instructions of one number.
    #[error(
        "{place}: instruction {pc} is another one than before: the log is of several programs; give each a file of its own"
    )]
    Twice {
        /// The instruction's line.
        place: Position,
        /// Its number.
        pc: usize,
    },
    /// A graph of a program.
    #[error(
        "this is the graph that `visual` prints: dump the program again with `opcodes` in the place of `visual`"
    )]
    Graph,
    /// A listing shorter or longer than its own header says.
    #[error(
        "the header says {expected} bytes, the listing has {found}: lines are missing or added; copy the listing again"
    )]
    Count {
        /// `xlated NB` of the header.
        expected: usize,
        /// Bytes of the instructions listed.
        found: usize,
    },
    /// A line or element that says nothing gpumap knows.
    #[error("{place}: `{found}` is not {expected}")]
    Unknown {
        /// Where the text is in the file.
        place: Position,
        /// The text that was found.
        found: String,
        /// The form that would be right, and how to get it.
        expected: &'static str,
    },
    /// Text and bytes are of different instructions.
    #[error(
        "{place}: the text says `{text}`, its opcode bytes `{bytes}`: one of them belongs to another instruction; copy the listing again"
    )]
    Disagree {
        /// The instruction's line.
        place: Position,
        /// Its text.
        text: String,
        /// How its bytes decode.
        bytes: String,
    },
    /// A text that begins like JSON and is none.
    #[error(
        "not the JSON that bpftool writes: {0}; save `bpftool -j prog dump xlated id N opcodes`, or -j map show and dump"
    )]
    Json(String),
    /// A map whose parts contradict each other.
    #[error("map {id}: {why}; save `bpftool -j map show id {id}` and `bpftool -j map dump id {id}` again")]
    Map {
        /// The map's id.
        id: u32,
        /// The contradiction.
        why: String,
    },
}

/// A position in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// A line of a text, from 1.
    Line(usize),
    /// An element of a JSON array, from 1.
    Element(usize),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Element(element) => write!(f, "JSON element {element}"),
        }
    }
}

/// A piece of the file for a message: short, and without control characters.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    let plain = |c: char| if c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric() { c } else { '?' };
    let mut shown: String = text.trim().chars().take(LONGEST).map(plain).collect();
    if text.trim().chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}
