//! Finds GPUs that are held and not used, and jobs that use fewer GPUs than they were
//! allocated.

use super::evidence::{about, active_of, listed, may_miss, processes_of};
use crate::audit::facts::Facts;
use crate::audit::kind::Kind;
use crate::audit::tenants::Tenant;
use crate::audit::{finding, wording};
use crate::model::{Confidence, Severity};
use crate::report::{ActiveProcess, Activity, Finding, Gpu, GpuUse, Process};

pub(super) const IDLE: Kind = Kind {
    id: "gpu-idle",
    severity: Severity::Note,
    title: "a GPU is held and nothing is done with it",
    page: "\
A job, container or pod holds a GPU, and no call that hands work to it was counted for three hours \
(idle_hours in the section [activity] of the configuration): no launch, no copy, no fill.

Causes: an interactive session that was left open; a program that waits for data; a process that died on \
its GPU (see gpu-error-sticky).

Excuses: calls are counted for less than that long, or not for the whole node; one of the processes that \
hold the GPU is younger, or its calls are not counted; a call whose GPU is not known; a thread that waits \
in a call (see gpu-hang); calls of the owner's user that found no room in the kernel's tables.

What to do: ask the user, or end the job. A program that uses the GPU without the driver's library (see \
gpumap-activity(1)) is not seen: the confidence is `likely`.",
};

pub(super) const UNUSED: Kind = Kind {
    id: "gpus-unused",
    severity: Severity::Note,
    title: "a job was allocated more GPUs than it uses",
    page: "\
The processes of a job handed work to some of its GPUs for more than ten minutes, and to others of them \
none at all: it asks for four and uses one.

Causes: a program for one GPU in a job for several; a CUDA_VISIBLE_DEVICES that hides some; ranks that all \
take device 0.

Excuses: an allocation that is not known; a GPU that a use of which the device is not known may be on; \
processes whose calls are not counted, or found no room in the kernel's tables; calls that are counted for \
less than ten minutes.

What to do: tell the user. What processes did that have ended is not in it, so a job that uses its GPUs one \
after the other is found too: the confidence is `likely`.",
};

const HOUR: f64 = 3600.0;

/// One finding for each owner and GPU.
pub(super) fn idle(facts: &Facts<'_>, activity: &Activity) -> Vec<Finding> {
    let limit = f64::from(facts.config.activity.idle_hours) * HOUR;
    if !activity.whole_node || counted_seconds(activity) < limit {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for tenant in facts.tenants.iter().filter(|tenant| !may_miss(activity, tenant)) {
        let its = active_of(activity, tenant);
        findings.extend(facts.gpus().iter().filter_map(|gpu| report_idle(tenant, &its, gpu, limit)));
    }
    findings
}

/// How long calls are counted.
fn counted_seconds(activity: &Activity) -> f64 {
    activity.at.since(&activity.since).map_or(0.0, |counted| counted.as_secs_f64())
}

fn report_idle(tenant: &Tenant<'_>, active: &[&ActiveProcess], gpu: &Gpu, limit: f64) -> Option<Finding> {
    let holds = |it: &&Process| it.held.as_ref().is_some_and(|held| held.contains(&gpu.key));
    let holders: Vec<&Process> = processes_of(tenant).filter(holds).collect();
    let is_old = |it: &Process| it.used.is_some() && it.age_seconds.is_some_and(|age| seconds(age) >= limit);
    if holders.is_empty() || !holders.iter().all(|it| is_old(it)) {
        return None;
    }
    let uses = active.iter().flat_map(|process| &process.gpus);
    let may_be =
        |one: &&GpuUse| one.gpu.as_ref().is_none_or(|key| *key == gpu.key) && one.counts.enqueued() > 0;
    let idle: Vec<f64> = uses.filter(may_be).map(|one| one.idle_seconds.unwrap_or(0.0)).collect();
    if idle.iter().any(|idle| *idle < limit) {
        return None;
    }
    let least = idle.into_iter().min_by(f64::total_cmp);
    let since = match least {
        Some(idle) => {
            format!("the last call on it was {:.0} hours before the counts were read", (idle / HOUR).floor())
        }
        None => "no call on it was counted since counting began".to_owned(),
    };
    let owner = wording::owner(tenant.owner());
    let hours = (limit / HOUR).round();
    Some(Finding {
        processes: holders.iter().take(finding::LISTED).map(|it| finding::process(it)).collect(),
        devices: vec![finding::gpu(gpu)],
        confidence: Confidence::Likely,
        evidence: vec![since, format!("{} of its processes have it open", holders.len())],
        excuses: vec![
            format!("calls are counted for more than {hours:.0} hours, and the processes are as old"),
            "the calls of all of them are counted, and none is on a GPU that is not known".to_owned(),
            "no call of their users found no room, and no thread of them waits in a call".to_owned(),
        ],
        advice: "Ask the user whether it is needed; end it if not.".to_owned(),
        ..about(
            &IDLE,
            tenant,
            format!("{owner} holds {} and did nothing with it for {hours:.0} hours", wording::gpu(gpu)),
        )
    })
}

#[expect(clippy::cast_precision_loss, reason = "an age in seconds is far below 2^53")]
fn seconds(age: u64) -> f64 {
    age as f64
}

/// Work that began this many seconds ago shows what a job uses.
const SETTLED: f64 = 600.0;

/// One finding for each job.
pub(super) fn unused(facts: &Facts<'_>, activity: &Activity) -> Vec<Finding> {
    if !activity.whole_node {
        return Vec::new();
    }
    let is_whole = |tenant: &&Tenant<'_>| {
        tenant.sets.shares.is_empty()
            && tenant.sets.allocated.instances.is_empty()
            && !may_miss(activity, tenant)
    };
    facts
        .tenants
        .iter()
        .filter(is_whole)
        .filter_map(|tenant| report_unused(facts, activity, tenant))
        .collect()
}

fn report_unused(facts: &Facts<'_>, activity: &Activity, tenant: &Tenant<'_>) -> Option<Finding> {
    let sets = &tenant.sets;
    let used = sets.used.as_ref().filter(|used| used.why.is_empty() && used.unknown.is_empty())?;
    let (allocated, used) = (sets.allocated.gpus.as_ref()?, used.gpus.as_ref()?);
    let is_used = |gpu: &&Gpu| used.contains(&gpu.key);
    let gpus = facts.gpus().iter().filter(|gpu| allocated.contains(&gpu.key));
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
    let names = |gpus: &[&Gpu]| wording::gpus(gpus.iter().copied());
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
        ..about(&UNUSED, tenant, format!("{owner} has {} GPUs and uses {}", allocated.len(), its.len()))
    })
}

/// Whether the work of these processes began long enough ago.
fn is_settled(activity: &Activity, active: &[&ActiveProcess]) -> bool {
    let uses = active.iter().flat_map(|process| &process.gpus);
    let times = uses.filter_map(|one| activity.at.since(one.first_used.as_ref()?));
    times.max().is_some_and(|worked| worked.as_secs_f64() >= SETTLED)
}
