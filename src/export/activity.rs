//! What owners do with their GPUs, where a running `gpumap activity` counts it.
//!
//! Gauges are those of the last interval of that gpumap. Counters are of all that an owner
//! did since it was counted first: the sums of processes that have ended stay with it.

use std::collections::BTreeMap;

use super::metric::{
    ACTIVITY_ALL_PROCESSES, ACTIVITY_CALL, ACTIVITY_COPIED, ACTIVITY_COPIED_BYTES, ACTIVITY_FAILED,
    ACTIVITY_IDLE, ACTIVITY_LAUNCHED, ACTIVITY_LAUNCHES, ACTIVITY_LOST, ACTIVITY_MEMORY, ACTIVITY_PARTIAL,
    ACTIVITY_PROCESSES, ACTIVITY_READ, ACTIVITY_WAITED, ACTIVITY_WAITING,
};
use super::metric::{Family, Metric, count};
use super::node::seconds;
use super::owners::{OwnerName, OwnerNames};
use crate::model::{InOrder as _, Owner};
use crate::report::{Activity, OwnerActivity, OwnerWork, Work};

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
    .into_iter()
    .chain(totals(&activity.totals, names))
    .collect()
}

/// The counters. Owners without processes have some too: a job that began and ended between
/// two looks is in the sums of its site. Those that are here come first, then those that
/// ended last.
fn totals(totals: &[OwnerWork], names: &OwnerNames<'_>) -> Vec<Family> {
    let mut by_name: BTreeMap<OwnerName, Vec<&OwnerWork>> = BTreeMap::new();
    for one in totals {
        let name = OwnerName::of(one.owner.as_ref().unwrap_or(&Owner::default()));
        by_name.entry(name).or_default().push(one);
    }
    let mut rows: Vec<(OwnerName, Vec<&OwnerWork>)> = by_name.into_iter().collect();
    rows.order_by_key(|(name, all)| {
        (!names.kept.contains_key(name), std::cmp::Reverse(all.iter().map(|one| one.until.clone()).max()))
    });
    rows.truncate(names.limit);
    let each = |metric: &'static Metric, value: fn(&OwnerWork) -> f64| {
        let one = |(name, all): &(OwnerName, Vec<&OwnerWork>)| {
            (name.after([]), all.iter().map(|one| value(one)).sum::<f64>())
        };
        Family::of(metric, rows.iter().map(one))
    };
    vec![
        each(ACTIVITY_LAUNCHED, |one| sum(one, |work| count(work.launches) + count(work.graph_launches))),
        each(ACTIVITY_COPIED_BYTES, |one| sum(one, |work| count(work.copied_bytes()))),
        each(ACTIVITY_WAITED, |one| sum(one, |work| work.wait_seconds + work.copy_wait_seconds)),
        each(ACTIVITY_FAILED, |one| {
            sum(one, |work| count(work.failed_calls) + count(work.failed_allocations))
        }),
        each(ACTIVITY_ALL_PROCESSES, |one| count(one.processes)),
    ]
}

fn sum(one: &OwnerWork, value: fn(&Work) -> f64) -> f64 {
    one.gpus.iter().map(|gpu| value(&gpu.counts)).sum()
}
