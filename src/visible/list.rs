//! Splits a value into the entries between its commas. The value is bytes and need
//! not be text.

use crate::model::CutCode;
use crate::observation::Variable;
use crate::report::Cut;

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
