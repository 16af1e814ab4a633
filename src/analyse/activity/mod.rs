//! What processes do with their GPUs: the counts of their calls, joined with whose
//! they are and with the four sets.
//!
//! Facts are one reading of the counts and an observation of the node, answers a
//! [`report::Activity`](crate::report::Activity). What lies between two readings is
//! their difference; [`Follower`] keeps what that takes from one to the next.

mod amounts;
mod clock;
mod device;
mod error_name;
mod ledger;
mod neighbours;
mod owners;
mod process;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use amounts::{Since, rates, seconds};
use clock::Clock;
use ledger::Ledger;
use neighbours::{Looks, Neighbours};
use process::{Known, Reader};

use super::joined_node::JoinedNode;
use super::scope::cgroups_and_owners;
use super::{AnalyseError, CallerAllocation};
use crate::observation::{Activity, ActivityReading, LostRoom, Observation, OwnerTotals, QuietProcess};
use crate::owner::JobName;
use crate::policy::TimeLimit;
use crate::report::{
    self, ActiveProcess, ActivityAnswer, CountedLibrary, LostCalls, NodeAnswer, QuietHolder, Work,
};
pub(super) use owners::add as add_used;

/// A process, by what never changes: before and after an execve it is another.
type ProcessKey = (u32, u64, u64);

/// Follows the counts from reading to reading.
#[derive(Debug, Default)]
pub struct Follower {
    /// The reading before.
    before: Option<Activity>,
    /// What is known of the processes of the last reading: those that end are reported
    /// once more when nothing can be observed of them any longer.
    known: HashMap<ProcessKey, Known>,
    /// Whether to list the streams one by one.
    streams: bool,
    /// What was seen of processes about their first calls.
    looks: Looks,
    /// What owners did from their first calls on.
    ledger: Ledger,
}

impl Follower {
    /// One that has seen nothing yet. `streams`: whether its answers list the streams
    /// one by one.
    pub fn new(streams: bool) -> Self {
        Self { streams, ..Self::default() }
    }

    /// Counts from this reading on: the next answer tells what happened since.
    pub fn begin(&mut self, sums: &Activity) {
        self.before = Some(sums.clone());
    }

    /// Goes on with the totals of a gpumap that counted before.
    pub fn resume(&mut self, totals: Vec<OwnerTotals>) {
        self.ledger.resume(totals);
    }

    /// Looks at processes that are about to make their first call, or just made it. The
    /// look began and ended at these moments of `CLOCK_BOOTTIME`.
    ///
    /// # Errors
    ///
    /// As [`super::node()`].
    pub fn look(
        &mut self,
        observation: &Observation,
        (from, until): (u64, u64),
        limit: &TimeLimit,
    ) -> Result<(), AnalyseError> {
        let mut join = JoinedNode::new(observation, limit);
        let answer = cgroups_and_owners(&mut join, &CallerAllocation::default())?;
        self.looks.add(&Neighbours::new(&join, &answer), from, until);
        Ok(())
    }

    /// Adds to the last reading what is known of its processes and owners, for those who
    /// read it later.
    pub fn keep(&self, reading: &mut ActivityReading) {
        for process in &mut reading.sums.processes {
            let key = (process.pid, process.start_time, process.id);
            process.resolved = self.known.get(&key).map(Known::resolved).unwrap_or_default();
        }
        reading.totals = self.ledger.totals();
        reading.forgotten_totals = self.ledger.forgotten();
    }

    /// What the observation's reading tells, and what happened since the one before.
    /// The answer has the activity and the node's GPUs.
    ///
    /// # Errors
    ///
    /// As [`super::node()`].
    pub fn report(
        &mut self,
        observation: &Observation,
        granted: &CallerAllocation,
        limit: &TimeLimit,
    ) -> Result<ActivityAnswer, AnalyseError> {
        let mut join = JoinedNode::new(observation, limit);
        let answer = cgroups_and_owners(&mut join, granted)?;
        let activity = observation.activity.as_deref().map(|reading| {
            let activity = self.read(reading, &join, &answer);
            self.before = Some(reading.sums.clone());
            Box::new(activity)
        });
        Ok(ActivityAnswer { gpus: join.gpus, activity })
    }

    /// One reading, beside the answer of `node` from the same observation.
    fn read(
        &mut self,
        reading: &ActivityReading,
        join: &JoinedNode<'_>,
        answer: &NodeAnswer,
    ) -> report::Activity {
        let clock = Clock::of(reading);
        let before = self.before.as_ref().filter(|before| is_earlier(before, &reading.sums));
        let since = Since::new(before);
        let interval = before.map(|before| seconds(reading.sums.clock_ns.saturating_sub(before.clock_ns)));
        let neighbours = Neighbours::new(join, answer);
        let probe = reading.sums.probe_ns.map(seconds);
        let reader =
            Reader { clock, since: &since, interval, neighbours: &neighbours, streams: self.streams, probe };
        let mut known = HashMap::new();
        let mut processes: Vec<ActiveProcess> = Vec::new();
        self.ledger.begin();
        // By id, so that what is alike below stands in the same order each time.
        let mut in_order: Vec<_> = reading.sums.processes.iter().collect();
        in_order.sort_by_key(|counted| counted.id);
        for counted in in_order {
            let key = (counted.pid, counted.start_time, counted.id);
            let mut its = self.known.remove(&key).unwrap_or_default();
            if its.first_look.is_nothing() {
                its.first_look = self.looks.of(counted);
            }
            let process = reader.process(counted, &mut its);
            self.ledger.add(reading, counted, &process, &its);
            processes.push(process);
            known.insert(key, its);
        }
        self.ledger.end(reading.sums.clock_ns, before.map(|before| before.clock_ns));
        let counted: HashSet<(u32, u64)> = known.keys().map(|key| (key.0, key.1)).collect();
        self.looks.keep_only(&counted, before.map_or(0, |before| before.clock_ns));
        self.known = known;
        processes.sort_by_cached_key(|process| {
            (Reverse(busy(process)), process.pid, process.start_time, process.ended_at.clone())
        });
        let activity = Self::frame(reading, clock, join);
        let activity = report::Activity { interval_seconds: interval, processes, ..activity };
        let quiet = quiet(&reading.sums, clock, &neighbours, &activity);
        with_totals(report::Activity { quiet, ..activity })
    }

