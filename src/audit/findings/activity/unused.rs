//! Finds jobs that use fewer GPUs than they were allocated.

use super::evidence::{about, active_of, listed, may_miss};
use super::pages::UNUSED;
use crate::audit::facts::{Facts, Tenant};
use crate::audit::{finding, wording};
use crate::model::Confidence;
use crate::report::{ActiveProcess, Activity, Finding, Gpu};

/// Work that began this many seconds ago shows what a job uses.
const SETTLED: f64 = 600.0;

/// One finding for each job.
pub(super) fn find(facts: &mut Facts<'_>, activity: &Activity) -> Vec<Finding> {
    if !activity.whole_node {
        return Vec::new();
    }
    let is_whole = |tenant: &&Tenant| {
        tenant.sets.shares.is_empty()
            && tenant.sets.allocated.instances.is_empty()
            && !may_miss(facts, activity, tenant)
    };
    facts.tenants.iter().filter(is_whole).filter_map(|tenant| report(facts, activity, tenant)).collect()
}

fn report(facts: &Facts<'_>, activity: &Activity, tenant: &Tenant) -> Option<Finding> {
    let sets = &tenant.sets;
    let used = sets.used.as_ref().filter(|used| used.why.is_empty() && used.unknown.is_empty())?;
    let (allocated, used) = (sets.allocated.gpus.as_ref()?, used.gpus.as_ref()?);
    let is_used = |gpu: &&Gpu| used.contains(&gpu.key);
    let gpus = facts.inspection.gpus().iter().filter(|gpu| allocated.contains(&gpu.key));
    let (its, idle): (Vec<&Gpu>, Vec<&Gpu>) = gpus.partition(is_used);
    let active = active_of(activity, tenant);
    if its.is_empty()
        || idle.is_empty()
        || !sets.allocated.unknown.is_empty()
        || !is_settled(activity, &active)
    {
        return None;
    }
    let owner = wording::owner(&sets.owner);
    let names = |gpus: &[&Gpu]| wording::list(&gpus.iter().map(|gpu| wording::gpu(gpu)).collect::<Vec<_>>());
    Some(Finding {
        processes: listed(facts, &active),
        devices: idle.iter().map(|gpu| finding::gpu(gpu)).collect(),
        confidence: if sets.allocated.is_trusted() { Confidence::Likely } else { Confidence::Claimed },
        evidence: vec![
            format!("it was allocated {} GPUs ({})", allocated.len(), sets.allocated.source_name()),
            format!("its processes handed work to {}", names(&its)),
            format!("and none to {} since their calls are counted", names(&idle)),
        ],
        excuses: vec![
            "every use is of a GPU that is known, and the calls of all its processes are counted".to_owned(),
            "it has worked for more than ten minutes".to_owned(),
        ],
        advice: "Tell the user: CUDA_VISIBLE_DEVICES, or a program for one GPU in a job for several."
            .to_owned(),
        ..about(
            facts,
            &UNUSED,
            tenant,
            format!("{owner} has {} GPUs and uses {}", allocated.len(), its.len()),
        )
    })
}

/// Whether the work of these processes began long enough ago.
fn is_settled(activity: &Activity, active: &[&ActiveProcess]) -> bool {
    let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
    let first = active
        .iter()
        .flat_map(|process| &process.gpus)
        .filter_map(|one| time(one.first_used.as_deref()?))
        .min();
    let worked = time(&activity.at).zip(first);
    worked.is_some_and(|(at, first)| at.duration_since(first).as_secs_f64() >= SETTLED)
}
