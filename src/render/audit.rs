//! The answers of `gpumap audit`: findings with their evidence, one line of what was looked
//! at, and the documentation of findings (`--list`, `--explain`).

use std::io;
use std::io::Write;

use super::names::counted;
use super::table::{Last, Table};
use super::{Style, names, owner, process, sanitize, wrap};
use crate::model::{Confidence, GpuKey, Owner};
use crate::report::{
    Audit, AuditAnswer, Counts, Decision, Finding, FindingDevice, FindingProcess, KindsAnswer,
};

/// Findings that `gpumap repair` mends.
const LOST: [&str; 1] = ["access-lost"];

/// Prints them. `complete` is whether everything was seen.
pub fn write(out: &mut dyn Write, style: Style, answer: &AuditAnswer, complete: bool) -> io::Result<()> {
    let (findings, audit) = (&answer.findings, &answer.audit);
    let shown: Vec<&Finding> = findings.iter().filter(|it| style.all || it.ignored.is_none()).collect();
    if shown.len() > 1 {
        overview(out, style, &shown)?;
    }
    for finding in &shown {
        write_finding(out, style, finding)?;
        writeln!(out)?;
    }
    let total = audit.counts.critical + audit.counts.warning + audit.counts.note;
    let found = if total == 0 { none(audit) } else { format!("{}.", counts(audit.counts)) };
    let seen = if complete { "" } else { " Not everything could be seen." };
    let line = format!("{found} Looked at {}.{seen}", looked_at(audit));
    wrap::write(out, "", 2, usize::from(style.width), &line)?;
    remarks(out, style, audit)
}

/// Prints a line for each finding, before the evidence: how grave it is, and whose.
fn overview(out: &mut dyn Write, style: Style, findings: &[&Finding]) -> io::Result<()> {
    let severity = |finding: &Finding| match finding.ignored {
        Some(_) => "ignored".to_owned(),
        None => finding.severity.to_string().to_uppercase(),
    };
    Table::of(findings)
        .text("SEVERITY", |finding| severity(finding))
        .text("FINDING", |finding| sanitize::text(&finding.id).into_owned())
        .text("DEVICE", |finding| devices(finding))
        .text("OF", |finding| about(finding))
        .write(out, style, Last::Wraps)?;
    writeln!(out)
}

/// The devices of a finding, by name: `nvidia1,2`.
fn devices(finding: &Finding) -> String {
    let names = finding.devices.iter().filter_map(|device| device.name.clone().or(device.number.clone()));
    let names: Vec<String> = names.map(|name| sanitize::text(&name).into_owned()).collect();
    if names.is_empty() { "-".to_owned() } else { sanitize::short(&names::set(names), 24, "…") }
}

/// Whose a finding is: an owner's, else a cgroup's, else the node's.
fn about(finding: &Finding) -> String {
    let path = || finding.cgroup.as_deref().map(|path| sanitize::short(path, 60, "…"));
    let whose = finding.owner.as_ref().map(|owner| whose(&owner.identity()));
    whose.or_else(path).unwrap_or_else(|| "the node".to_owned())
}

/// Prints how many findings there are and the command that tells them; nothing where there
/// is none. Notes, which say that isolation holds, are left out.
pub fn in_short(out: &mut dyn Write, style: Style, answer: &AuditAnswer) -> io::Result<()> {
    let serious = Counts { note: 0, ..answer.audit.counts };
    if serious == Counts::default() {
        return Ok(());
    }
    let mut line = format!("{}: gpumap audit", counts(serious));
    let lost =
        answer.findings.iter().filter(|one| one.ignored.is_none() && LOST.contains(&one.id.as_str())).count();
    if lost > 0 {
        line += "; GPU access was lost: gpumap repair";
    }
    writeln!(out)?;
    wrap::write(out, "", 2, usize::from(style.width), &line)
}

fn none(audit: &Audit) -> String {
    if audit.known > 0 { "No new finding." } else { "No finding." }.to_owned()
}

