//! What metrics are made of: the answers of other commands.

use crate::report::{AuditAnswer, Document, FindingKind, NodeAnswer};

/// What metrics are made of.
#[derive(Clone, Copy, Debug)]
pub struct Answers<'a> {
    /// The answer of `node`.
    pub node: &'a Document<NodeAnswer>,
    /// The answer of `audit` for the same facts.
    pub audit: &'a AuditAnswer,
    /// Every kind of finding, so that those that were not found are 0.
    pub kinds: &'a [FindingKind],
    /// How long it took to observe and to analyse, in seconds; `None` for a saved
    /// node.
    pub duration: Option<f64>,
    /// How many owners have samples of their own at most.
    pub owner_limit: usize,
}
