//! One finding: what is wrong, the evidence, what to do.

use std::io::{self, Write};

use super::{Style, owner, process_facts, sanitize, wrap};
use crate::model::Confidence;
use crate::model::Owner;
use crate::report::{Decision, Finding, FindingDevice, FindingProcess};

/// The column at which the text of a line begins.
const INDENT: usize = 13;
/// Entries of a kind that are shown before the rest is counted.
const SHOWN: usize = 6;

/// Prints it.
pub(super) fn write(out: &mut dyn Write, style: Style, finding: &Finding) -> io::Result<()> {
    let (severity, id) = (finding.severity, sanitize::text(&finding.id));
    let head = format!("{} {id}  ", style.severity(severity));
    wrap::write(out, &head, 2, usize::from(style.width), &finding.summary)?;
    if let Some(reason) = &finding.ignored {
        return lines(out, style, "ignored", [reason.clone()]);
    }
    lines(out, style, "where", place(finding))?;
    lines(out, style, "with", finding.others.iter().map(whose))?;
    lines(out, style, "device", finding.devices.iter().map(device))?;
    lines(out, style, "process", finding.processes.iter().map(process))?;
    // The line above has the cgroup's path whole, to be copied.
    let short = |text: &String| if style.all { text.clone() } else { owner::with_short_ids(text) };
    lines(out, style, "because", finding.evidence.iter().map(short))?;
    lines(out, style, "decided", finding.programs.iter().map(decision).map(|text| short(&text)))?;
    lines(out, style, "ruled out", finding.excuses.iter().map(short))?;
    let sure = Some(finding.confidence).filter(|it| *it != Confidence::Certain).map(|it| it.to_string());
    lines(out, style, "certainty", sure)?;
    lines(out, style, "do", Some(finding.advice.clone()).filter(|advice| !advice.is_empty()))?;
    // Whole, to be copied.
    finding.command.iter().try_for_each(|line| writeln!(out, "  {:<11}{}", "run", sanitize::text(line)))
}

fn lines(
    out: &mut dyn Write,
    style: Style,
    name: &str,
    entries: impl IntoIterator<Item = String>,
) -> io::Result<()> {
    let entries: Vec<String> = entries.into_iter().collect();
    let shown = if style.all { entries.len() } else { SHOWN };
    let more = entries.len().saturating_sub(shown);
    let rest = (more > 0).then(|| format!("… and {more} more (-v lists all)"));
    for (index, text) in entries.iter().take(shown).chain(&rest).enumerate() {
        let name = if index == 0 { name } else { "" };
        let first = format!("  {name:<11}");
        // A continued line is indented more than the next entry.
        wrap::write(out, &first, INDENT + 2, usize::from(style.width), text)?;
    }
    Ok(())
}

/// The cgroup. Its owner comes first, unless the owner's name is that of the cgroup.
fn place(finding: &Finding) -> Option<String> {
    let whose = finding.owner.as_ref().map(whose);
    let path = finding.cgroup.as_deref().map(|path| sanitize::with_hex(path, finding.cgroup_hex.as_deref()));
    match (whose, path) {
        (Some(whose), Some(path)) => Some(format!("{whose}: {path}")),
        (Some(whose), None) => Some(whose),
        (None, path) => path.map(|path| path.into_owned()),
    }
}

fn whose(owner: &Owner) -> String {
    let outer = owner.outer.as_deref().map(|outer| format!(" in {}", whose(outer))).unwrap_or_default();
    format!("{}{outer}", owner::full(owner))
}

/// A device in every index space.
pub(super) fn device(device: &FindingDevice) -> String {
    let index = device.nvml_index.map(|index| format!("NVML {index}"));
    let shown = |key: &str| {
        let number = device.number.as_deref().and_then(|number| number.split_once(' '));
        number.is_some_and(|(_, digits)| digits == key) || device.pci.as_deref() == Some(key)
    };
    let key = device.gpu.clone().filter(|key| !shown(key));
    let parts = [device.name.clone(), device.number.clone(), device.pci.clone(), index, key];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A process on one line.
pub(super) fn process(process: &FindingProcess) -> String {
    let comm = sanitize::short(&process.comm, 24, "…");
    let user = match &process.user {
        Some(name) => format!("user {}", process_facts::named(&sanitize::short(name, 24, "…"))),
        None => format!("uid {}", process.uid),
    };
    let state = process.state.as_ref().filter(|state| !state.is_usual()).map(|state| format!(", {state}"));
    let age = process.age_seconds.map(|seconds| format!(" ({} old)", process_facts::age(seconds)));
    let started = process.started_at.as_deref().map(|at| format!(", started {}", sanitize::text(at)));
    let parts = [state, started, age].into_iter().flatten().collect::<String>();
    format!("{} {comm}, {user}{parts}", process.pid)
}

fn decision(decision: &Decision) -> String {
    let Decision { id, name, attached_at, returns, decided_at } = decision;
    let name = if name.is_empty() { String::new() } else { format!(" {}", sanitize::short(name, 24, "…")) };
    let place = if attached_at.is_empty() { String::new() } else { format!(" at {attached_at}") };
    let at = decided_at.map(|slot| format!(", by instruction {slot}")).unwrap_or_default();
    format!("program {id}{name}{place} returns {returns}{at}")
}
