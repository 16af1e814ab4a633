//! Words that many nodes have in common, each kept once.

use std::collections::HashMap;
use std::rc::Rc;

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
