//! Finds mistakes in the environment of one process: lists that end early, values that
//! changed, and, where no rules confine a job, values that select GPUs of others.

use std::collections::BTreeSet;

use super::kinds::EnvironmentKind;
use super::{asks, confidence, kinds, named};
use crate::audit::facts::Facts;
use crate::audit::tenants::Tenant;
use crate::model::{AllocationSource, Certainty, Confidence, CutCode, SharedRole, ValueState};
use crate::report::{Api, Asked, Cut, GpuSet, Process, Visible};

/// One problem of one process.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) about: EnvironmentKind,
    pub(super) clause: String,
    pub(super) gpus: BTreeSet<String>,
    pub(super) confidence: Confidence,
    pub(super) by_rule: bool,
}

/// Lists that end where their author did not mean it. `-1` and words, which
/// people write to hide all GPUs, are no problem.
pub(super) fn cuts(facts: &Facts<'_>, now: &Asked) -> Vec<Problem> {
    let cuts = now.apis.iter().filter_map(|api| Some((api, api.cut.as_ref()?)));
    let known = cuts.filter_map(|(api, cut)| Some((api, cut, about_cut(&cut.code)?)));
    let mut problems: Vec<Problem> = Vec::new();
    for (api, cut, about) in known {
        // HIP on top of CUDA's variable tells the same a second time.
        if problems.iter().all(|other| other.about.kind.id != about.kind.id) {
            problems.push(problem(facts, api, cut, about));
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

fn problem(facts: &Facts<'_>, api: &Api, cut: &Cut, about: EnvironmentKind) -> Problem {
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
pub(super) fn changed(facts: &Facts<'_>, visible: &Visible) -> Option<Problem> {
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
        about: kinds::CHANGED,
        clause: format!("at execve {}; now {}", of(before), of(now)),
        gpus: keys.cloned().collect(),
        confidence: sure,
        by_rule: false,
    })
}

/// Finds a process of a job whose rules let it open more than it was allocated, and
/// that asks for GPUs of others.
pub(super) fn others_gpus(
    facts: &Facts<'_>,
    tenant: &Tenant<'_>,
    now: &Asked,
    process: &Process,
) -> Option<Problem> {
    // Rules in force confine it to what they allow; what they allow too much
    // is another finding.
    if tenant.is_constrained() {
        return None;
    }
    let set = &tenant.sets.allocated;
    let allocated = set.gpus.as_ref().filter(|gpus| !gpus.is_empty())?;
    let asked = now.gpus.as_ref()?;
    let foreign: BTreeSet<String> = asked
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
/// uses GPUs is a others_gpus.
fn computes(process: &Process) -> bool {
    process.held.as_ref().is_some_and(|held| !held.is_empty())
        || process.held_shared.iter().any(SharedRole::hints_at_computing)
}

/// Whether the value is a list of Slurm's numbers of what it allocated. Then nobody
/// chose those GPUs: CUDA counts them in another order.
fn is_slurms(facts: &Facts<'_>, now: &Asked, allocated: &[String]) -> bool {
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
