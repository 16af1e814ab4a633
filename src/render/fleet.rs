//! The answer of `gpumap fleet`: findings, jobs, differences, what is missing.

use std::io::{self, Write};

use super::names::counted;
use super::{Style, sanitize, wrap};
use crate::report::{Drift, Fleet, FleetAnswer, FleetFinding, FleetProblem, JobDifference, NodeSet};

/// Characters of a host list that are shown.
const LIST: usize = 60;
/// Characters of a value that are shown.
const VALUE: usize = 100;
/// Jobs, and values of a property, that are shown before the rest is counted.
const SHOWN: usize = 10;

/// Prints the report.
pub fn write(out: &mut dyn Write, style: Style, answer: &FleetAnswer) -> io::Result<()> {
    let fleet = &answer.fleet;
    for finding in &fleet.findings {
        self::finding(out, style, finding)?;
    }
    if !fleet.findings.is_empty() {
        writeln!(out)?;
    }
    jobs(out, style, fleet)?;
    drift(out, style, fleet)?;
    problems(out, style, fleet)?;
    totals(out, style, fleet)
}

fn finding(out: &mut dyn Write, style: Style, finding: &FleetFinding) -> io::Result<()> {
    let owner = finding.owner.as_ref().map(|kind| format!(" of {kind}")).unwrap_or_default();
    let first =
        format!("{} {}  ", style.severity(finding.severity), sanitize::short(&finding.id, VALUE, "…"));
    let text = format!("{}{owner} on {}", counted(finding.count, "finding"), set(style, &finding.on));
    wrap::write(out, &first, 2, usize::from(style.width), &text)?;
    let example = format!("{}: {}", finding.example_on, finding.example);
    wrap::write(out, "  ", 4, usize::from(style.width), &example)
}

fn jobs(out: &mut dyn Write, style: Style, fleet: &Fleet) -> io::Result<()> {
    let differing = &fleet.jobs.differing;
    if differing.is_empty() {
        return Ok(());
    }
    writeln!(out, "JOBS whose GPUs are not alike on all their nodes")?;
    let shown = if style.all { differing.len() } else { SHOWN };
    differing.iter().take(shown).try_for_each(|job| self::job(out, style, job))?;
    more(out, differing.len().saturating_sub(shown))?;
    writeln!(out)
}

fn job(out: &mut dyn Write, style: Style, job: &JobDifference) -> io::Result<()> {
    wrap::write(out, "  ", 4, usize::from(style.width), &format!("{}, {}:", job.job, job.set))?;
    job.grants.iter().enumerate().try_for_each(|(index, grant)| {
        let compared = if index == 0 { String::new() } else { format!("{}: ", grant.compared) };
        let numbers = if grant.numbers.is_empty() { String::new() } else { format!(" ({})", grant.numbers) };
        let text = format!("{compared}{}{numbers} on {}", grant.gpus, set(style, &grant.on));
        wrap::write(out, "    ", 6, usize::from(style.width), &text)
    })
}

fn drift(out: &mut dyn Write, style: Style, fleet: &Fleet) -> io::Result<()> {
    let (same, different): (Vec<&Drift>, Vec<&Drift>) =
        fleet.drift.iter().partition(|drift| drift.values.len() < 2);
    if !different.is_empty() {
        writeln!(out, "NODES differ in")?;
    }
    different.iter().try_for_each(|drift| property(out, style, drift))?;
    if style.all {
        same.iter().try_for_each(|drift| property(out, style, drift))?;
    } else if !same.is_empty() && fleet.nodes.answered.count > 1 {
        let names: Vec<String> = same.iter().map(|drift| drift.what.clone()).collect();
        let text = format!("All nodes that tell are alike in {} (-v shows).", names.join(", "));
        wrap::write(out, "", 2, usize::from(style.width), &text)?;
    } else if different.is_empty() {
        return Ok(());
    }
    if fleet.drift.is_empty() { Ok(()) } else { writeln!(out) }
}

fn property(out: &mut dyn Write, style: Style, drift: &Drift) -> io::Result<()> {
    let shown = if style.all { drift.values.len() } else { SHOWN };
    for (index, value) in drift.values.iter().take(shown).enumerate() {
        let first = if index == 0 { format!("{}: ", drift.what) } else { String::new() };
        let short = if style.all { value.value.clone() } else { sanitize::short(&value.value, VALUE, "…") };
        let text = format!("{first}{short} on {}", set(style, &value.on));
        let indent = if index == 0 { "  " } else { "    " };
        wrap::write(out, indent, 6, usize::from(style.width), &text)?;
    }
    let hidden = drift.values.len().saturating_sub(shown);
    match (hidden, drift.omitted) {
        (0, 0) => Ok(()),
        (hidden, 0) => more(out, hidden),
        (_, nodes) => writeln!(out, "    … and other values on {}", counted(nodes, "node")),
    }
}

