//! Finds environments that select other GPUs than the job has. CUDA reports none of
//! these mistakes.
//!
//! A tenant gets one finding of each kind, however many processes inherited the
//! variable and however many values there are.

mod kinds;

use std::collections::{BTreeMap, BTreeSet};

use crate::audit::facts::Facts;
use crate::audit::kind::Family;
use crate::audit::tenants::{Place, Tenant, number};
use crate::audit::{finding, wording};
use crate::model::{
    AllocationSource, Certainty, Confidence, CutCode, GpuKey, Owner, Request, Severity, SharedRole,
    ValueState, Verdict,
};
use crate::report::{Api, Asked, Cut, Finding, Gpu, GpuSet, Process, Visible};
use kinds::EnvironmentKind;

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
    /// The first of the variables.
    variable: String,
    processes: Vec<&'a Process>,
    /// Each distinct value and its effect, in words.
    clauses: BTreeSet<String>,
    /// Keys of the GPUs concerned.
    gpus: BTreeSet<GpuKey>,
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
        problems.extend(cuts(facts, now));
        problems.extend(changed(facts, visible));
    }
    problems.extend(others_gpus(facts, tenant, now, process));
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
        variable: problem.variable,
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
    let summary = summary(&group, &gpus);
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
        ..finding::at(kind, group.place.cgroup, summary)
    }
}

/// What is wrong, with the variable, the process, its job and the GPUs: the words of the
/// kind, whose places are filled.
fn summary(group: &Group<'_>, gpus: &[&Gpu]) -> String {
    let words = match group.about.kind.id == kinds::FOREIGN_UUID.kind.id && gpus.is_empty() {
        true => kinds::NAMES_NONE,
        false => group.about.summary,
    };
    // Piece by piece: a name that looks like a place is none.
    let piece = |piece: &str| match piece {
        "the variable" => group.variable.clone(),
        "the process" => wording::processes(&group.processes),
        "the gpus" => wording::gpus(gpus.iter().copied()),
        "the job" => wording::owner(group.owner),
        words => words.to_owned(),
    };
    words.split(['{', '}']).map(piece).collect()
}

/// One problem of one process.
#[derive(Debug)]
struct Problem {
    variable: String,
    about: EnvironmentKind,
    clause: String,
    gpus: BTreeSet<GpuKey>,
    confidence: Confidence,
    by_rule: bool,
}

/// Lists that end where their author did not mean it. `-1` and words, which
/// people write to hide all GPUs, are no problem.
fn cuts(facts: &Facts<'_>, now: &Asked) -> Vec<Problem> {
    let cuts = now.apis.iter().filter_map(|api| Some((api, api.cut.as_ref()?)));
    let known = cuts.filter_map(|(api, cut)| Some((api, cut, about_cut(&cut.code)?)));
    let mut problems: Vec<Problem> = Vec::new();
    for (api, cut, about) in known {
        // HIP on top of CUDA's variable tells the same a second time.
        if problems.iter().all(|other| other.about.kind.id != about.kind.id) {
            problems.push(problem_of_cut(facts, api, cut, about));
        }
    }
    problems
}

fn about_cut(code: &CutCode) -> Option<EnvironmentKind> {
    Some(match code {
        CutCode::OutOfRange => kinds::OUT_OF_RANGE,
        CutCode::NotAllowed | CutCode::NoSuchGpu => kinds::FOREIGN_UUID,
        CutCode::Duplicate => kinds::DUPLICATE,
        CutCode::MixedKinds => kinds::MIXED_KINDS,
        _ => return None,
    })
}

fn problem_of_cut(facts: &Facts<'_>, api: &Api, cut: &Cut, about: EnvironmentKind) -> Problem {
    let named_gpus = facts.gpus().iter().filter(|gpu| {
        let uuid = gpu.uuid.as_deref().unwrap_or_default();
        cut.code == CutCode::NotAllowed && cut.entry.len() > 4 && uuid.starts_with(&cut.entry)
    });
    let gpus = named_gpus.map(|gpu| gpu.key.clone()).collect();
    let result = match &api.gpus {
        Some(keys) => format!("what is left is {}", named(facts, keys)),
        None => "what is left is not known".to_owned(),
    };
    let sure = api.confidence == Certainty::Documented;
    Problem {
        variable: api.variable.clone(),
        clause: format!(
            "{}: entry {}, {}; {result}",
            asks(&api.variable, api.raw.as_deref()),
            cut.position,
            cut.why
        ),
        gpus,
        confidence: if sure { Confidence::Certain } else { Confidence::Likely },
        by_rule: cut.code == CutCode::NotAllowed,
        about,
    }
}

