//! The difference of two policies, in the manner of diff(1).

use std::io::{self, Write};

use super::{Style, gpu_names, node_diff, rules, sanitize};
use crate::model::Verdict;
use crate::report::{Diff, GpuChange, Payload};

/// Prints the difference: what changes, then which GPUs that concerns.
pub fn write(out: &mut dyn Write, style: Style, payload: &Payload) -> io::Result<()> {
    payload.diff.iter().try_for_each(|diff| one(out, style, diff, payload))
}

fn one(out: &mut dyn Write, style: Style, diff: &Diff, payload: &Payload) -> io::Result<()> {
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
            let inventory = payload.gpus.as_deref().unwrap_or_default();
            node_diff::write(out, style, node, inventory, is_whole)?;
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
    gpu_part(out, diff, payload)
}

/// A side as it was asked for, with the one cgroup that it means if the name
/// does not say that.
fn side(name: &str, cgroup: Option<&str>) -> String {
    let said = cgroup.filter(|cgroup| !name.ends_with(cgroup));
    let cgroup = said.map(|cgroup| format!(": {} alone", sanitize::text(cgroup)));
    sanitize::text(name).into_owned() + &cgroup.unwrap_or_default()
}

fn gpu_part(out: &mut dyn Write, diff: &Diff, payload: &Payload) -> io::Result<()> {
    let inventory = payload.gpus.as_deref().unwrap_or_default();
    for title in ["GPUs lost", "GPUs gained", "GPUs unknown on one side"] {
        let changed = diff.gpus.iter().filter(|gpu| heading(gpu) == title);
        let names: Vec<String> = changed.map(|gpu| gpu_names::name(&gpu.gpu, inventory)).collect();
        if !names.is_empty() {
            writeln!(out, "{title}: {}", names.join(" "))?;
        }
    }
    Ok(())
}

fn heading(gpu: &GpuChange) -> &'static str {
    match (gpu.from, gpu.to) {
        (Verdict::Allow, Verdict::Deny) => "GPUs lost",
        (Verdict::Deny, Verdict::Allow) => "GPUs gained",
        _ => "GPUs unknown on one side",
    }
}
