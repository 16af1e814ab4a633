//! The answer of `gpumap node`: the GPUs, then their owners.

use std::io::{self, Write};

use super::{Style, inventory, limits, owner, sets};
use crate::report::{Gpu, OwnerSets, Payload};

/// Prints both tables.
pub fn write(out: &mut dyn Write, style: Style, payload: &Payload) -> io::Result<()> {
    let gpus: Vec<&Gpu> = payload.gpus.iter().flatten().collect();
    let title = match gpus.len() {
        0 => "This node has no GPU".to_owned(),
        1 => "1 GPU".to_owned(),
        count => format!("{count} GPUs"),
    };
    inventory::write(out, style, &title, &gpus)?;
    writeln!(out)?;
    owners(out, style, payload)?;
    if !style.all {
        return Ok(());
    }
    let processes = payload.cgroups.iter().flatten().flat_map(|cgroup| &cgroup.processes);
    limits::section(out, style, &processes.collect::<Vec<_>>(), payload.gpus.as_deref().unwrap_or_default())
}

fn owners(out: &mut dyn Write, style: Style, payload: &Payload) -> io::Result<()> {
    let owners = payload.owners.as_deref().unwrap_or_default();
    let gpus = payload.gpus.as_ref().map_or(0, Vec::len);
    let (shown, folded): (Vec<_>, Vec<_>) =
        sorted(owners).into_iter().partition(|(row, below)| style.all || is_shown(row, below, gpus));
    let shown: Vec<&OwnerSets> = shown.into_iter().map(|(row, _)| row).collect();
    match (shown.as_slice(), folded.is_empty()) {
        ([], true) => writeln!(out, "Nobody is here.")?,
        ([], false) if folded.iter().any(|(row, _)| is_unseen(row, gpus)) => {
            writeln!(out, "No job, container or virtual machine is here.")?
        }
        ([], false) => {
            writeln!(out, "No job, container or virtual machine is here, and nobody holds a GPU.")?
        }
        (shown, _) => sets::write(out, style, shown, payload.gpus.as_deref().unwrap_or_default())?,
    }
    let unseen = folded.iter().filter(|(row, _)| is_unseen(row, gpus)).count();
    match folded.len() - unseen {
        0 => Ok(()),
        1 => writeln!(out, "  1 other owner holds no GPU (-v lists all)"),
        count => writeln!(out, "  {count} other owners hold no GPU (-v lists all)"),
    }?;
    match unseen {
        0 => Ok(()),
        1 => writeln!(out, "  What 1 other owner holds could not be seen (-v lists all)."),
        count => writeln!(out, "  What {count} other owners hold could not be seen (-v lists all)."),
    }
}

/// A row with those below it.
type Row<'a> = (&'a OwnerSets, &'a [OwnerSets]);

/// The rows with everything below each, jobs first; what belongs together
/// stays together.
fn sorted(owners: &[OwnerSets]) -> Vec<Row<'_>> {
    let mut groups: Vec<&[OwnerSets]> = owners.chunk_by(|_, next| next.depth > 0).collect();
    groups.sort_by_key(|group| group.first().map(|top| (owner::rank(&top.owner), top.owner.job_id)));
    groups.into_iter().flat_map(rows).collect()
}

fn rows(group: &[OwnerSets]) -> impl Iterator<Item = Row<'_>> {
    group.iter().enumerate().map(|(index, row)| {
        let rest = group.get(index + 1..).unwrap_or_default();
        let below = rest.iter().take_while(|next| next.depth > row.depth).count();
        (row, rest.get(..below).unwrap_or_default())
    })
}

/// A node has hundreds of services that no program restricts; what they could open
/// is not interesting. Every holder is shown, with the owners around it.
fn is_shown(row: &OwnerSets, below: &[OwnerSets], gpus: usize) -> bool {
    let matters = |row: &OwnerSets| !owner::is_background(&row.owner) || holds(row) && !is_unseen(row, gpus);
    matters(row) || below.iter().any(matters)
}

/// Whether nothing is known of what it holds: it may be any of the node's GPUs.
fn is_unseen(row: &OwnerSets, gpus: usize) -> bool {
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