/// A choice of devices that changed after the start, if other GPUs result.
fn changed(facts: &Facts<'_>, visible: &Visible) -> Option<Problem> {
    let (before, now) = (&visible.at_exec, &visible.live);
    let same = before.gpus.is_some() && before.gpus == now.gpus && before.instances == now.instances;
    if visible.changed != Some(true) || same {
        return None;
    }
    let of = |asked: &Asked| {
        let variable =
            asked.apis.first().map_or("CUDA_VISIBLE_DEVICES", |api| api.variable.as_str()).to_owned();
        let result = asked.gpus.as_ref().map_or("not known which".to_owned(), |keys| named(facts, keys));
        format!("{} ({result})", asks(&variable, asked.raw.as_deref()))
    };
    let keys = [before, now].into_iter().flat_map(|asked| asked.gpus.iter().flatten());
    let sure = if before.confidence == now.confidence { confidence(now) } else { Confidence::Likely };
    Some(Problem {
        variable: now.apis.first().map_or("CUDA_VISIBLE_DEVICES", |api| api.variable.as_str()).to_owned(),
        about: kinds::CHANGED,
        clause: format!("at execve {}; now {}", of(before), of(now)),
        gpus: keys.cloned().collect(),
        confidence: sure,
        by_rule: false,
    })
}

/// Finds a process of a job whose rules let it open more than it was allocated, and
/// that asks for GPUs of others.
fn others_gpus(facts: &Facts<'_>, tenant: &Tenant<'_>, now: &Asked, process: &Process) -> Option<Problem> {
    // Rules in force confine it to what they allow; what they allow too much
    // is another finding.
    if tenant.is_constrained() {
        return None;
    }
    let set = &tenant.sets.allocated;
    let allocated = set.gpus.as_ref().filter(|gpus| !gpus.is_empty())?;
    let asked = now.gpus.as_ref()?;
    let foreign: BTreeSet<GpuKey> = asked
        .iter()
        .filter(|key| !allocated.contains(key) && !set.unknown.contains(key))
        .filter(|key| !facts.config.sharing.has_gpu(key))
        .cloned()
        .collect();
    if foreign.is_empty() || facts.config.sharing.whole_node {
        return None;
    }
    let about = match now.state {
        ValueState::Unset if computes(process) => kinds::UNSET_BUT_GPU,
        ValueState::Value if is_slurms(facts, now, allocated) => kinds::INDEX_SPACE,
        _ => return None,
    };
    let variable = now.apis.first().map_or("CUDA_VISIBLE_DEVICES", |api| api.variable.as_str());
    let source = set.source_name();
    let sure =
        if set.source == Some(AllocationSource::Claimed) { Confidence::Claimed } else { confidence(now) };
    Some(Problem {
        variable: variable.to_owned(),
        about,
        clause: format!(
            "{}: it gets {}; it was allocated {} ({source})",
            asks(variable, now.raw.as_deref()),
            named(facts, asked),
            named(facts, allocated)
        ),
        gpus: foreign,
        confidence: if confidence_of(set) { sure } else { Confidence::Likely },
        by_rule: false,
    })
}

/// Every process of a job inherits its environment, shells too: only one that
/// uses GPUs is a problem.
fn computes(process: &Process) -> bool {
    process.held.as_ref().is_some_and(|held| !held.is_empty())
        || process.held_shared.iter().any(SharedRole::hints_at_computing)
}

/// Whether the value is a list of Slurm's numbers of what it allocated. Then nobody
/// chose those GPUs: CUDA counts them in another order.
fn is_slurms(facts: &Facts<'_>, now: &Asked, allocated: &[GpuKey]) -> bool {
    let gpus = facts.gpus();
    let own: Vec<u32> =
        gpus.iter().filter(|gpu| allocated.contains(&gpu.key)).filter_map(|gpu| gpu.slurm_index).collect();
    let numbers: Option<Vec<u32>> =
        now.raw.as_deref().and_then(|raw| raw.split(',').map(|number| number.trim().parse().ok()).collect());
    numbers.is_some_and(|numbers| !numbers.is_empty() && numbers.iter().all(|number| own.contains(number)))
}

/// Whether the allocation is known from its source alone, without doubts.
fn confidence_of(set: &GpuSet) -> bool {
    set.source == Some(AllocationSource::Claimed) || set.why.is_empty()
}

/// The list that a process asks with, in words: `CUDA_VISIBLE_DEVICES="0,7"`.
fn asks(variable: &str, raw: Option<&str>) -> String {
    match raw {
        Some(raw) => format!("{variable}={:?}", wording::short(raw, 80)),
        None => format!("{variable} is not set"),
    }
}

/// GPUs in words.
fn named(facts: &Facts<'_>, keys: &[GpuKey]) -> String {
    wording::gpus(keys.iter().filter_map(|key| facts.gpus().iter().find(|gpu| gpu.key == *key)))
}

/// `certain` for what a document settles, `likely` for a model of the driver.
fn confidence(asked: &Asked) -> Confidence {
    if asked.confidence == Certainty::Documented { Confidence::Certain } else { Confidence::Likely }
}
