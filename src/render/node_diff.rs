//! Prints what changed on a node, one line each.

use std::io::{self, Write};

use super::sets::cell;
use super::{Style, gpu_names, names, owner, rules, sanitize};
use crate::report::{Gpu, NodeDiff, OwnerAt, OwnerGpus, PolicyChange, ProgramMove};

/// Cgroups named before the rest is counted.
const SHOWN: usize = 3;

/// Prints the changes; `with_rules` unless the rules are printed elsewhere.
pub(super) fn write(
    out: &mut dyn Write,
    style: Style,
    diff: &NodeDiff,
    inventory: &[Gpu],
    with_rules: bool,
) -> io::Result<()> {
    if diff.rebooted {
        writeln!(out, "The node was started anew in between.")?;
    }
    diff.gone.iter().try_for_each(|it| writeln!(out, "- {}", at(it)))?;
    diff.come.iter().try_for_each(|it| writeln!(out, "+ {}", at(it)))?;
    for change in &diff.gpus {
        writeln!(out, "{}{}", flipped(change, inventory), cause(change, diff))?;
    }
    for change in &diff.allocations {
        let (from, to) = (cell(&change.from, &[], inventory), cell(&change.to, &[], inventory));
        writeln!(out, "{} was allocated {from}, now {to}", owner::full(&change.owner))?;
    }
    let told = |moved: &&ProgramMove| !diff.gpus.iter().any(|change| is_cause(change, moved));
    diff.programs.iter().filter(told).try_for_each(|moved| writeln!(out, "{}", programs(moved)))?;
    if with_rules {
        diff.policies.iter().try_for_each(|change| policy(out, style, change))?;
    }
    Ok(())
}

fn at(it: &OwnerAt) -> String {
    format!("{}  {}", owner::full(&it.owner), sanitize::text(&it.cgroup))
}

/// `unit a.scope may not open nvidia1 any more`.
fn flipped(change: &OwnerGpus, inventory: &[Gpu]) -> String {
    let list = |keys: &[String]| names::set(gpu_names::key_names(keys, &[], inventory));
    let lost = (!change.lost.is_empty()).then(|| format!("lost {}", list(&change.lost)));
    let gained = (!change.gained.is_empty()).then(|| format!("gained {}", list(&change.gained)));
    let unknown = (!change.unknown.is_empty())
        .then(|| format!("is unknown on one side about {}", list(&change.unknown)));
    let what: Vec<String> = [lost, gained, unknown].into_iter().flatten().collect();
    format!("{} {}", owner::full(&change.owner), what.join(" and "))
}

/// Why, if a program came or went at the owner's own cgroup.
fn cause(change: &OwnerGpus, diff: &NodeDiff) -> String {
    let moved = diff.programs.iter().find(|moved| is_cause(change, moved));
    moved.map(|moved| format!(": {}", programs(moved))).unwrap_or_default()
}

fn is_cause(change: &OwnerGpus, moved: &ProgramMove) -> bool {
    change.cgroup == moved.cgroup
}

fn programs(moved: &ProgramMove) -> String {
    let ids = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let attached =
        (!moved.attached.is_empty()).then(|| format!("program {} attached to", ids(&moved.attached)));
    let gone = (!moved.gone.is_empty()).then(|| format!("program {} gone from", ids(&moved.gone)));
    let what: Vec<String> = [gone, attached].into_iter().flatten().collect();
    format!("{} {}", what.join(", "), sanitize::text(&moved.cgroup))
}

fn policy(out: &mut dyn Write, style: Style, change: &PolicyChange) -> io::Result<()> {
    for path in change.cgroups.iter().take(SHOWN) {
        writeln!(out, "@@ {}", sanitize::text(path))?;
    }
    if let Some(more) = change.cgroups.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        writeln!(out, "@@ … and {more} more")?;
    }
    for region in &change.changes {
        let rule = rules::notation(&region.rule);
        writeln!(out, "- {}  {rule}", style.verdict_column(region.from))?;
        writeln!(out, "+ {}  {rule}", style.verdict_column(region.to))?;
    }
    match change.omitted {
        Some(omitted) => writeln!(out, "… and {} more (device, request) pairs", omitted.questions),
        None => Ok(()),
    }
}
