//! Findings of the audit, by id and severity.

use std::collections::BTreeMap;

use super::answers::Answers;
use super::catalogue::{FINDINGS, FINDINGS_IGNORED};
use super::metric::{Family, count};
use crate::model::Severity;

/// Every id has a sample, so that a rule can tell "none" from "not looked for". An id
/// that the configuration gives another severity has one for that, too.
pub(super) fn families(answers: &Answers<'_>) -> Vec<Family> {
    let mut counts: BTreeMap<(&str, Severity), u64> =
        answers.kinds.iter().map(|kind| ((kind.id.as_str(), kind.severity), 0)).collect();
    let findings = answers.audit.findings.as_deref().unwrap_or_default();
    for finding in findings.iter().filter(|finding| finding.ignored.is_none()) {
        *counts.entry((finding.id.as_str(), finding.severity)).or_default() += 1;
    }
    let ignored = findings.iter().filter(|finding| finding.ignored.is_some()).count();
    let one = |((id, severity), number): ((&str, Severity), u64)| {
        (vec![id.to_owned(), severity.to_string()], count(number))
    };
    vec![
        Family::of(FINDINGS, counts.into_iter().map(one)),
        Family::one(FINDINGS_IGNORED, count(ignored as u64)),
    ]
}
