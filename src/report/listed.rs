//! Which owners are listed, and in which order: `node` and `top` list the same ones.

use super::OwnerSets;

/// An owner with all that is inside it.
pub(crate) type ListedRow<'a> = (&'a OwnerSets, &'a [OwnerSets]);

/// The groups of owners that belong together, jobs first.
pub(crate) fn sorted(owners: &[OwnerSets]) -> Vec<&[OwnerSets]> {
    let mut groups: Vec<&[OwnerSets]> = owners.chunk_by(|_, next| next.depth > 0).collect();
    groups.sort_by_key(|group| group.first().map(|top| (top.owner.rank(), top.owner.job_id)));
    groups
}

/// The owners of a group, each with what is inside it.
pub(crate) fn with_below(group: &[OwnerSets]) -> impl Iterator<Item = ListedRow<'_>> {
    group.iter().enumerate().map(|(index, row)| {
        let rest = group.get(index + 1..).unwrap_or_default();
        let below = rest.iter().take_while(|next| next.depth > row.depth).count();
        (row, rest.get(..below).unwrap_or_default())
    })
}

/// A node has hundreds of services that no program restricts; what they could open is
/// not interesting. Every holder is shown, with the owners around it.
pub(crate) fn is_shown(row: &OwnerSets, below: &[OwnerSets], gpus: usize) -> bool {
    let matters = |row: &OwnerSets| row.owner.is_workload() || holds(row) && !is_unseen(row, gpus);
    matters(row) || below.iter().any(matters)
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
