//! Every finding there is.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::facts::Facts;
use crate::report::Finding;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; isolation holds.
    Note,
    /// Something does not work as somebody expects.
    Warning,
    /// Isolation does not hold.
    Critical,
}

/// One kind of finding.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Stable id in kebab-case.
    pub id: &'static str,
    /// Severity unless the configuration says otherwise.
    pub severity: Severity,
    /// What it is, a few words.
    pub title: &'static str,
    /// The page of the manual: what it means, how it comes about, what excuses
    /// it, what to do. Paragraphs separated by empty lines.
    pub page: &'static str,
}

/// Findings that one file looks for.
pub(super) struct Family {
    pub(super) kinds: &'static [Kind],
    pub(super) find: fn(&mut Facts<'_>) -> Vec<Finding>,
}

/// The families in the order of the manual.
pub(super) const FAMILIES: &[Family] = &[super::units::FAMILY, super::verified::FAMILY];

/// All kinds of findings in the order of the manual.
pub fn kinds() -> impl Iterator<Item = &'static Kind> {
    FAMILIES.iter().flat_map(|family| family.kinds)
}

/// The kind with an id.
pub fn kind(id: &str) -> Option<&'static Kind> {
    kinds().find(|kind| kind.id == id)
}

impl Severity {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
