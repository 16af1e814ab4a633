//! The answer of `gpumap node`: the GPUs, then their owners.

use std::io::{self, Write};

use super::{Style, inventory, limits, sets};
use crate::report::listed::{self, ListedRow};
use crate::report::{Gpu, OwnerSets, Payload};

/// Prints both tables.
pub fn write(out: &mut dyn Write, style: Style, payload: &Payload) -> io::Result<()> {
    let gpus: Vec<&Gpu> = payload.gpus.iter().flatten().collect();
    let title = match gpus.len() {
        0 => inventory::none(payload).to_owned(),
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
        sorted(owners).into_iter().partition(|(row, below)| style.all || listed::is_shown(row, below, gpus));
    let shown: Vec<&OwnerSets> = shown.into_iter().map(|(row, _)| row).collect();
    match (shown.as_slice(), folded.is_empty()) {
        ([], true) => writeln!(out, "Nobody is here.")?,
        ([], false) if folded.iter().any(|(row, _)| listed::is_unseen(row, gpus)) => {
            writeln!(out, "No job, container or virtual machine is here.")?
        }
        ([], false) => {
            writeln!(out, "No job, container or virtual machine is here, and nobody holds a GPU.")?
        }
        (shown, _) => sets::write(out, style, shown, payload.gpus.as_deref().unwrap_or_default())?,
    }
    let unseen = folded.iter().filter(|(row, _)| listed::is_unseen(row, gpus)).count();
    left_out(out, folded.len() - unseen, unseen)
}

/// Says how many owners are not listed, and of how many nobody knows what they hold.
pub(super) fn left_out(out: &mut dyn Write, idle: usize, unseen: usize) -> io::Result<()> {
    match idle {
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

/// The rows with everything below each; what belongs together stays together.
fn sorted(owners: &[OwnerSets]) -> Vec<ListedRow<'_>> {
    listed::sorted(owners).into_iter().map(|(_, row)| row).collect()
}
