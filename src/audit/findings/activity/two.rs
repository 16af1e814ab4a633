//! Finds GPUs on which two owners work that share nothing.

use super::super::grants::may_share;
use super::evidence::{about, listed, tenant, use_clause};
use super::pages::TWO;
use crate::audit::facts::{Facts, Tenant};
use crate::audit::{finding, wording};
use crate::model::{Confidence, Owner};
use crate::report::{ActiveProcess, Activity, Finding, Gpu, GpuUse};

/// Whoever made a call in the last so many seconds is at work.
const AT_WORK: f64 = 600.0;

/// A process at work, with its place among the tenants.
type Worker<'a> = (usize, &'a ActiveProcess, &'a GpuUse);

/// One finding for each GPU.
pub(super) fn find(facts: &mut Facts<'_>, activity: &Activity) -> Vec<Finding> {
    let gpus = facts.inspection.gpus().to_vec();
    let exclusive = gpus.iter().filter(|gpu| gpu.mig.is_empty() && !facts.config.sharing.has_gpu(&gpu.key));
    exclusive.filter_map(|gpu| on(facts, activity, gpu)).collect()
}

fn on(facts: &Facts<'_>, activity: &Activity, gpu: &Gpu) -> Option<Finding> {
    let workers = workers(facts, activity, gpu);
    let is_stranger =
        |one: &&Worker<'_>| workers.iter().any(|other| one.0 != other.0 && !may_share(facts, one.0, other.0));
    let strangers: Vec<&Worker<'_>> = workers.iter().filter(is_stranger).collect();
    let mut tenants: Vec<usize> = strangers.iter().map(|(tenant, ..)| *tenant).collect();
    tenants.sort_unstable();
    tenants.dedup();
    let rows: Vec<&Tenant> = tenants.iter().filter_map(|tenant| facts.tenants.get(*tenant)).collect();
    let first = rows.first()?;
    let owners: Vec<Owner> = rows.iter().map(|tenant| tenant.sets.owner.clone()).collect();
    let names: Vec<String> = owners.iter().map(wording::owner).collect();
    let processes: Vec<&ActiveProcess> = strangers.iter().map(|(_, process, _)| *process).collect();
    let clause = |(tenant, process, one): &&Worker<'_>| {
        let owner = facts.tenants.get(*tenant).map(|tenant| wording::owner(&tenant.sets.owner));
        format!("{}: {}, as {} tells", owner.unwrap_or_default(), use_clause(process, one), witness(one))
    };
    Some(Finding {
        others: owners.into_iter().skip(1).collect(),
        processes: listed(facts, &processes),
        devices: vec![finding::gpu(gpu)],
        confidence: Confidence::Likely,
        evidence: wording::clauses(strangers.iter().map(clause).collect()),
        excuses: vec![
            "they do not all share GPUs by shard, and do not all by MPS".to_owned(),
            "they are not of one job or pod, and none is inside another".to_owned(),
            "the configuration does not share it (sharing.gpus)".to_owned(),
        ],
        advice: "Find out whose it is (scontrol show job -d, kubectl describe node), and end or confine the other."
            .to_owned(),
        ..about(facts, &TWO, first, format!("{} all work on {}", wording::list(&names), wording::gpu(gpu)))
    })
}

/// The processes at work on a GPU, of all tenants.
fn workers<'a>(facts: &Facts<'_>, activity: &'a Activity, gpu: &Gpu) -> Vec<Worker<'a>> {
    let mut found = Vec::new();
    for process in &activity.processes {
        let Some(tenant) = tenant(facts, process) else { continue };
        let place = facts.tenants.iter().position(|other| other.sets.owner == tenant.sets.owner);
        let is_at_work = |one: &&GpuUse| {
            one.gpu.as_ref() == Some(&gpu.key)
                && one.counts.enqueued() > 0
                && one.idle_seconds.is_some_and(|idle| idle < AT_WORK)
        };
        let its = process.gpus.iter().filter(is_at_work);
        found.extend(its.filter_map(|one| Some((place?, process, one))));
    }
    found
}

fn witness(one: &GpuUse) -> &'static str {
    use crate::model::GpuEvidence as By;
    match one.by {
        By::Driver => "the driver",
        By::Resolved => "its environment",
        By::Held => "the device that it has open",
        By::Unknown => "nobody",
    }
}
