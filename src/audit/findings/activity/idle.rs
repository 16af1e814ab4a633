//! Finds GPUs that are held and not used.

use super::evidence::{about, active_of, may_miss, processes_of};
use super::pages::IDLE;
use crate::audit::facts::{Facts, Tenant};
use crate::audit::{finding, wording};
use crate::model::Confidence;
use crate::report::{ActiveProcess, Activity, Finding, Gpu, GpuUse, Process};

const HOUR: f64 = 3600.0;

/// One finding for each owner and GPU.
pub(super) fn find(facts: &mut Facts<'_>, activity: &Activity) -> Vec<Finding> {
    let limit = f64::from(facts.config.activity.idle_hours) * HOUR;
    if !activity.whole_node || counted_seconds(activity) < limit {
        return Vec::new();
    }
    let gpus = facts.inspection.gpus().to_vec();
    let mut findings = Vec::new();
    for tenant in facts.tenants.iter().filter(|tenant| !may_miss(facts, activity, tenant)) {
        let its = active_of(activity, tenant);
        findings.extend(gpus.iter().filter_map(|gpu| report(facts, tenant, &its, gpu, limit)));
    }
    findings
}

/// How long calls are counted.
fn counted_seconds(activity: &Activity) -> f64 {
    let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
    let counted = time(&activity.at).zip(time(&activity.since));
    counted.map_or(0.0, |(at, since)| at.duration_since(since).as_secs_f64())
}

fn report(
    facts: &Facts<'_>,
    tenant: &Tenant,
    active: &[&ActiveProcess],
    gpu: &Gpu,
    limit: f64,
) -> Option<Finding> {
    let holds = |it: &&Process| it.held.as_ref().is_some_and(|held| held.contains(&gpu.key));
    let holders: Vec<&Process> = processes_of(facts, tenant).filter(holds).collect();
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
    let owner = wording::owner(&tenant.sets.owner);
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
            facts,
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
