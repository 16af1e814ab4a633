//! What owners do with their GPUs, where a running `gpumap activity` counts it.
//!
//! These are gauges over the last interval of that gpumap and no counters: the counts
//! of a process go with it, so that sums of an owner may fall.

use super::catalogue::{
    ACTIVITY_CALL, ACTIVITY_COPIED, ACTIVITY_IDLE, ACTIVITY_LAUNCHES, ACTIVITY_LOST, ACTIVITY_MEMORY,
    ACTIVITY_PARTIAL, ACTIVITY_PROCESSES, ACTIVITY_READ, ACTIVITY_WAITING,
};
use super::look::seconds;
use super::metric::{Family, Metric, count};
use super::owner_name::OwnerNames;
use crate::model::Owner;
use crate::report::{Activity, OwnerActivity};

pub(super) fn families(activity: Option<&Activity>, names: &OwnerNames<'_>) -> Vec<Family> {
    let Some(activity) = activity else { return Vec::new() };
    let each = |metric: &'static Metric, value: fn(&OwnerActivity) -> Option<f64>| {
        // Processes of which the owner is not known count with the nameless ones.
        let one = |owner: &OwnerActivity| {
            let name = names.kept(owner.owner.as_ref().unwrap_or(&Owner::default()))?;
            Some((name.after([]), value(owner)?))
        };
        Family::of(metric, activity.owners.iter().filter_map(one))
    };
    let lost = activity.lost.iter().map(|lost| lost.count).fold(0, u64::saturating_add);
    vec![
        Family::of(ACTIVITY_READ, seconds(&activity.at).map(|at| (Vec::new(), at))),
        Family::one(ACTIVITY_LOST, count(lost)),
        each(ACTIVITY_PROCESSES, |owner| Some(count(owner.processes as u64))),
        each(ACTIVITY_IDLE, |owner| owner.idle_seconds),
        each(ACTIVITY_LAUNCHES, |owner| owner.per_second.map(|rates| rates.launches + rates.graph_launches)),
        each(ACTIVITY_COPIED, |owner| owner.per_second.map(|rates| rates.copied_bytes)),
        each(ACTIVITY_WAITING, |owner| {
            owner.per_second.map(|rates| rates.wait_seconds + rates.copy_wait_seconds)
        }),
        each(ACTIVITY_CALL, |owner| Some(owner.waiting_seconds.unwrap_or(0.0))),
        each(ACTIVITY_PARTIAL, |owner| (!owner.lost.is_empty()).then_some(1.0)),
        each(ACTIVITY_MEMORY, |owner| Some(count(owner.memory.now_bytes))),
    ]
}
