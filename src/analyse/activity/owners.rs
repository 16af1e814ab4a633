//! Sums the use of processes by owner (jobs, pods, containers and units), and the fifth set
//! beside allocated, allowed, asked for and held: the GPUs that calls were made for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::amounts;
use super::amounts::rates;
use crate::model::{CgroupPath, CountTable, GpuKey, InOrder as _, Owner};
use crate::observation::ActivityReading;
use crate::report::{
    ActiveProcess, Activity, Gpu, GpuSet, GpuUse, LostCalls, MemoryUse, NodeAnswer, OwnerActivity, Process,
    Work,
};

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
    owners.order_by_key(|owner| {
        Reverse((owner.interval.map_or(0, |work| work.enqueued()), owner.counts.enqueued()))
    });
    owners
}

fn together(owner: Option<Owner>, processes: &[&ActiveProcess], interval: Option<f64>) -> OwnerActivity {
    let uses: Vec<&GpuUse> = processes.iter().flat_map(|process| &process.gpus).collect();
    let work = uses.iter().filter_map(|one| one.interval).fold(Work::default(), amounts::sum);
    let mut gpus: Vec<GpuKey> =
        uses.iter().filter_map(|one| one.instance.clone().or_else(|| one.gpu.clone())).collect();
    gpus.order();
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

/// What one process uses, and how long ago it did; `None` where that is not known. Whether
/// calls of it are missing.
type Use = (Option<GpuSet>, Option<u64>, bool);

/// Adds what is used to the processes and owners of an answer.
pub(in crate::analyse) fn add(payload: &mut NodeAnswer, activity: &Activity, reading: &ActivityReading) {
    let gpus = payload.gpus.clone();
    let counted: HashMap<(u32, u64), &ActiveProcess> =
        activity.processes.iter().map(|process| ((process.pid, process.start_time), process)).collect();
    let uncovered = reading.sums.uncovered.iter().filter(|one| !one.counted);
    let uncovered: BTreeSet<u32> = uncovered.filter_map(|one| one.pid).collect();
    let mut inside: HashMap<Vec<u8>, Vec<Use>> = HashMap::new();
    let tops = payload
        .owners
        .iter()
        .flatten()
        .map(|owner| (CgroupPath::new(&owner.cgroup).as_bytes().to_vec(), Vec::new()));
    inside.extend(tops);
    for process in payload.cgroups.iter_mut().flat_map(|cgroup| &mut cgroup.processes) {
        let its = counted.get(&(process.pid, process.start_time)).copied();
        process.used = match its {
            Some(its) => Some(with_losses(of_uses(&its.gpus, process, &gpus), its)),
            // Whoever made no call is not in a reading of the whole node, unless his user had
            // no room for one more process.
            None if reading.whole_node
                && !uncovered.contains(&process.pid)
                && !may_be_missing(process.uid, activity) =>
            {
                Some(none())
            }
            None => None,
        };
        let is_lossy = its.map_or(process.used.is_none(), |its| !its.lost.is_empty());
        process.idle_seconds = its.filter(|_| !is_lossy).and_then(idle);
        for path in CgroupPath::new(&process.cgroup).upwards() {
            if let Some(all) = inside.get_mut(path.as_bytes()) {
                all.push((process.used.clone(), process.idle_seconds, is_lossy));
            }
        }
    }
    for owner in payload.owners.iter_mut().flatten() {
        // Without processes there is nobody whose calls could be counted.
        let Some(its) = inside.get(CgroupPath::new(&owner.cgroup).as_bytes()).filter(|its| !its.is_empty())
        else {
            continue;
        };
        owner.used = Some(union(its.iter().map(|(set, ..)| set.as_ref()), &gpus));
        let is_whole = its.iter().all(|(.., is_lossy)| !is_lossy);
        owner.idle_seconds = its.iter().filter_map(|(_, idle, _)| *idle).min().filter(|_| is_whole);
    }
}

/// Tables without which a process or thread is not counted at all.
const WHOLE: [CountTable; 2] = [CountTable::Processes, CountTable::Threads];
/// The first uid that a user namespace usually gives: a process there may be anybody's.
const SUBORDINATE: u32 = 65_536;

/// Whether a process of a user may have made calls that found no room.
pub(in crate::analyse) fn may_be_missing(uid: u32, activity: &Activity) -> bool {
    let is_its = |lost: &LostCalls| lost.uid.is_none_or(|user| user == uid || uid >= SUBORDINATE);
    activity.lost.iter().any(|lost| WHOLE.contains(&lost.map) && is_its(lost))
}

/// Calls that found no room may have been on any GPU.
fn with_losses(mut set: GpuSet, process: &ActiveProcess) -> GpuSet {
    if !process.lost.is_empty() {
        let tables: Vec<String> = process.lost.iter().map(ToString::to_string).collect();
        set.why.push(format!("not all of its calls are counted: no room for its {}", tables.join(", ")));
    }
    set
}

fn none() -> GpuSet {
    GpuSet { gpus: Some(Vec::new()), ..GpuSet::default() }
}

/// How long ago a process made its last call, in whole seconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates; whole seconds will do"
)]
fn idle(process: &ActiveProcess) -> Option<u64> {
    let idle = process.gpus.iter().filter_map(|one| one.idle_seconds).min_by(f64::total_cmp);
    idle.map(|seconds| seconds as u64)
}

/// The GPUs that a process handed work to.
fn of_uses(uses: &[GpuUse], process: &Process, gpus: &[Gpu]) -> GpuSet {
    let mut set = none();
    let certain = set.gpus.get_or_insert_default();
    for one in uses.iter().filter(|one| one.counts.enqueued() > 0) {
        match (&one.gpu, &one.why) {
            (Some(gpu), _) => {
                certain.push(gpu.clone());
                set.instances.extend(one.instance.clone());
            }
            (None, why) => {
                set.why.extend(why.clone());
                // It is one of those that the process has open.
                set.unknown.extend(process.held.clone().unwrap_or_default());
            }
        }
    }
    tidied(set, gpus)
}

/// The union of several processes' sets; not known where one of them is not.
fn union<'a>(sets: impl Iterator<Item = Option<&'a GpuSet>>, gpus: &[Gpu]) -> GpuSet {
    let mut all = none();
    let mut uncounted = 0_usize;
    for set in sets {
        let Some(set) = set else {
            uncounted += 1;
            continue;
        };
        all.gpus.get_or_insert_default().extend(set.gpus.iter().flatten().cloned());
        all.instances.extend(set.instances.iter().cloned());
        all.unknown.extend(set.unknown.iter().cloned());
        all.why.extend(set.why.iter().cloned());
    }
    if uncounted > 0 {
        all.why.push(format!("the calls of {uncounted} of its processes are not counted"));
        if all.gpus.as_ref().is_some_and(Vec::is_empty) {
            all.gpus = None;
        }
    }
    tidied(all, gpus)
}

/// Each once, in the order of the inventory; what is certain is not unknown as well.
fn tidied(mut set: GpuSet, inventory: &[Gpu]) -> GpuSet {
    let place = |key: &GpuKey| inventory.iter().position(|gpu| gpu.key == *key);
    if let Some(gpus) = &mut set.gpus {
        gpus.order_by_key(|key| (place(key), key.clone()));
        gpus.dedup();
    }
    set.instances.order();
    set.instances.dedup();
    set.why.order();
    set.why.dedup();
    let certain = set.gpus.clone().unwrap_or_default();
    set.unknown.retain(|key| !certain.contains(key));
    set.unknown.order_by_key(|key| (place(key), key.clone()));
    set.unknown.dedup();
    set
}
