//! Bounds of memory: what a document may have of anything, why one is refused, and the
//! words that many nodes have in common, each kept once.
//!
//! Observations are read whole and analysed, which takes many times the memory of their
//! text: three bytes can be a row of a table.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::error::Category;

use crate::observation::{Observation, Weight};

/// GPUs of a node.
pub(super) const GPUS: usize = 1024;

/// GPUs and instances of a set.
pub(super) const SET: usize = 16 * GPUS;

/// Cgroups, programs and problems of a node.
pub(super) const MANY: usize = 1 << 18;

/// Owners of a node.
pub(super) const OWNERS: usize = 1 << 16;

/// Devices in the sets of all owners of a node, each as often as it stands there: 10,000
/// owners with all of 16 GPUs of seven instances in each of four sets have five million.
pub(super) const CELLS: usize = 1 << 23;

/// Findings of a node: more than a node with a finding for each of 50 jobs and
/// 5000 cgroups.
pub(super) const FINDINGS: usize = 1 << 14;

/// Drivers, kinds of owners, shapes of programs and codes of problems of a node.
pub(super) const KINDS: usize = 256;

/// Why a document cannot be used.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is no JSON, or not what its schema says.
    Json(serde_json::Error),
    /// Something else.
    Why(String),
}

impl From<serde_json::Error> for Refusal {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

impl Refusal {
    /// With a text of gpumap's own.
    pub(super) fn why(text: impl Into<String>) -> Self {
        Self::Why(text.into())
    }

    /// The reason, for people.
    pub(super) fn text(self) -> String {
        match self {
            Self::Json(error) if error.classify() == Category::Eof => "it is cut off".to_owned(),
            Self::Json(error) => format!("it is broken: {}", cut(&error.to_string())),
            Self::Why(why) => why,
        }
    }
}

/// Objects and lists of an observation. A node of 5000 cgroups and 2000 processes has some
/// 150,000.
const OBJECTS: usize = 1 << 19;

/// Their members and elements, of which a list of numbers or words has nothing else.
const MEMBERS: usize = 1 << 21;

/// Cells of the table of GPUs by cgroups and processes: some 200 bytes each. 7000 cgroups
/// and processes with 16 GPUs have 420,000.
const TABLE_CELLS: usize = if cfg!(test) { 1 << 14 } else { 1 << 21 };

/// Refuses the text of an observation that has more of something than a node has.
pub(super) fn check_text(json: &[u8]) -> Result<(), Refusal> {
    let weight = Weight::of(json);
    if weight.objects > OBJECTS || weight.members > MEMBERS {
        return Err(Refusal::why("it has more parts than an observation of a node"));
    }
    Ok(())
}

/// Refuses an observation that asks for more work than a node does.
pub(super) fn check(observation: &Observation) -> Result<(), Refusal> {
    let instead = "give fleet the node's own answers: gpumap node --json --compact, audit --json";
    match observation.excess_of(TABLE_CELLS) {
        Some(why) => Err(Refusal::why(format!("{why}; {instead}"))),
        None => observation.excess().map_or(Ok(()), |why| Err(Refusal::why(why))),
    }
}

/// The longest word that is kept whole.
const LONGEST: usize = 200;

/// What a word takes beside its text: counts, places in the table and in the list.
const OVERHEAD: usize = 80;

/// A number for every word.
#[derive(Debug, Default)]
pub(super) struct Words {
    numbers: HashMap<Rc<str>, Word>,
    all: Vec<Rc<str>>,
    bytes: usize,
}

/// The number of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Word(u32);

impl Words {
    /// The number of a word. Of a long one only the beginning is kept, with `…`.
    pub(super) fn number(&mut self, word: &str) -> Word {
        let word = cut(word);
        if let Some(number) = self.numbers.get(word.as_ref()) {
            return *number;
        }
        let number = Word(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        let word: Rc<str> = Rc::from(word.as_ref());
        self.bytes += word.len() + OVERHEAD;
        self.all.push(Rc::clone(&word));
        self.numbers.insert(word, number);
        number
    }

    /// The memory that all words take, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The word with a number.
    pub(super) fn get(&self, number: Word) -> &str {
        usize::try_from(number.0).ok().and_then(|at| self.all.get(at)).map_or("", |word| word)
    }
}

/// The beginning of a long text.
pub(super) fn cut(text: &str) -> std::borrow::Cow<'_, str> {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that parts are counted outside of strings, and that too many are refused.
    #[test]
    fn texts() {
        let strings = format!("[\"{}\",\"\\\"{}\"]", "[,".repeat(MEMBERS), "{,".repeat(MEMBERS));
        assert!(check_text(strings.as_bytes()).is_ok());
        let lists = format!("[{}1]", "[],".repeat(OBJECTS + 1));
        let numbers = format!("[{}1]", "1,".repeat(MEMBERS + 1));
        for text in [lists, numbers] {
            assert!(check_text(text.as_bytes()).is_err());
            assert!(check_text(&text.as_bytes()[..text.len() / 2]).is_ok());
        }
        assert!(check_text(b"\"\\").is_ok() && check_text(b"\"").is_ok() && check_text(b"").is_ok());
    }
}
