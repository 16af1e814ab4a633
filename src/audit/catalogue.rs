//! Every finding there is.

use super::facts::Facts;
use crate::model::Severity;
use crate::report::Finding;

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
pub(super) const FAMILIES: &[Family] = &[
    super::absent::FAMILY,
    super::forged::FAMILY,
    super::dropped::FAMILY,
    super::undone::FAMILY,
    super::grants::FAMILY,
    super::holders::FAMILY,
    super::environment::FAMILY,
    super::doors::FAMILY,
    super::instances::FAMILY,
    super::start::FAMILY,
    super::stale::FAMILY,
    super::units::FAMILY,
    super::dynamic::FAMILY,
    super::unloaded::FAMILY,
    super::unknowns::FAMILY,
    super::verified::FAMILY,
];

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

/// How far what was written is from an id: 0 if it is a part of it, else the
/// number of typing errors.
fn distance(written: &str, kind: &Kind) -> usize {
    let written: Vec<char> = written.to_lowercase().chars().take(64).collect();
    let text: String = written.iter().collect();
    let is_word = |word: &str| text.split('-').any(|it| it == word && it.len() > 3);
    if text.len() > 2 && kind.id.contains(&text) || kind.id.split('-').any(is_word) {
        return 0;
    }
    let mut row: Vec<usize> = (0..=written.len()).collect();
    for (index, c) in kind.id.chars().enumerate() {
        let mut next = vec![index + 1];
        for (column, (other, pair)) in written.iter().zip(row.windows(2)).enumerate() {
            let (above_left, above) = (pair.first().copied().unwrap_or(0), pair.last().copied().unwrap_or(0));
            let left = next.get(column).copied().unwrap_or(0);
            next.push((above_left + usize::from(*other != c)).min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or(usize::MAX)
}
