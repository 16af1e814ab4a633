//! What owners did from begin to end, as a reading keeps it.

use super::amounts::{self, seconds};
use super::clock::Clock;
use super::error_name;
use crate::observation::{ErrorCount, Observation, OwnerTotals};
use crate::report::{self, CallError, GpuWork, Work};

/// The totals of an observation's reading, the busiest first.
pub(super) fn of(observation: &Observation) -> Vec<report::OwnerWork> {
    let Some(reading) = observation.activity.as_deref() else { return Vec::new() };
    let clock = Clock::of(reading);
    let mut all: Vec<report::OwnerWork> = reading.totals.iter().map(|totals| owner(clock, totals)).collect();
    all.sort_by_cached_key(|one| {
        let work = one.gpus.iter().map(|gpu| gpu.counts.enqueued()).fold(0, u64::saturating_add);
        (std::cmp::Reverse(work), one.owner.clone())
    });
    all
}

fn owner(clock: Clock, totals: &OwnerTotals) -> report::OwnerWork {
    let lasted = totals.until_ns.saturating_sub(totals.since_ns);
    let gpus = totals.gpus.iter().filter_map(|gpu| {
        let used = gpu.used_ns.min(lasted);
        let counts = amounts::sum(amounts::of_stream(&gpu.streams), amounts::of_context(&gpu.contexts));
        // Calls of which the GPU became known later are with that one now.
        let is_something = counts != Work::default() || gpu.most_bytes > 0;
        is_something.then(|| GpuWork {
            gpu: gpu.gpu.clone(),
            instance: gpu.instance.clone(),
            counts,
            now_bytes: gpu.contexts.bytes.saturating_add(gpu.contexts.physical_bytes),
            peak_bytes: gpu.peak_bytes,
            peak_at_most_bytes: gpu.most_bytes.max(gpu.peak_bytes),
            used_seconds: seconds(used),
            idle_share: (lasted > 0).then(|| 1.0 - seconds(used) / seconds(lasted)),
        })
    });
    report::OwnerWork {
        owner: totals.owner.clone(),
        is_nobodys: totals.is_nobodys,
        since: clock.time(totals.since_ns),
        until: clock.time(totals.until_ns),
        seconds: seconds(lasted),
        processes: totals.processes,
        alive: totals.alive,
        partial: totals.partial,
        lost: totals.lost.clone(),
        errors: totals.errors.iter().map(error).collect(),
        gpus: gpus.collect(),
    }
}

fn error(error: &ErrorCount) -> CallError {
    CallError {
        api: error.api,
        code: error.code,
        name: error_name::of(error.api, error.code).map(str::to_owned),
        count: error.count,
        interval: None,
        sticky: error_name::is_sticky(error.api, error.code),
    }
}
