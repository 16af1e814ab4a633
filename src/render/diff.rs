//! The answer of `gpumap diff`: the difference of two policies, in the manner of diff(1),
//! and what changed on a node, one line each.

use std::io;
use std::io::Write;

use super::node::cell;
use super::{Style, gpus, names, owner, rules, sanitize};
use crate::model::{GpuKey, Verdict};
use crate::report::{
    Diff, DiffAnswer, Gpu, GpuChange, NodeDiff, OwnerAt, OwnerGpus, PolicyChange, ProgramMove,
};

/// Prints the difference: what changes, then which GPUs that concerns.
pub fn write(out: &mut dyn Write, style: Style, answer: &DiffAnswer) -> io::Result<()> {
    let (diff, inventory) = (&answer.diff, answer.gpus.as_slice());
    writeln!(out, "--- {}", side(&diff.a, diff.a_cgroup.as_deref()))?;
    writeln!(out, "+++ {}", side(&diff.b, diff.b_cgroup.as_deref()))?;
    match &diff.node {
        Some(node) if node.equal && diff.equal => {
            return writeln!(out, "Nothing about device access changed.");
        }
        Some(node) if node.equal && diff.unknown && diff.changes.is_empty() => {
            return writeln!(out, "Nothing that could be seen changed; part of it is unknown.");
        }
        Some(node) => {
            let is_whole = diff.changes.is_empty() && diff.omitted.is_none();
            write_node(out, style, node, inventory, is_whole)?;
        }
        None if diff.equal => return writeln!(out, "The policies are equal."),
        None if diff.unknown && diff.changes.is_empty() && diff.omitted.is_none() => {
            return writeln!(out, "It is not known whether they differ: part of the policies is unknown.");
        }
        None => {}
    }
    for change in &diff.changes {
        let rule = rules::notation(&change.rule);
        writeln!(out, "- {}  {rule}", style.verdict_column(change.from))?;
        writeln!(out, "+ {}  {rule}", style.verdict_column(change.to))?;
    }
    if let Some(omitted) = diff.omitted {
        let count = omitted.questions;
        writeln!(
            out,
            "… and {count} (device, request) pairs that have no short form: ask about them with check"
        )?;
    }
    if diff.unknown {
        writeln!(out, "Part of the policies is unknown: there may be other differences.")?;
    }
    gpu_part(out, diff, inventory)
}

/// A side as it was asked for, with the one cgroup that it means if the name
/// does not say that.
fn side(name: &str, cgroup: Option<&str>) -> String {
    let said = cgroup.filter(|cgroup| !name.ends_with(cgroup));
    let cgroup = said.map(|cgroup| format!(": {} (this cgroup only)", sanitize::text(cgroup)));
    sanitize::text(name).into_owned() + &cgroup.unwrap_or_default()
}

fn gpu_part(out: &mut dyn Write, diff: &Diff, inventory: &[Gpu]) -> io::Result<()> {
    // Of two moments something was lost; of two jobs, one may open what the other may not.
    let is_same = diff.node.is_some() || diff.a_cgroup == diff.b_cgroup;
    let [lost, gained] = match is_same {
        true => ["GPUs lost", "GPUs gained"],
        false => ["GPUs that only the first may open", "GPUs that only the second may open"],
    };
    let unknown = "GPUs unknown on one side";
    let title_of = |gpu: &GpuChange| match (gpu.from, gpu.to) {
        (Verdict::Allow, Verdict::Deny) => lost,
        (Verdict::Deny, Verdict::Allow) => gained,
        _ => unknown,
    };
    for title in [lost, gained, unknown] {
        let changed = diff.gpus.iter().filter(|gpu| title_of(gpu) == title);
        let names: Vec<String> = changed.map(|gpu| gpus::name(&gpu.gpu, inventory)).collect();
        if !names.is_empty() {
            writeln!(out, "{title}: {}", names.join(" "))?;
        }
    }
    Ok(())
}

/// Cgroups named before the rest is counted.
const SHOWN: usize = 3;

/// Prints the changes; `with_rules` unless the rules are printed elsewhere.
pub(super) fn write_node(
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
    let list = |keys: &[GpuKey]| names::set(gpus::key_names(keys, &[], inventory));
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
