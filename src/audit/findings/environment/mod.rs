//! Finds environments that select other GPUs than the job has. CUDA reports none of
//! these mistakes.
//!
//! A tenant gets one finding of each kind, however many processes inherited the
//! variable and however many values there are.

mod evidence;
mod pages;
mod problem;
mod scheduler;

use std::collections::{BTreeMap, BTreeSet};

use crate::audit::access::{TenantAccess, verdict};
use crate::audit::facts::Facts;
use crate::audit::kind::Family;
use crate::audit::{finding, wording};
use crate::model::Confidence;
use crate::model::Request;
use crate::model::Severity;
use crate::model::ValueState;
use crate::model::Verdict;
use crate::report::{Finding, Process};

use pages::EnvironmentKind;
use problem::Problem;

/// The kinds of this family.
pub(super) const FAMILY: Family = Family {
    kinds: &[
        pages::OUT_OF_RANGE.kind,
        pages::FOREIGN_UUID.kind,
        pages::DUPLICATE.kind,
        pages::MIXED_KINDS.kind,
        pages::CHANGED.kind,
        pages::UNSET_BUT_GPU.kind,
        pages::INDEX_SPACE.kind,
    ],
    find,
};

/// All processes of one tenant with one kind of problem.
#[derive(Debug)]
struct Group {
    about: EnvironmentKind,
    /// The first of their cgroups.
    place: usize,
    processes: Vec<Process>,
    /// Each distinct value and its effect, in words.
    clauses: BTreeSet<String>,
    /// Places of the GPUs concerned.
    gpus: BTreeSet<usize>,
    /// The least sure of their confidences.
    confidence: Confidence,
    /// Whether a rule is why.
    by_rule: bool,
}

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    let access = TenantAccess::new(facts);
    let mut groups: BTreeMap<(usize, &'static str), Group> = BTreeMap::new();
    for (place, tenant) in access.innermost.iter().enumerate() {
        let (Some(tenant), Some(cgroup)) = (tenant, facts.cgroups().get(place)) else { continue };
        for process in &cgroup.processes {
            for problem in problems(facts, &access, *tenant, place, process) {
                add(&mut groups, (*tenant, place), process, problem);
            }
        }
    }
    groups.into_iter().filter_map(|((tenant, _), group)| report(facts, tenant, group)).collect()
}

fn problems(
    facts: &Facts<'_>,
    access: &TenantAccess,
    tenant: usize,
    place: usize,
    process: &Process,
) -> Vec<Problem> {
    let Some(visible) = &process.visible else { return Vec::new() };
    let now = if visible.live.state == ValueState::Unknown { &visible.at_exec } else { &visible.live };
    let mut problems = Vec::new();
    if has_gpus(facts, place) {
        problems.extend(problem::cuts(facts, now));
        problems.extend(problem::changed(facts, visible));
    }
    problems.extend(scheduler::problem(facts, access, tenant, now, process));
    problems
}

/// Without a GPU to open, no value matters: a variable set in a login script
/// is no problem of a job without GPUs.
fn has_gpus(facts: &Facts<'_>, place: usize) -> bool {
    (0..facts.inspection.gpus().len()).any(|gpu| verdict(facts, place, gpu) == Verdict::Allow)
}

fn add(
    groups: &mut BTreeMap<(usize, &'static str), Group>,
    (tenant, place): (usize, usize),
    process: &Process,
    problem: Problem,
) {
    let group = groups.entry((tenant, problem.about.kind.id)).or_insert_with(|| Group {
        about: problem.about,
        place,
        processes: Vec::new(),
        clauses: BTreeSet::new(),
        gpus: BTreeSet::new(),
        confidence: problem.confidence,
        by_rule: false,
    });
    if group.processes.last() != Some(process) {
        group.processes.push(process.clone());
    }
    group.clauses.insert(problem.clause);
    group.gpus.extend(problem.gpus);
    group.by_rule |= problem.by_rule;
    // `certain`, `claimed`, `likely`: anything that is not certain wins.
    if group.confidence == Confidence::Certain {
        group.confidence = problem.confidence;
    }
}

fn report(facts: &mut Facts<'_>, tenant: usize, group: Group) -> Option<Finding> {
    let owner = facts.tenants.get(tenant)?.sets.owner.clone();
    let gpus: Vec<_> =
        group.gpus.iter().filter_map(|place| facts.inspection.gpus().get(*place)).cloned().collect();
    let number = gpus.first().and_then(|gpu| gpu.major.zip(gpu.minor)).filter(|_| group.by_rule);
    let programs = number.map(|number| facts.decisions(group.place, number, Request::ReadWrite));
    let first = group.processes.first()?;
    let who = match group.processes.len() {
        1 => format!("{} (pid {})", first.comm, first.pid),
        more => format!("{} (pid {}) and {} more", first.comm, first.pid, more - 1),
    };
    let left_out = group.processes.len().saturating_sub(finding::LISTED);
    let mut evidence = wording::clauses(group.clauses.into_iter().collect());
    evidence.extend((left_out > 0).then(|| format!("{left_out} processes with the same are not listed")));
    evidence.extend((group.confidence == Confidence::Likely).then(|| pages::MODELLED.to_owned()));
    let kind = &group.about.kind;
    let is_own_mistake = kind.id == pages::FOREIGN_UUID.kind.id && !group.by_rule;
    let severity = if is_own_mistake { Severity::Note } else { kind.severity };
    Some(Finding {
        severity,
        owner: Some(owner.clone()),
        processes: group.processes.iter().take(finding::LISTED).map(finding::process).collect(),
        devices: gpus.iter().map(finding::gpu).collect(),
        programs: programs.unwrap_or_default(),
        confidence: group.confidence,
        evidence,
        excuses: vec![group.about.excuse.to_owned()],
        advice: group.about.advice.to_owned(),
        ..finding::at(
            kind,
            facts.cgroups().get(group.place)?,
            format!("{}: {} of {}", kind.title, who, wording::owner(&owner)),
        )
    })
}
