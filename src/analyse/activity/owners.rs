//! Sums the use of processes by owner: jobs, pods, containers and units.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::amounts::{self, rates};
use crate::model::{CountTable, Owner};
use crate::report::{ActiveProcess, Activity, GpuUse, MemoryUse, OwnerActivity, Work};

/// What the processes of each owner did, the busiest first.
pub(super) fn of(activity: &Activity) -> Vec<OwnerActivity> {
    let mut by_owner: BTreeMap<Option<Owner>, Vec<&ActiveProcess>> = BTreeMap::new();
    for process in &activity.processes {
        by_owner.entry(process.owner.as_ref().map(whole)).or_default().push(process);
    }
    let one = |(owner, processes): (Option<Owner>, Vec<&ActiveProcess>)| {
        together(owner, &processes, activity.interval_seconds)
    };
    let mut owners: Vec<OwnerActivity> = by_owner.into_iter().map(one).collect();
    owners.sort_by_key(|owner| {
        Reverse((owner.interval.map_or(0, |work| work.enqueued()), owner.counts.enqueued()))
    });
    owners
}

fn together(owner: Option<Owner>, processes: &[&ActiveProcess], interval: Option<f64>) -> OwnerActivity {
    let uses: Vec<&GpuUse> = processes.iter().flat_map(|process| &process.gpus).collect();
    let work = uses.iter().filter_map(|one| one.interval).fold(Work::default(), amounts::sum);
    let mut gpus: Vec<String> =
        uses.iter().filter_map(|one| one.instance.clone().or_else(|| one.gpu.clone())).collect();
    gpus.sort();
    gpus.dedup();
    OwnerActivity {
        owner,
        processes: processes.len(),
        gpus,
        unknown_gpus: uses.iter().filter(|one| one.gpu.is_none()).count(),
        counts: uses.iter().map(|one| one.counts).fold(Work::default(), amounts::sum),
        interval: interval.map(|_| work),
        per_second: interval.and_then(|seconds| rates(&work, seconds)),
        memory: uses.iter().map(|one| one.memory).fold(MemoryUse::default(), amounts::memory_sum),
        idle_seconds: uses.iter().filter_map(|one| one.idle_seconds).min_by(f64::total_cmp),
        waiting_seconds: uses.iter().filter_map(|one| one.waiting_seconds).max_by(f64::total_cmp),
        lost: lost_of(processes),
    }
}

/// The tables that had no room for something of any of them, each once.
fn lost_of(processes: &[&ActiveProcess]) -> Vec<CountTable> {
    let mut all: Vec<CountTable> = Vec::new();
    for table in processes.iter().flat_map(|process| &process.lost) {
        if !all.contains(table) {
            all.push(table.clone());
        }
    }
    all
}

/// The job that a step or task is part of; anything else is whole.
pub(super) fn whole(owner: &Owner) -> Owner {
    Owner { step: None, het_component: None, task: None, part: None, ..owner.identity() }
}