    /// What a reading tells beside the processes.
    fn frame(reading: &ActivityReading, clock: Clock, join: &JoinedNode<'_>) -> report::Activity {
        let sums = &reading.sums;
        let library = |library: &crate::observation::ActivityLibrary| CountedLibrary {
            path: library.path.lossy().into_owned(),
            api: library.api,
            since: clock.time(library.since_ns),
            functions: library.functions,
        };
        report::Activity {
            since: clock.time(sums.since_ns),
            at: reading.at.clone(),
            age_seconds: clock.age(&join.observation.taken_at).filter(|age| *age > 0.0),
            whole_node: reading.whole_node,
            launches_timed_one_in: sums.sampled_every,
            engine: sums.engine.clone(),
            lost: sums.lost.iter().map(|lost| lost_calls(lost, join)).collect(),
            probe_seconds: sums.probe_ns.map(seconds),
            libraries: sums.libraries.iter().map(library).collect(),
            uncovered: sums.uncovered.clone(),
            ..report::Activity::default()
        }
    }
}

/// The processes that hold GPUs and made no call that was counted.
fn quiet(
    sums: &Activity,
    clock: Clock,
    neighbours: &Neighbours<'_>,
    activity: &report::Activity,
) -> Vec<QuietHolder> {
    let holder = |quiet: &QuietProcess| {
        let (cgroup, process) = neighbours.there((quiet.pid, quiet.start_time))?;
        Some(QuietHolder {
            pid: quiet.pid,
            start_time: quiet.start_time,
            user: process.user.clone(),
            comm: process.comm.clone(),
            cgroup: cgroup.path.clone(),
            owner: cgroup.owner.clone(),
            since: clock.time(quiet.since_ns),
            gpus: process.held.clone().filter(|held| !held.is_empty())?,
            partial: owners::may_be_missing(process.uid, activity),
        })
    };
    sums.quiet.iter().filter_map(holder).collect()
}

fn lost_calls(lost: &LostRoom, join: &JoinedNode<'_>) -> LostCalls {
    let user = lost.uid.and_then(|uid| join.user(uid)).map(|name| name.lossy().into_owned());
    LostCalls { map: lost.map.clone(), count: lost.count, uid: lost.uid, user }
}

/// Whether a reading is one of the same counts, made before.
fn is_earlier(before: &Activity, now: &Activity) -> bool {
    before.since_ns == now.since_ns && before.clock_ns <= now.clock_ns
}

/// What an observation's reading tells of the processes that the answer of `node`
/// has.
pub(super) fn of_present(join: &JoinedNode<'_>, answer: &NodeAnswer) -> Option<report::Activity> {
    let reading = join.observation.activity.as_deref()?;
    let mut activity = Follower::default().read(reading, join, answer);
    let processes = answer.cgroups.iter().flat_map(|cgroup| &cgroup.processes);
    let present: HashMap<u32, u64> = processes.map(|process| (process.pid, process.start_time)).collect();
    activity.processes.retain(|process| {
        process.ended_at.is_none() && present.get(&process.pid) == Some(&process.start_time)
    });
    // Of single processes nobody asks what became of others.
    if join.observation.pids.is_empty() {
        activity.totals = ledger::totals_of(join.observation);
    }
    Some(with_totals(activity))
}

/// What jobs did from begin to end, or all owners where none is named, as an observation's
/// reading keeps it: the answer of `gpumap activity --summary`. Whether something of it is
/// not known.
pub fn activity_summary(
    observation: &Observation,
    jobs: &[JobName],
    limit: &TimeLimit,
) -> (ActivityAnswer, bool) {
    let join = JoinedNode::new(observation, limit);
    let mut is_unknown = false;
    let activity = observation.activity.as_deref().map(|reading| {
        let frame = Follower::frame(reading, Clock::of(reading), &join);
        let (activity, unknown) = ledger::of_jobs(observation, reading, frame, jobs);
        is_unknown = unknown;
        Box::new(activity)
    });
    (ActivityAnswer { gpus: join.gpus, activity }, is_unknown)
}

/// The sums over all processes and over those of each owner.
fn with_totals(mut activity: report::Activity) -> report::Activity {
    let uses = || activity.processes.iter().flat_map(|process| &process.gpus);
    let total = uses().map(|one| one.counts).fold(Work::default(), amounts::sum);
    let interval = uses().filter_map(|one| one.interval).fold(Work::default(), amounts::sum);
    let owners = owners::of(&activity);
    activity.total = total;
    activity.interval = activity.interval_seconds.map(|_| interval);
    activity.per_second = activity.interval_seconds.and_then(|seconds| rates(&interval, seconds));
    activity.owners = owners;
    activity
}

/// How much a process did: in the interval, then at all.
fn busy(process: &ActiveProcess) -> (u64, u64) {
    let sum = |of: &dyn Fn(&report::GpuUse) -> u64| process.gpus.iter().map(of).fold(0, u64::saturating_add);
    (sum(&|one| one.interval.map_or(0, |work| work.enqueued())), sum(&|one| one.counts.enqueued()))
}
