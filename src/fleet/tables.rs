//! What documents of many nodes have in common, each kept once.

use super::answer::Grants;
use super::words::Words;

/// Words and grants of all nodes.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Words.
    pub(super) words: Words,
    /// What jobs have.
    pub(super) grants: Grants,
}
