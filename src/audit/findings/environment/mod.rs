//! Finds environments that select other GPUs than the job has. CUDA reports none of
//! these mistakes.
//!
//! A tenant gets one finding of each kind, however many processes inherited the
//! variable and however many values there are.

mod kinds;
mod problem;

use std::collections::{BTreeMap, BTreeSet};

use crate::audit::facts::{Facts, Place};
use crate::audit::kind::Family;
use crate::audit::tenants::{Tenant, number};
use crate::audit::{finding, wording};
use crate::model::{Certainty, Confidence, Owner, Request, Severity, ValueState, Verdict};
use crate::report::{Asked, Finding, Gpu, Process};
use kinds::EnvironmentKind;
use problem::Problem;

/// The kinds of this family.
pub(super) const FAMILY: Family = Family {
    kinds: &[
        kinds::OUT_OF_RANGE.kind,
        kinds::FOREIGN_UUID.kind,
        kinds::DUPLICATE.kind,
        kinds::MIXED_KINDS.kind,
        kinds::CHANGED.kind,
        kinds::UNSET_BUT_GPU.kind,
        kinds::INDEX_SPACE.kind,
    ],
    find,
};

/// All processes of one tenant with one kind of problem.
#[derive(Debug)]
struct Group<'a> {
    about: EnvironmentKind,
    owner: &'a Owner,
    /// The first of their cgroups.
    place: Place<'a>,
    processes: Vec<&'a Process>,
    /// Each distinct value and its effect, in words.
    clauses: BTreeSet<String>,
    /// Keys of the GPUs concerned.
    gpus: BTreeSet<String>,
    /// The least sure of their confidences.
    confidence: Confidence,
    /// Whether a rule is why.
    by_rule: bool,
}

fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let mut groups: BTreeMap<(&Owner, &'static str), Group<'_>> = BTreeMap::new();
    for place in &facts.places {
        let Some(tenant) = facts.tenant_at(*place) else { continue };
        for process in &place.cgroup.processes {
            for problem in problems(facts, tenant, *place, process) {
                add(&mut groups, tenant.owner(), *place, process, problem);
            }
        }
    }
    groups.into_values().map(|group| report(facts, group)).collect()
}

fn problems(facts: &Facts<'_>, tenant: &Tenant<'_>, place: Place<'_>, process: &Process) -> Vec<Problem> {
    let Some(visible) = &process.visible else { return Vec::new() };
    let now = if visible.live.state == ValueState::Unknown { &visible.at_exec } else { &visible.live };
    let mut problems = Vec::new();
    // Without a GPU to open, no value matters: a variable set in a login script is no
    // problem of a job without GPUs.
    if facts.gpus().iter().any(|gpu| place.verdict(gpu) == Verdict::Allow) {
        problems.extend(problem::cuts(facts, now));
        problems.extend(problem::changed(facts, visible));
    }
    problems.extend(problem::others_gpus(facts, tenant, now, process));
    problems
}

fn add<'a>(
    groups: &mut BTreeMap<(&'a Owner, &'static str), Group<'a>>,
    owner: &'a Owner,
    place: Place<'a>,
    process: &'a Process,
    problem: Problem,
) {
    let group = groups.entry((owner, problem.about.kind.id)).or_insert_with(|| Group {
        about: problem.about,
        owner,
        place,
        processes: Vec::new(),
        clauses: BTreeSet::new(),
        gpus: BTreeSet::new(),
        confidence: problem.confidence,
        by_rule: false,
    });
    if group.processes.last() != Some(&process) {
        group.processes.push(process);
    }
    group.clauses.insert(problem.clause);
    group.gpus.extend(problem.gpus);
    group.by_rule |= problem.by_rule;
    // `certain`, `claimed`, `likely`: anything that is not certain wins.
    if group.confidence == Confidence::Certain {
        group.confidence = problem.confidence;
    }
}

fn report(facts: &Facts<'_>, group: Group<'_>) -> Finding {
    let gpus: Vec<&Gpu> = facts.gpus().iter().filter(|gpu| group.gpus.contains(&gpu.key)).collect();
    let number = gpus.first().and_then(|gpu| number(gpu)).filter(|_| group.by_rule);
    let programs = number.map(|number| facts.decisions(group.place, number, Request::ReadWrite));
    let who = wording::processes(&group.processes);
    let left_out = group.processes.len().saturating_sub(finding::LISTED);
    let mut evidence = wording::clauses(group.clauses.into_iter().collect());
    evidence.extend((left_out > 0).then(|| format!("{left_out} processes with the same are not listed")));
    evidence.extend((group.confidence == Confidence::Likely).then(|| kinds::MODELLED.to_owned()));
    let kind = &group.about.kind;
    let is_own_mistake = kind.id == kinds::FOREIGN_UUID.kind.id && !group.by_rule;
    let severity = if is_own_mistake { Severity::Note } else { kind.severity };
    Finding {
        severity,
        owner: Some(group.owner.clone()),
        processes: finding::processes(group.processes),
        devices: gpus.into_iter().map(finding::gpu).collect(),
        programs: programs.unwrap_or_default(),
        confidence: group.confidence,
        evidence,
        excuses: vec![group.about.excuse.to_owned()],
        advice: group.about.advice.to_owned(),
        ..finding::at(
            kind,
            group.place.cgroup,
            format!("{}: {} of {}", kind.title, who, wording::owner(group.owner)),
        )
    }
}

/// The list that a process asks with, in words: `CUDA_VISIBLE_DEVICES="0,7"`.
fn asks(variable: &str, raw: Option<&str>) -> String {
    match raw {
        Some(raw) => format!("{variable}={:?}", wording::short(raw, 80)),
        None => format!("{variable} is not set"),
    }
}

/// GPUs in words.
fn named(facts: &Facts<'_>, keys: &[String]) -> String {
    wording::gpus(keys.iter().filter_map(|key| facts.gpus().iter().find(|gpu| gpu.key == *key)))
}

/// `certain` for what a document settles, `likely` for a model of the driver.
fn confidence(asked: &Asked) -> Confidence {
    if asked.confidence == Certainty::Documented { Confidence::Certain } else { Confidence::Likely }
}
