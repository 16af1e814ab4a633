//! Kinds of findings: id, severity and manual page of each.

use super::facts::Facts;
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