/// `1 critical finding, 2 warnings, 1 note`; severities without a finding are left
/// out.
fn counts(counts: Counts) -> String {
    let parts = [(counts.critical, "critical finding"), (counts.warning, "warning"), (counts.note, "note")];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    parts.map(|(count, what)| counted(count, what)).collect::<Vec<_>>().join(", ")
}

fn looked_at(audit: &Audit) -> String {
    let checked = audit.checked;
    let tenants = match checked.tenants {
        1 => "1 job or container".to_owned(),
        count => format!("{count} jobs or containers"),
    };
    let processes = match checked.processes {
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    };
    let (cgroups, gpus) = (counted(checked.cgroups, "cgroup"), counted(checked.gpus, "GPU"));
    format!("{cgroups}, {tenants}, {processes}, {gpus}")
}

fn remarks(out: &mut dyn Write, style: Style, audit: &Audit) -> io::Result<()> {
    if audit.ignored > 0 && !style.all {
        writeln!(out, "{} ignored by the configuration (-v shows).", counted(audit.ignored, "finding"))?;
    }
    if audit.known > 0 || !audit.fixed.is_empty() {
        let gone = audit.fixed.len();
        writeln!(
            out,
            "Since the baseline: {} still there (not listed), {gone} gone.",
            counted(audit.known, "finding")
        )?;
    }
    for fixed in &audit.fixed {
        let (id, summary) = (sanitize::text(&fixed.id), sanitize::text(&fixed.summary));
        let line = format!("gone: {id}: {summary}");
        wrap::write(out, "  ", 4, usize::from(style.width), &line)?;
    }
    let width = usize::from(style.width);
    let line = |remark: &String| format!("Remark: {remark}.");
    audit.remarks.iter().try_for_each(|remark| wrap::write(out, "", 2, width, &line(remark)))
}

/// The column at which the text of a line begins.
const INDENT: usize = 13;
/// Entries of a kind that are shown before the rest is counted.
const SHOWN: usize = 6;

/// Prints it.
pub(super) fn write_finding(out: &mut dyn Write, style: Style, finding: &Finding) -> io::Result<()> {
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
    let key = device.gpu.as_ref().filter(|key| !shown(key)).map(GpuKey::to_string);
    let parts = [device.name.clone(), device.number.clone(), device.pci.clone(), index, key];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A process on one line.
pub(super) fn process(process: &FindingProcess) -> String {
    let comm = sanitize::short(&process.comm, 24, "…");
    let user = match &process.user {
        Some(name) => format!("user {}", process::named(&sanitize::short(name, 24, "…"))),
        None => format!("uid {}", process.uid),
    };
    let state = process.state.as_ref().filter(|state| !state.is_usual()).map(|state| format!(", {state}"));
    let age = process.age_seconds.map(|seconds| format!(" ({} old)", process::age(seconds)));
    let started = process.started_at.as_ref().map(|at| format!(", started {}", sanitize::text(at.as_str())));
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

/// Prints ids, severities and titles.
pub fn list(out: &mut dyn Write, style: Style, answer: &KindsAnswer) -> io::Result<()> {
    Table::of(&answer.kinds)
        .text("ID", |kind| kind.id.clone())
        .text("SEVERITY", |kind| kind.severity.to_string())
        .text("WHAT", |kind| kind.title.clone())
        .write(out, style, Last::Wraps)
}

/// Prints pages.
pub fn write_page(out: &mut dyn Write, style: Style, answer: &KindsAnswer) -> io::Result<()> {
    let width = usize::from(style.width).min(100);
    for kind in &answer.kinds {
        let head = format!("{} {}  ", style.severity(kind.severity), kind.id);
        wrap::write(out, &head, 2, width, &kind.title)?;
        for paragraph in kind.page.split("\n\n") {
            writeln!(out)?;
            let text = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
            wrap::write(out, "  ", 2, width, &text)?;
        }
    }
    Ok(())
}
