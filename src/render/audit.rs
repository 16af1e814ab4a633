//! The answer of `gpumap audit`: its findings, then one line of what was looked at.

use std::io::{self, Write};

use super::counted::counted;
use super::{Style, finding, sanitize, wrap};
use crate::report::{Audit, Counts, Finding, Payload};

/// Findings that `gpumap repair` mends.
const LOST: [&str; 1] = ["access-lost"];

/// Prints them. `complete` is whether everything was seen.
pub fn write(out: &mut dyn Write, style: Style, payload: &Payload, complete: bool) -> io::Result<()> {
    let findings = payload.findings.as_deref().unwrap_or_default();
    let audit = payload.audit.clone().unwrap_or_default();
    let shown: Vec<&Finding> = findings.iter().filter(|it| style.all || it.ignored.is_none()).collect();
    for finding in &shown {
        finding::write(out, style, finding)?;
        writeln!(out)?;
    }
    let total = audit.counts.critical + audit.counts.warning + audit.counts.note;
    let found = if total == 0 { none(&audit) } else { format!("{}.", counts(audit.counts)) };
    let seen = if complete { "" } else { " Not everything could be seen." };
    let line = format!("{found} Looked at {}.{seen}", looked_at(&audit));
    wrap::write(out, "", 2, usize::from(style.width), &line)?;
    remarks(out, style, &audit)
}

/// Prints how many findings there are and the command that tells them; nothing where there
/// is none. Notes, which say that isolation holds, are left out.
pub fn in_short(out: &mut dyn Write, style: Style, payload: &Payload) -> io::Result<()> {
    let audit = payload.audit.clone().unwrap_or_default();
    let serious = Counts { note: 0, ..audit.counts };
    if serious == Counts::default() {
        return Ok(());
    }
    let mut line = format!("{}: gpumap audit", counts(serious));
    let findings = payload.findings.iter().flatten();
    let lost = findings.filter(|one| one.ignored.is_none() && LOST.contains(&one.id.as_str())).count();
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
