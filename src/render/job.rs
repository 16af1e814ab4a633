//! The answer of `gpumap job`: sets, GPUs, processes, rules and programs of a job.

use std::io::{self, Write};

use super::{Style, activity, gpus, node, own_access, owner, process, prog, rules, sanitize, vgpu};
use crate::model::{CgroupPath, GpuKey, InOrder as _, JobIdSource};
use crate::observation::UnseenProcesses;
use crate::report::{
    ActiveProcess, Cgroup, Effective, Gpu, GpuSet, JobsAnswer, NodeAnswer, OwnerSets, Policy, Process,
};

/// Prints each job of the answer, separated by an empty line.
pub fn write(out: &mut dyn Write, style: Style, payload: &NodeAnswer) -> io::Result<()> {
    let owners = payload.owners.as_deref().unwrap_or_default();
    if owners.is_empty() {
        return match style.all_seen {
            true => writeln!(out, "No cgroup of a job is here."),
            false => writeln!(out, "No cgroup of a job was seen, but not all could be seen."),
        };
    }
    for (index, group) in owners.chunk_by(|_, next| next.depth > 0).enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        one(out, style, group, payload)?;
    }
    own_access::write(out, style, payload)
}

/// Prints the jobs that are here, a line each.
pub fn write_all(out: &mut dyn Write, style: Style, answer: &JobsAnswer) -> io::Result<()> {
    let mut jobs: Vec<&OwnerSets> = answer.owners.iter().filter(|row| row.depth == 0).collect();
    jobs.order_by(|one, other| one.owner.cmp(&other.owner));
    if jobs.is_empty() {
        return match style.all_seen {
            true => writeln!(out, "No job is here."),
            false => writeln!(out, "No job was seen here, but not all could be seen."),
        };
    }
    node::write_owners(out, style, &jobs, &answer.gpus)?;
    writeln!(out, "gpumap job ID shows one of them with its steps and processes.")
}

fn one(out: &mut dyn Write, style: Style, group: &[OwnerSets], payload: &NodeAnswer) -> io::Result<()> {
    let Some(top) = group.first() else { return Ok(()) };
    heading(out, top)?;
    let inventory = &payload.gpus;
    node::write_owners(out, style, &group.iter().collect::<Vec<_>>(), inventory)?;
    gpu_part(out, style, group, payload)?;
    let all = payload.cgroups.iter();
    let cgroups: Vec<&Cgroup> = all.filter(|cgroup| is_in(&cgroup.path, &top.cgroup)).collect();
    let (own, rest) = processes(&cgroups, style);
    let unseen = cgroups.iter().fold(None, |all, cgroup| UnseenProcesses::join(all, cgroup.unseen.as_ref()));
    process::write(out, style, &own, unseen.as_ref(), inventory, Some(&|process| place(process, group)))?;
    if rest > 0 {
        let of = if rest == 1 { "process of the scheduler is" } else { "processes of the scheduler are" };
        writeln!(out, "  {rest} {of} not listed (-v lists all)")?;
    }
    if let Some(activity) = &payload.activity {
        let is_its = |it: &ActiveProcess| it.cgroup.as_deref().is_some_and(|path| is_in(path, &top.cgroup));
        activity::section(out, style, activity, is_its, inventory)?;
    }
    vgpu::section(out, style, &own, inventory)?;
    rule_part(out, &cgroups, payload)?;
    program_part(out, &cgroups, payload)
}

fn heading(out: &mut dyn Write, top: &OwnerSets) -> io::Result<()> {
    let owner = &top.owner;
    writeln!(out, "{}", owner::full(owner))?;
    if let Some(task) = top.array_task.as_deref() {
        writeln!(out, "  array task {}, as its environment says", sanitize::text(task))?;
    }
    if let Some(component) = top.component.as_deref() {
        writeln!(out, "  component {}, as its environment says", sanitize::text(component))?;
    }
    writeln!(out, "  {}", sanitize::with_hex(&top.cgroup, top.cgroup_hex.as_deref()))?;
    if let Some(sluid) = owner.sluid.as_deref() {
        let when =
            owner.submitted_at.as_ref().map(|when| format!(", submitted {}", sanitize::text(when.as_str())));
        writeln!(out, "  SLUID {}{}", sanitize::text(sluid), when.unwrap_or_default())?;
    }
    if let Some(source) = owner.job_id_source.as_ref().filter(|source| **source != JobIdSource::Path) {
        writeln!(out, "  job number from {}", source_name(source))?;
    }
    if let Some(outer) = owner.outer.as_deref() {
        writeln!(out, "  in {}", owner::full(outer))?;
    }
    writeln!(out)
}

/// The source of a job's number, for people.
pub(super) fn source_name(source: &JobIdSource) -> String {
    match source {
        JobIdSource::StepdTitle => "the title of its slurmstepd".to_owned(),
        JobIdSource::StepdSocket => "the socket of its slurmstepd".to_owned(),
        JobIdSource::Environment => "its processes' environment, which its user can set".to_owned(),
        other => sanitize::text(&other.to_string()).into_owned(),
    }
}

