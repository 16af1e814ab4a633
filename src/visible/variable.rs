//! Values of variables: unset, empty and set are three different things; and the entries
//! between commas, which are bytes.

use crate::model::{CutCode, ValueState};
use crate::observation::{Answer, Environment, Text, Variable};
use crate::report::Cut;

/// What an environment says of one variable.
#[derive(Clone, Copy, Debug)]
pub(super) enum VariableState<'a> {
    /// It is certainly not set.
    Unset,
    /// It is set to nothing.
    Empty,
    /// It has a value, of which the end may be missing.
    Value(&'a Variable),
    /// It could not be seen, for this reason.
    Unknown(&'a str),
}

impl<'a> VariableState<'a> {
    /// The state of the first variable with this name, which is the one that
    /// `getenv` finds (POSIX leaves repeated names open; libc takes the first).
    pub(super) fn of(environment: &'a Answer<Environment>, name: &str) -> Self {
        let environment = match environment {
            Answer::Known(environment) => environment,
            Answer::Missing(why) => return Self::Unknown(why),
        };
        match (environment.get(name), &environment.cut) {
            (Some(variable), _) if variable.value.is_empty() && !variable.cut => Self::Empty,
            (Some(variable), _) => Self::Value(variable),
            (None, Some(why)) => Self::Unknown(why),
            (None, None) => Self::Unset,
        }
    }

    /// The state without the value.
    pub(super) fn kind(self) -> ValueState {
        match self {
            Self::Unset => ValueState::Unset,
            Self::Empty => ValueState::Empty,
            Self::Value(_) => ValueState::Value,
            Self::Unknown(_) => ValueState::Unknown,
        }
    }

    /// The value lossily, if there is one.
    pub(super) fn raw(self) -> Option<String> {
        match self {
            Self::Value(variable) => Some(variable.value.lossy().into_owned()),
            Self::Empty => Some(String::new()),
            Self::Unset | Self::Unknown(_) => None,
        }
    }

    /// Hex of the value if it is not UTF-8.
    pub(super) fn raw_hex(self) -> Option<String> {
        self.value().and_then(Text::hex)
    }

    /// The value if it is not empty.
    pub(super) fn value(self) -> Option<&'a Text> {
        match self {
            Self::Value(variable) => Some(&variable.value),
            _ => None,
        }
    }

    /// Whether it is set.
    pub(super) fn is_set(self) -> bool {
        matches!(self, Self::Empty | Self::Value(_))
    }
}

/// Characters of an entry that an answer repeats.
const SHOWN: usize = 80;

/// The entries of a value.
#[derive(Debug)]
pub(super) struct List<'a> {
    /// The entries that are whole.
    pub(super) entries: Vec<&'a [u8]>,
    /// Whether the value was longer than what was kept, so that more entries may follow.
    pub(super) open: bool,
}

impl<'a> List<'a> {
    /// Splits a value. If only its beginning was kept, the last entry is dropped: its
    /// end is missing.
    pub(super) fn of(variable: &'a Variable) -> Self {
        let mut entries: Vec<_> = variable.value.as_bytes().split(|byte| *byte == b',').collect();
        if variable.cut {
            entries.pop();
        }
        Self { entries, open: variable.cut }
    }

    /// The same without an empty last entry, for runtimes that ignore a final comma
    /// (`getline`, `find_first_of` loops).
    pub(super) fn without_final_comma(mut self) -> Self {
        if !self.open && self.entries.len() > 1 && self.entries.last().is_some_and(|last| last.is_empty()) {
            self.entries.pop();
        }
        self
    }

    /// Says that the list ends at this entry, and why.
    pub(super) fn cut(&self, position: usize, code: CutCode, why: impl Into<String>) -> Cut {
        let entry = self.entries.get(position).map(|entry| shown(entry)).unwrap_or_default();
        Cut { entry, position, code, why: why.into() }
    }
}

/// An entry as text for people, at most [`SHOWN`] characters of it.
pub(super) fn shown(entry: &[u8]) -> String {
    let text = String::from_utf8_lossy(entry.get(..SHOWN * 4).unwrap_or(entry));
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.into_owned(),
    }
}

/// An entry without what C calls blanks (`isspace`) around it.
pub(super) fn trimmed(entry: &[u8]) -> &[u8] {
    let blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let start = entry.iter().position(|byte| !blank(byte)).unwrap_or(entry.len());
    let end = entry.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    entry.get(start..end).unwrap_or_default()
}
