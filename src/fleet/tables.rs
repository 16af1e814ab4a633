//! What documents of many nodes have in common, each kept once.

use super::grant::Grants;
use super::words::Words;

/// Words and grants of all nodes.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Words.
    pub(super) words: Words,
    /// What jobs have.
    pub(super) grants: Grants,
}

impl Tables {
    /// The memory that all of it takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.words.bytes() + self.grants.bytes()
    }
}
