//! The node: its GPUs, then who has to do with them.

use std::io::{self, Write};

use super::{Style, inventory, owner, sets};
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
    owners(out, style, payload)
}

fn owners(out: &mut dyn Write, style: Style, payload: &Payload) -> io::Result<()> {
    let owners = payload.owners.as_deref().unwrap_or_default();
    let (shown, folded): (Vec<_>, Vec<_>) =
        sorted(owners).into_iter().partition(|(row, below)| style.all || is_shown(row, below));
    let shown: Vec<&OwnerSets> = shown.into_iter().map(|(row, _)| row).collect();
    match (shown.as_slice(), folded.is_empty()) {
        ([], true) => writeln!(out, "Nobody is here.")?,
        ([], false) if folded.iter().any(|(row, _)| row.held.gpus.is_none()) => {
            writeln!(out, "No job, container or virtual machine is here.")?
        }
        ([], false) => {
            writeln!(out, "No job, container or virtual machine is here, and nobody holds a GPU.")?
        }
        (shown, _) => sets::write(out, style, shown, payload.gpus.as_deref().unwrap_or_default())?,
    }
    let unseen = folded.iter().filter(|(row, _)| row.held.gpus.is_none()).count();
    count(out, folded.len() - unseen, "no GPU")?;
    count(out, unseen, "could not be seen")
}

fn count(out: &mut dyn Write, number: usize, what: &str) -> io::Result<()> {
    let (subject, verb) = if number == 1 { ("owner", "holds") } else { ("owners", "hold") };
    match (number, what) {
        (0, _) => Ok(()),
        (number, "no GPU") => writeln!(out, "  {number} other {subject} {verb} no GPU (-v lists all)"),
        (number, what) => writeln!(out, "  what {number} other {subject} {verb} {what} (-v lists all)"),
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

/// A node has hundreds of services that no program restricts: what they could
/// open is no news. Whoever holds something is shown, with what is around it.
fn is_shown(row: &OwnerSets, below: &[OwnerSets]) -> bool {
    let matters = |row: &OwnerSets| !owner::is_background(&row.owner) || holds(row);
    matters(row) || below.iter().any(matters)
}

fn holds(row: &OwnerSets) -> bool {
    let held = &row.held;
    held.gpus.as_ref().is_some_and(|gpus| !gpus.is_empty())
        || !held.instances.is_empty()
        || (held.gpus.is_some() && !held.unknown.is_empty())
}
