//! Finds processes that hold a GPU although the rules in force deny it.

use std::collections::BTreeMap;

use super::daemon;
use crate::audit::facts::Facts;
use crate::audit::finding::Reported;
use crate::audit::kind::Kind;
use crate::audit::tenants::{Place, Tenant, names, number, owners};
use crate::audit::{finding, wording};
use crate::model::{DeviceType, InOrder as _, Request, Severity, Verdict};
use crate::report::{Finding, Gpu, Process};

pub(super) const HELD_NOT_ALLOWED: Kind = Kind {
    id: "held-not-allowed",
    severity: Severity::Critical,
    title: "a process that holds a GPU its present rules deny",
    page: "\
A process has a GPU's node open or mapped, and the rules of its cgroup allow no way of opening that number.

The kernel asks device programs when a device is opened, and never again. An open descriptor stays when the \
process moves to another cgroup, executes another program, forks, or passes it on.

Causes: the process opened the GPU before it was moved here, or before the program was attached; another \
process passed it the descriptor; the rule changed later. Only a later rule is certainly harmless, if the \
GPU belonged to the process before.

Excuses: a daemon that may hold any GPU (see held-by-foreign). The finding is a warning if no other job or \
container is known to have the GPU. Without the right to read the process's descriptors there is no finding.

What to do: compare the load time of the program that denies with the start of the process, and end the \
process if it must not use the GPU.",
};

/// A device number, major and minor.
type Number = (u32, u32);

/// A GPU that processes of one cgroup hold by a number that is denied.
struct Held<'a> {
    gpu: &'a Gpu,
    number: Number,
    processes: Vec<&'a Process>,
}

/// One finding for each cgroup and GPU.
pub(super) fn find(facts: &Facts<'_>, reported: &mut Reported) -> Vec<Finding> {
    let mut findings = Vec::new();
    for place in &facts.places {
        for held in in_cgroup(facts, *place, reported) {
            held.processes.iter().for_each(|process| reported.add(process, &held.gpu.key));
            let others = facts.having(held.gpu, facts.tenant_at(*place));
            findings.push(report(facts, *place, &held, &others));
        }
    }
    findings
}

/// What is held in a cgroup although it is denied, in the order of the inventory.
fn in_cgroup<'a>(facts: &Facts<'a>, place: Place<'a>, reported: &Reported) -> Vec<Held<'a>> {
    let mut found: BTreeMap<(usize, Number), Held<'a>> = BTreeMap::new();
    for process in place.holders().filter(|process| !daemon::is_excused(facts, process, place)) {
        let mut seen = Vec::new();
        for (at, gpu, number) in numbers(facts, process) {
            let is_new = !reported.has(process, &gpu.key) && !seen.contains(&at);
            if is_new && is_denied(facts, place, number) {
                seen.push(at);
                let held = || Held { gpu, number, processes: Vec::new() };
                found.entry((at, number)).or_insert_with(held).processes.push(process);
            }
        }
    }
    found.into_values().collect()
}

/// The GPUs' nodes that a process has open, gates first, each with the position of its GPU:
/// of the GPU's own driver, as any number may have a GPU's name.
fn numbers<'a>(facts: &Facts<'a>, process: &Process) -> Vec<(usize, &'a Gpu, Number)> {
    let detail = facts.observed(process).and_then(|process| process.detail.as_ref());
    let devices = detail.and_then(|detail| detail.devices.known()).map(Vec::as_slice).unwrap_or_default();
    let numbers = devices.iter().filter(|device| device.kind == DeviceType::Char);
    let mut found: Vec<(usize, &'a Gpu, Number)> = numbers
        .filter_map(|device| {
            let open = (device.major, device.minor);
            let mut gpus = facts.gpus().iter().enumerate();
            let gate = gpus.clone().find(|(_, gpu)| number(gpu) == Some(open));
            let (at, gpu) = gate.or_else(|| gpus.find(|(_, gpu)| is_node_of(gpu, open)))?;
            Some((at, gpu, open))
        })
        .collect();
    found.order_by_key(|(_, gpu, open)| number(gpu) != Some(*open));
    found
}

fn is_node_of(gpu: &Gpu, (major, minor): Number) -> bool {
    let mut nodes = gpu.nodes.iter().filter(|node| node.path.starts_with("/dev/dri/"));
    gpu.major == Some(major) && nodes.any(|node| (node.major, node.minor) == (major, minor))
}

/// Whether no way of opening it is allowed: how it was opened is not known.
fn is_denied(facts: &Facts<'_>, place: Place<'_>, number: Number) -> bool {
    let requests = [Request::Read, Request::Write, Request::ReadWrite];
    requests.into_iter().all(|request| facts.verdict(place, number, request) == Verdict::Deny)
}

fn report(facts: &Facts<'_>, place: Place<'_>, held: &Held<'_>, others: &[&Tenant<'_>]) -> Finding {
    let Held { gpu, number: open, processes } = held;
    let name = wording::gpu(gpu);
    let programs = facts.decisions(place, *open, Request::ReadWrite);
    let who = wording::processes(processes);
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
        _ => format!("it is there for {}", names(others)),
    });
    let severity = if others.is_empty() { Severity::Warning } else { HELD_NOT_ALLOWED.severity };
    let mut devices = vec![finding::gpu(gpu)];
    let is_gate = number(gpu) == Some(*open);
    devices.extend((!is_gate).then(|| finding::device(*open, None)));
    Finding {
        others: owners(others),
        processes: finding::processes(processes.iter().copied()),
        devices,
        programs,
        evidence,
        severity,
        excuses: vec![
            "possible without a breach: opened before the process was moved here or before the program was \
             attached, \
             handed over by another process, or the rule changed later"
                .to_owned(),
            "it is no daemon that may hold any GPU".to_owned(),
        ],
        advice: "Rules are asked when a device is opened, never later: end the process if it must not use \
                 the GPU."
            .to_owned(),
        ..finding::at(
            &HELD_NOT_ALLOWED,
            place.cgroup,
            format!(
                "{who} {verb} {name}, which the rules in \
                                                                force deny"
            ),
        )
    }
}

/// When a process started. Ticks are hundredths of a second on every machine
/// that has GPUs.
fn started(facts: &Facts<'_>, process: &Process) -> String {
    let exe =
        daemon::exe(facts, process).unwrap_or_else(|| "an executable that could not be read".to_owned());
    let (seconds, rest) = (process.start_time / 100, process.start_time % 100);
    format!(
        "{} of uid {}, {}, started {seconds}.{rest:02} s after boot and has it open",
        wording::process(process),
        process.uid,
        wording::short(&exe, 120)
    )
}

/// When a program was loaded.
fn loaded(facts: &Facts<'_>, id: u32) -> Option<String> {
    let program = facts.program(id)?;
    let known = program.loaded_at.is_known();
    known.then(|| format!("program {id}, which denies it, was loaded at {}", program.loaded_at))
}
