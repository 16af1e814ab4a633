//! Finds processes that hold a GPU although the rules in force deny it.

use std::collections::BTreeMap;

use super::daemon;
use super::evidence::{Reported, having, is_reported, listed, names, owners, process_name};
use super::pages::HELD_NOT_ALLOWED;
use crate::audit::access::TenantAccess;
use crate::audit::facts::Facts;
use crate::audit::{finding, wording};
use crate::model::{DeviceType, Severity};
use crate::model::{Request, Verdict};
use crate::report::{Finding, Gpu, Process};

/// A device that one process has open: its number, and its GPU by position.
type Number = (u32, u32);

/// One finding for each cgroup and GPU.
pub(super) fn find(facts: &mut Facts<'_>, access: &TenantAccess, reported: &mut Reported) -> Vec<Finding> {
    let gpus = facts.inspection.gpus().to_vec();
    let granted = access.granted(facts);
    let mut findings = Vec::new();
    for place in 0..facts.cgroups().len() {
        for ((gpu, number), processes) in in_cgroup(facts, access, place, &gpus, reported) {
            let Some(of) = gpus.get(gpu) else { continue };
            reported.extend(processes.iter().map(|one| (one.pid, one.start_time, of.key.clone())));
            let others = having(facts, access, &granted, gpu, access.innermost.get(place).copied().flatten());
            findings.extend(report(facts, place, (of, number), &processes, &others));
        }
    }
    findings
}

/// The holders in a cgroup by GPU, with the number that is denied.
fn in_cgroup(
    facts: &mut Facts<'_>,
    access: &TenantAccess,
    place: usize,
    gpus: &[Gpu],
    reported: &Reported,
) -> BTreeMap<(usize, Number), Vec<Process>> {
    let Some(cgroup) = facts.cgroups().get(place) else { return BTreeMap::new() };
    let holds = |process: &&Process| process.held.as_ref().is_some_and(|held| !held.is_empty());
    let holders: Vec<Process> = cgroup.processes.iter().filter(holds).cloned().collect();
    let mut found: BTreeMap<(usize, Number), Vec<Process>> = BTreeMap::new();
    for process in holders {
        if daemon::is_excused(facts, access, &process, place) {
            continue;
        }
        let mut seen = Vec::new();
        for (gpu, number) in numbers(facts, &process, gpus) {
            let is_new = gpus.get(gpu).is_some_and(|gpu| !is_reported(reported, &process, &gpu.key));
            if is_new && !seen.contains(&gpu) && is_denied(facts, place, number) {
                seen.push(gpu);
                found.entry((gpu, number)).or_default().push(process.clone());
            }
        }
    }
    found
}

/// The GPUs' nodes that a process has open: of the GPU's own driver, as any
/// number may have a GPU's name.
fn numbers(facts: &Facts<'_>, process: &Process, gpus: &[Gpu]) -> Vec<(usize, Number)> {
    let detail = facts.observed(process).and_then(|process| process.detail.as_ref());
    let devices = detail.and_then(|detail| detail.devices.known()).map(Vec::as_slice).unwrap_or_default();
    let numbers = devices.iter().filter(|device| device.kind == DeviceType::Char);
    let mut found: Vec<(usize, Number)> = numbers
        .filter_map(|device| {
            let number = (device.major, device.minor);
            let gate = gpus.iter().position(|gpu| gpu.major.zip(gpu.minor) == Some(number));
            Some((gate.or_else(|| gpus.iter().position(|gpu| is_node_of(gpu, number)))?, number))
        })
        .collect();
    let is_gate = |(gpu, number): &(usize, Number)| {
        gpus.get(*gpu).is_some_and(|gpu| gpu.major.zip(gpu.minor) == Some(*number))
    };
    found.sort_by_key(|one| !is_gate(one));
    found
}

fn is_node_of(gpu: &Gpu, (major, minor): Number) -> bool {
    let mut nodes = gpu.nodes.iter().filter(|node| node.path.starts_with("/dev/dri/"));
    gpu.major == Some(major) && nodes.any(|node| (node.major, node.minor) == (major, minor))
}

/// Whether no way of opening it is allowed: how it was opened is not known.
fn is_denied(facts: &mut Facts<'_>, place: usize, number: Number) -> bool {
    let requests = [Request::Read, Request::Write, Request::ReadWrite];
    requests.into_iter().all(|request| facts.verdict(place, number, request) == Verdict::Deny)
}

fn report(
    facts: &mut Facts<'_>,
    place: usize,
    (gpu, number): (&Gpu, Number),
    processes: &[Process],
    others: &[usize],
) -> Option<Finding> {
    let name = wording::gpu(gpu);
    let programs = facts.decisions(place, number, Request::ReadWrite);
    let first = processes.first()?;
    let who = match processes.len() {
        1 => process_name(first),
        more => format!("{} and {} more", process_name(first), more - 1),
    };
    let verb = if processes.len() == 1 { "holds" } else { "hold" };
    let mut evidence = wording::clauses(processes.iter().map(|process| started(facts, process)).collect());
    let loaded: Vec<String> = programs
        .iter()
        .filter(|one| one.returns == Verdict::Deny)
        .filter_map(|one| loaded(facts, one.id))
        .collect();
    evidence.extend(loaded);
    evidence.push(match others {
        [] => "no other job or container is known to have it".to_owned(),
        _ => format!("it is there for {}", names(facts, others)),
    });
    let cgroup = facts.cgroups().get(place)?;
    let severity = if others.is_empty() { Severity::Warning } else { HELD_NOT_ALLOWED.severity };
    let mut devices = vec![finding::gpu(gpu)];
    let is_gate = gpu.major.zip(gpu.minor) == Some(number);
    devices.extend((!is_gate).then(|| finding::device(number, None)));
    Some(Finding {
        others: owners(facts, others),
        processes: listed(&processes.iter().collect::<Vec<_>>()),
        devices,
        programs,
        evidence,
        severity,
        excuses: vec![
            "possible without a breach: opened before the process was moved here or before the program was attached, \
             handed over by another process, or the rule changed later"
                .to_owned(),
            "it is no daemon that may hold any GPU".to_owned(),
        ],
        advice: "Rules are asked when a device is opened, never later: end the process if it must not use the GPU."
            .to_owned(),
        ..finding::at(&HELD_NOT_ALLOWED, cgroup, format!("{who} {verb} {name}, which the rules in force deny"))
    })
}

/// When a process started. Ticks are hundredths of a second on every machine
/// that has GPUs.
fn started(facts: &Facts<'_>, process: &Process) -> String {
    let exe =
        daemon::exe(facts, process).unwrap_or_else(|| "an executable that could not be read".to_owned());
    let (seconds, rest) = (process.start_time / 100, process.start_time % 100);
    format!(
        "{} of uid {}, {}, started {seconds}.{rest:02} s after boot and has it open",
        process_name(process),
        process.uid,
        wording::short(&exe, 120)
    )
}

/// When a program was loaded.
fn loaded(facts: &Facts<'_>, id: u32) -> Option<String> {
    let program = facts.inspection.payload().programs.as_ref()?.get(&id)?;
    let known = !program.loaded_at.is_empty();
    known.then(|| format!("program {id}, which denies it, was loaded at {}", program.loaded_at))
}
