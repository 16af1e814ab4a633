//! Kinds of findings: id, severity and manual page of each, and their look-up by id.

use super::facts::Facts;
use super::findings::FAMILIES;
use crate::model::Severity;
use crate::report::{Finding, FindingKind};

/// One kind of finding.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Stable id in kebab-case.
    pub id: &'static str,
    /// Severity unless the configuration sets another.
    pub severity: Severity,
    /// A short description.
    pub title: &'static str,
    /// The manual's page: what the finding means, how it comes about, when it
    /// is excused, what to do. Empty lines separate paragraphs.
    pub page: &'static str,
}

impl Kind {
    /// The same as an answer documents it.
    #[must_use]
    pub fn document(&self) -> FindingKind {
        FindingKind {
            id: self.id.to_owned(),
            severity: self.severity,
            title: self.title.to_owned(),
            page: self.page.to_owned(),
        }
    }
}

/// The kinds of findings that one file looks for, and the function that does.
pub(super) struct Family {
    pub(super) kinds: &'static [Kind],
    pub(super) find: fn(&Facts<'_>) -> Vec<Finding>,
}

/// All kinds of findings in the order of the manual.
pub fn kinds() -> impl Iterator<Item = &'static Kind> {
    FAMILIES.iter().flat_map(|family| family.kinds)
}

/// The kind with an id.
pub fn kind(id: &str) -> Option<&'static Kind> {
    kinds().find(|kind| kind.id == id)
}

/// Ids that somebody may have meant who wrote `id`.
pub(super) fn close(id: &str) -> Vec<&'static str> {
    let mut near: Vec<_> = kinds().map(|kind| (distance(id, kind), kind.id)).collect();
    near.sort_unstable();
    near.into_iter().filter(|(far, _)| *far <= 3).take(3).map(|(_, id)| id).collect()
}

/// How far a text is from an id: 0 if it is part of it, else the number of typing
/// errors.
fn distance(written: &str, kind: &Kind) -> usize {
    let text: String = written.to_lowercase().chars().take(64).collect();
    let is_word = |word: &str| text.split('-').any(|it| it == word && it.len() > 3);
    if text.len() > 2 && kind.id.contains(&text) || kind.id.split('-').any(is_word) {
        return 0;
    }
    strsim::levenshtein(&text, kind.id)
}