fn problems(out: &mut dyn Write, style: Style, fleet: &Fleet) -> io::Result<()> {
    if fleet.problems.is_empty() {
        return Ok(());
    }
    writeln!(out, "NOT EVERYTHING could be seen")?;
    fleet.problems.iter().try_for_each(|problem| self::problem(out, style, problem))?;
    writeln!(out)
}

fn problem(out: &mut dyn Write, style: Style, problem: &FleetProblem) -> io::Result<()> {
    let count = match problem.count {
        1 => String::new(),
        count => format!(", {count} times"),
    };
    let text = format!("{} on {}{count}: {}", problem.code, set(style, &problem.on), problem.example);
    wrap::write(out, "  ", 4, usize::from(style.width), &text)
}

/// A few sentences of what was compared and what is missing.
fn totals(out: &mut dyn Write, style: Style, fleet: &Fleet) -> io::Result<()> {
    let nodes = &fleet.nodes;
    let mut lines = vec![format!("{}.", counts(fleet))];
    let jobs = &fleet.jobs;
    lines.push(match jobs.several {
        0 => format!("{} answered; {}.", set(style, &nodes.answered), counted(jobs.all, "job")),
        several => {
            let answered = set(style, &nodes.answered);
            format!("{answered} answered; {}, {several} on several nodes.", counted(jobs.all, "job"))
        }
    });
    if let Some(missing) = &nodes.missing {
        lines.push(match missing.count {
            0 => "Every expected node answered.".to_owned(),
            _ => format!("No answer from {}.", set(style, missing)),
        });
    }
    let sets = [
        (&nodes.unexpected, "Nobody expected"),
        (&nodes.incomplete, "Not everything could be seen on"),
        (&nodes.not_audited, "Not audited:"),
        (&nodes.only_audited, "Jobs are not known of"),
        (&nodes.repeated, "Several documents, of which the newest counts, of"),
    ];
    let told = sets.into_iter().filter(|(nodes, _)| !nodes.is_empty());
    lines.extend(told.map(|(nodes, what)| format!("{what} {}.", set(style, nodes))));
    if let Some(times) = fleet.times.as_ref().filter(|times| !times.apart.is_empty()) {
        let apart = set(style, &times.apart);
        lines.push(format!("More than ten minutes away from {}: {apart}.", times.middle));
    }
    lines.iter().try_for_each(|line| wrap::write(out, "", 2, usize::from(style.width), line))
}

/// `1 critical finding, 2 warnings`; and what the baseline and configurations leave
/// out.
fn counts(fleet: &Fleet) -> String {
    let counts = fleet.counts;
    let parts = [(counts.critical, "critical finding"), (counts.warning, "warning"), (counts.note, "note")];
    let found: Vec<String> =
        parts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| counted(count, what)).collect();
    let new = if fleet.known > 0 || fleet.gone > 0 { "new " } else { "" };
    let found = match (found.is_empty(), fleet.nodes.not_audited.count == fleet.nodes.answered.count) {
        (true, true) => "No node was audited".to_owned(),
        (true, false) => format!("No {new}finding"),
        (false, _) => format!("{}{}", new, found.join(", ")),
    };
    let known = (fleet.known > 0 || fleet.gone > 0)
        .then(|| format!("; since the baseline {} still there, {} gone", fleet.known, fleet.gone));
    let ignored = (fleet.ignored > 0)
        .then(|| format!("; {} accepted by the nodes' configuration", counted(fleet.ignored, "finding")));
    format!("{found}{}{}", known.unwrap_or_default(), ignored.unwrap_or_default())
}

/// `gpu[01-03] (3 nodes)`; one node by its name alone.
fn set(style: Style, set: &NodeSet) -> String {
    let names = if style.all { set.nodes.clone() } else { sanitize::short(&set.nodes, LIST, "…") };
    match set.count {
        0 => "no node".to_owned(),
        1 => names,
        count => format!("{names} ({count} nodes)"),
    }
}

fn more(out: &mut dyn Write, count: usize) -> io::Result<()> {
    match count {
        0 => Ok(()),
        count => writeln!(out, "    … and {count} more (-v lists all)"),
    }
}
