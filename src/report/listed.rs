//! Which owners are listed, and in which order: `node` and `top` list the same ones.

use std::collections::BTreeSet;

use super::{Finding, OwnerSets};
use crate::model::{InOrder as _, Severity};

/// An owner with all that is inside it.
pub(crate) type ListedRow<'a> = (&'a OwnerSets, &'a [OwnerSets]);

/// All owners in the order of a list, each with its place in `owners` and what is
/// inside it: jobs first, and what belongs together stays together.
pub(crate) fn sorted(owners: &[OwnerSets]) -> Vec<(usize, ListedRow<'_>)> {
    let tops = owners.iter().enumerate().filter(|(place, row)| *place == 0 || row.depth == 0);
    let mut tops: Vec<(usize, &OwnerSets)> = tops.collect();
    tops.order_by_key(|(_, top)| (top.owner.rank(), top.owner.job_id));
    let group = |(place, _)| place..=place + below(owners, place).len();
    let places = tops.into_iter().flat_map(group);
    places.filter_map(|place| Some((place, (owners.get(place)?, below(owners, place))))).collect()
}

/// The owners inside of the one at a place.
fn below(owners: &[OwnerSets], place: usize) -> &[OwnerSets] {
    let depth = owners.get(place).map_or(0, |row| row.depth);
    let rest = owners.get(place + 1..).unwrap_or_default();
    let count = rest.iter().take_while(|next| next.depth > depth).count();
    rest.get(..count).unwrap_or_default()
}

/// A node has hundreds of services that no program restricts; what they could open is
/// not interesting. Every holder is shown, and everybody whom something is wrong with, with
/// the owners around it.
pub(crate) fn is_shown(row: &OwnerSets, below: &[OwnerSets], gpus: usize, wrong: &Concerned<'_>) -> bool {
    let matters = |row: &OwnerSets| {
        row.owner.is_workload()
            || holds(row) && !is_unseen(row, gpus)
            || wrong.0.contains(&row.cgroup.as_str())
    };
    matters(row) || below.iter().any(matters)
}

/// The cgroups that findings are about, notes left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Concerned<'a>(BTreeSet<&'a str>);

impl<'a> Concerned<'a> {
    /// The cgroups of these findings.
    pub(crate) fn of(findings: &'a [Finding]) -> Self {
        let serious = findings.iter().filter(|one| one.ignored.is_none() && one.severity > Severity::Note);
        Self(serious.filter_map(|one| one.cgroup.as_deref()).collect())
    }
}

/// Whether nothing is known of what it holds: it may be any of the node's GPUs.
pub(crate) fn is_unseen(row: &OwnerSets, gpus: usize) -> bool {
    let held = &row.held;
    let is_any = gpus > 0 && held.unknown.len() >= gpus && held.instances.is_empty();
    held.gpus.as_ref().is_none_or(|certain| certain.is_empty() && is_any)
}

fn holds(row: &OwnerSets) -> bool {
    let held = &row.held;
    held.gpus.as_ref().is_some_and(|gpus| !gpus.is_empty())
        || !held.instances.is_empty()
        || (held.gpus.is_some() && !held.unknown.is_empty())
}
