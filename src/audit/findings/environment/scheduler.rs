//! Checks environments on a node whose rules confine nobody. There the variable is
//! all that keeps jobs apart, and it can select the wrong GPUs.

use super::evidence::{asks, confidence, named, places};
use super::pages;
use super::problem::Problem;
use crate::audit::access::TenantAccess;
use crate::audit::facts::Facts;
use crate::model::{AllocationSource, Confidence, SharedRole, ValueState};
use crate::report::{Asked, GpuSet, Process};

/// Finds a process of a job whose rules let it open more than it was allocated, and
/// that asks for GPUs of others.
pub(super) fn problem(
    facts: &Facts<'_>,
    access: &TenantAccess,
    tenant: usize,
    now: &Asked,
    process: &Process,
) -> Option<Problem> {
    // Rules in force confine it to what they allow; what they allow too much
    // is another finding.
    access.own.get(tenant).filter(|own| !own.is_constrained())?;
    let set = &facts.tenants.get(tenant)?.sets.allocated;
    let allocated = set.gpus.as_ref().filter(|gpus| !gpus.is_empty())?;
    let asked = now.gpus.as_ref()?;
    let foreign: Vec<String> = asked
        .iter()
        .filter(|key| !allocated.contains(key) && !set.unknown.contains(key))
        .filter(|key| !facts.config.sharing.has_gpu(key))
        .cloned()
        .collect();
    if foreign.is_empty() || facts.config.sharing.whole_node {
        return None;
    }
    let about = match now.state {
        ValueState::Unset if computes(process) => pages::UNSET_BUT_GPU,
        ValueState::Value if is_slurms(facts, now, allocated) => pages::INDEX_SPACE,
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
        gpus: places(facts, &foreign),
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
fn is_slurms(facts: &Facts<'_>, now: &Asked, allocated: &[String]) -> bool {
    let gpus = facts.inspection.gpus();
    let own: Vec<u32> =
        gpus.iter().filter(|gpu| allocated.contains(&gpu.key)).filter_map(|gpu| gpu.slurm_index).collect();
    let numbers: Option<Vec<u32>> = now
        .raw
        .as_deref()
        .map(|raw| raw.split(',').map(|number| number.trim().parse().ok()).collect())
        .unwrap_or(None);
    numbers.is_some_and(|numbers| !numbers.is_empty() && numbers.iter().all(|number| own.contains(number)))
}

/// Whether the allocation is known from its source alone, without doubts.
fn confidence_of(set: &GpuSet) -> bool {
    set.source == Some(AllocationSource::Claimed) || set.why.is_empty()
}