/// The GPUs that the job may open, and those that it was allocated, asks for or
/// holds; not those that it might have been allocated.
fn gpu_part(out: &mut dyn Write, style: Style, group: &[OwnerSets], payload: &NodeAnswer) -> io::Result<()> {
    let inventory = &payload.gpus;
    let has = |gpu: &Gpu, keys: &[GpuKey]| keys.contains(&gpu.key);
    let known = |gpu: &Gpu, set: &GpuSet| has(gpu, set.gpus.as_deref().unwrap_or_default());
    let may = |gpu: &Gpu| group.iter().any(|row| known(gpu, &row.allowed));
    let perhaps = |gpu: &Gpu| {
        let unknown = |row: &OwnerSets| row.allowed.gpus.is_none() || has(gpu, &row.allowed.unknown);
        !may(gpu) && group.iter().any(unknown)
    };
    let named = |gpu: &Gpu| {
        let sets = group.iter().flat_map(|row| [&row.allocated, &row.visible, &row.held]);
        sets.into_iter().any(|set| known(gpu, set)) || group.iter().any(|row| has(gpu, &row.held.unknown))
    };
    let is_its = |gpu: &&Gpu| may(gpu) || perhaps(gpu) || named(gpu);
    let relevant: Vec<&Gpu> = inventory.iter().filter(is_its).collect();
    let count = |is: &dyn Fn(&Gpu) -> bool| inventory.iter().filter(|gpu| is(gpu)).count();
    let title = match (count(&may), count(&perhaps), inventory.len()) {
        (0, 0, 0) => gpus::none_in_list(payload.gpus_unread).to_owned(),
        (allowed, 0, all) => format!("GPUs: it may open {allowed} of {all}"),
        (0, unknown, all) if unknown == all => format!("GPUs: unknown which of {all} it may open"),
        (allowed, unknown, all) => format!("GPUs: it may open {allowed} of {all}, {unknown} unknown"),
    };
    writeln!(out)?;
    if relevant.is_empty() {
        writeln!(out, "{title}")
    } else {
        gpus::write_inventory(out, style, &title, &relevant)
    }
}

/// The job's processes, and how many of the scheduler's own are left out: those
/// that hold no GPU.
fn processes<'a>(cgroups: &[&'a Cgroup], style: Style) -> (Vec<&'a Process>, usize) {
    let is_service = |cgroup: &Cgroup| cgroup.owner.as_ref().is_some_and(|owner| owner.part.is_some());
    let holds =
        |it: &Process| it.held_unknown.is_some() || it.held.as_ref().is_some_and(|held| !held.is_empty());
    let all = cgroups.iter().flat_map(|cgroup| cgroup.processes.iter().map(|process| (*cgroup, process)));
    let (own, rest): (Vec<_>, Vec<_>) =
        all.partition(|(cgroup, process)| style.all || !is_service(cgroup) || holds(process));
    (own.into_iter().map(|(_, process)| process).collect(), rest.len())
}

/// The step and task a process is in, as the innermost row says: `0/1`.
fn place(process: &Process, group: &[OwnerSets]) -> String {
    let around = group.iter().filter(|row| is_in(&process.cgroup, &row.cgroup));
    match around.max_by_key(|row| row.cgroup.len()) {
        None => "?".to_owned(),
        Some(row) => match (owner::step_name(&row.owner), &row.owner.task) {
            (Some(step), Some(task)) => sanitize::short(&format!("{step}/{task}"), 16, "…"),
            (Some(step), None) => sanitize::short(&step, 16, "…"),
            _ if row.depth == 0 => "-".to_owned(),
            _ => owner::label(&row.owner, row.depth).trim_start().to_owned(),
        },
    }
}

/// Whether a path is at or below another.
fn is_in(path: &str, top: &str) -> bool {
    CgroupPath::new(path).is_at_or_below(CgroupPath::new(top))
}

/// Each policy once, with the cgroups it is in force on.
fn rule_part(out: &mut dyn Write, cgroups: &[&Cgroup], payload: &NodeAnswer) -> io::Result<()> {
    let mut groups: Vec<(&str, &Cgroup, usize)> = Vec::new();
    for cgroup in cgroups {
        match groups.iter_mut().find(|(policy, ..)| *policy == cgroup.policy) {
            Some((.., count)) => *count += 1,
            None => groups.push((&cgroup.policy, cgroup, 1)),
        }
    }
    writeln!(out, "\nRules")?;
    let gpus = &payload.gpus;
    for (policy, first, count) in groups {
        let policy: Option<&Policy> = payload.policies.get(policy);
        writeln!(
            out,
            "  {}",
            policy.map_or_else(|| "not decoded".to_owned(), |policy| rules::brief(policy, gpus))
        )?;
        for unknown in policy.iter().flat_map(|policy| &policy.unknown) {
            let word = if unknown.not_drawn { "not drawn" } else { "unknown" };
            writeln!(out, "      {word}: {}", sanitize::text(&unknown.why))?;
        }
        let path = sanitize::with_hex(&first.path, first.path_hex.as_deref());
        let more = match count - 1 {
            0 => String::new(),
            1 => " and 1 more cgroup".to_owned(),
            more => format!(" and {more} more cgroups"),
        };
        writeln!(out, "      in {path}{more}")?;
    }
    Ok(())
}

/// Each program once.
fn program_part(out: &mut dyn Write, cgroups: &[&Cgroup], payload: &NodeAnswer) -> io::Result<()> {
    let mut seen: Vec<Effective> = Vec::new();
    for effective in cgroups.iter().flat_map(|cgroup| &cgroup.programs) {
        if !seen.contains(effective) {
            seen.push(effective.clone());
        }
    }
    let unasked = cgroups.iter().any(|cgroup| cgroup.programs_unknown.is_some());
    match (seen.as_slice(), unasked) {
        ([], true) => writeln!(out, "\nPrograms: could not be asked"),
        ([], false) => writeln!(out, "\nPrograms: none"),
        (seen, _) => {
            writeln!(out, "\nPrograms")?;
            prog::write_in_force(out, seen, &payload.programs)
        }
    }
}
