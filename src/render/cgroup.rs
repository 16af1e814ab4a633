//! The answers of `gpumap cgroup`: GPUs, rules, programs and processes of one cgroup, or
//! with `-r` a row for each cgroup, grouped by policy.

use std::collections::HashMap;
use std::io;
use std::io::Write;

use super::table::{Last, Table};
use super::{Style, gpus, own_access, owner, process, prog, rules, sanitize, wrap};
use crate::model::Verdict;
use crate::report::{Cgroup, GpuVerdict, NodeAnswer, Policy, Process};

/// Prints each cgroup of the answer, separated by an empty line.
pub fn write(out: &mut dyn Write, style: Style, payload: &NodeAnswer) -> io::Result<()> {
    for (index, cgroup) in payload.cgroups.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        one(out, style, cgroup, payload)?;
    }
    own_access::write(out, style, payload)
}

fn one(out: &mut dyn Write, style: Style, cgroup: &Cgroup, payload: &NodeAnswer) -> io::Result<()> {
    writeln!(out, "{}", sanitize::with_hex(&cgroup.path, cgroup.path_hex.as_deref()))?;
    if let Some(owner) = &cgroup.owner {
        let outer = owner.outer.as_deref().map(|outer| format!("; in {}", owner::full(outer)));
        writeln!(out, "  {}{}", owner::full(owner), outer.unwrap_or_default())?;
    }
    writeln!(out)?;
    rights(out, style, cgroup, payload)?;
    if let Some(below) = cgroup.processes_below.filter(|below| *below > 0) {
        return writeln!(out, "\nProcesses: none here, {below} below (-r)");
    }
    let processes: Vec<&Process> = cgroup.processes.iter().collect();
    let unseen = cgroup.unseen.as_ref();
    process::write(out, style, &processes, unseen, &payload.gpus, None)
}

/// Prints what may be opened from a cgroup, and what says so.
pub(super) fn rights(
    out: &mut dyn Write,
    style: Style,
    cgroup: &Cgroup,
    payload: &NodeAnswer,
) -> io::Result<()> {
    gpu_part(out, style, cgroup, payload)?;
    rule_part(out, style, cgroup, payload)?;
    program_part(out, cgroup, payload)
}

fn gpu_part(out: &mut dyn Write, style: Style, cgroup: &Cgroup, payload: &NodeAnswer) -> io::Result<()> {
    let inventory = &payload.gpus;
    match cgroup.gpus.as_slice() {
        [] => writeln!(out, "{}", gpus::none_in_list(payload.gpus_unread)),
        verdicts => {
            writeln!(out, "GPUs: {}", gpus::tally(verdicts))?;
            gpus::write(out, style, verdicts, inventory)
        }
    }
}

fn rule_part(out: &mut dyn Write, style: Style, cgroup: &Cgroup, payload: &NodeAnswer) -> io::Result<()> {
    match payload.policies.get(&cgroup.policy) {
        Some(policy) => {
            writeln!(out, "\nRules")?;
            rules::write(out, style, policy, &payload.gpus)
        }
        None => writeln!(out, "\nRules: not decoded"),
    }
}

fn program_part(out: &mut dyn Write, cgroup: &Cgroup, payload: &NodeAnswer) -> io::Result<()> {
    match (cgroup.programs.as_slice(), &payload.programs) {
        ([], _) if cgroup.programs_unknown.is_some() => writeln!(out, "\nPrograms: could not be asked"),
        ([], _) if allows_everything(cgroup, payload) => {
            writeln!(out, "\nPrograms: none, so the kernel allows every device")
        }
        ([], _) => writeln!(out, "\nPrograms: none"),
        (effective, known) => {
            writeln!(out, "\nPrograms in run order")?;
            prog::write_in_force(out, effective, known)
        }
    }
}

/// Whether every device may be opened: there is no program, and the v1 controller
/// does not restrict either.
fn allows_everything(cgroup: &Cgroup, payload: &NodeAnswer) -> bool {
    let policy = payload.policies.get(&cgroup.policy);
    policy.is_some_and(Policy::allows_everything)
}

/// Prints the cgroups of the answer by policy, in the order in which the walk
/// first met each policy.
pub fn write_summary(out: &mut dyn Write, style: Style, payload: &NodeAnswer) -> io::Result<()> {
    let cgroups = &payload.cgroups;
    let groups = group(cgroups);
    let count =
        |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    writeln!(
        out,
        "{}, {}, {}",
        count(cgroups.len(), "cgroup", "cgroups"),
        count(groups.len(), "policy", "policies"),
        count(payload.gpus.len(), "GPU", "GPUs"),
    )?;
    groups.iter().try_for_each(|group| summary_row(out, style, group, payload))
}

fn summary_row(out: &mut dyn Write, style: Style, group: &[&Cgroup], payload: &NodeAnswer) -> io::Result<()> {
    let Some(first) = group.first() else { return Ok(()) };
    let policy = payload.policies.get(&first.policy);
    let text = policy.map_or_else(|| "not decoded".to_owned(), |policy| rules::brief(policy, &payload.gpus));
    let width = usize::from(style.width);
    writeln!(out)?;
    wrap::write(out, "Policy: ", 2, width, &text)?;
    for why in policy.iter().flat_map(|policy| &policy.unknown) {
        wrap::write(out, &format!("  {}: ", rules::unsettled(style, why)), 4, width, &why.why)?;
    }
    let gpus = gpus::compact(&first.gpus, &payload.gpus);
    Table::of(group)
        .text("GPUS", |_| gpus.clone())
        .text("PROGRAMS", |cgroup| ids(cgroup))
        .number("PROCS", |cgroup| process::count(cgroup.processes.len(), cgroup.unseen.as_ref()))
        .text("CGROUP", |cgroup| sanitize::with_hex(&cgroup.path, cgroup.path_hex.as_deref()).into())
        .write(out, style, Last::Runs)
}

fn ids(cgroup: &Cgroup) -> String {
    let ids: Vec<String> = cgroup.programs.iter().map(|program| program.id.to_string()).collect();
    match ids.as_slice() {
        [] if cgroup.programs_unknown.is_some() => "unknown".to_owned(),
        [] => "none".to_owned(),
        ids => ids.join(","),
    }
}

/// Cgroups with the same policy and the same verdicts; verdicts can differ
/// under one policy where the v1 controller has a say.
fn group(cgroups: &[Cgroup]) -> Vec<Vec<&Cgroup>> {
    let mut groups: Vec<Vec<&Cgroup>> = Vec::new();
    let mut places: HashMap<(&str, Vec<Verdict>), usize> = HashMap::new();
    for cgroup in cgroups {
        let verdicts = cgroup.gpus.iter().map(|gpu: &GpuVerdict| gpu.verdict).collect();
        let place = *places.entry((&cgroup.policy, verdicts)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(cgroup),
            None => groups.push(vec![cgroup]),
        }
    }
    groups
}
