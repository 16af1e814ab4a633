//! Adds up what each owner did from its first call on, processes that have ended included;
//! what jobs did from begin to end, and what may be missing of it.

use std::collections::{BTreeMap, BTreeSet};

use super::amounts::seconds;
use super::clock::Clock;
use super::process::{Known, by_device};
use super::{amounts, error_name};
use crate::model::{CountTable, GpuKey, InOrder as _, Owner};
use crate::observation::{ActivityReading, ErrorCount, GpuTotals, Observation, OwnerTotals, ProcessActivity};
use crate::owner::JobName;
use crate::report;
use crate::report::{ActiveProcess, CallError, GpuWork, OwnerWork, Unattributed, Work};

/// Owners that are kept. Of a user who has most of them the one goes first that ended first.
const OWNERS: usize = 1024;
/// Codes of errors that are kept of one.
const CODES: usize = 256;

/// All owners.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    owners: BTreeMap<Key, Account>,
    /// How many are kept no longer.
    forgotten: u64,
}

/// Whose processes are added up together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Owner(Box<Owner>),
    Nobody,
    /// Of one user, who may be the user of an owner.
    Unknown(Option<u32>),
}

impl Key {
    fn of(counted: &ProcessActivity, known: &Known) -> Self {
        match &known.owner {
            Some(owner) => Self::Owner(Box::new(super::owners::whole(owner))),
            None if known.is_nobodys() => Self::Nobody,
            None => Self::Unknown(counted.account),
        }
    }

    fn of_totals(totals: &OwnerTotals) -> Self {
        match &totals.owner {
            Some(owner) => Self::Owner(Box::new(owner.clone())),
            None if totals.is_nobodys => Self::Nobody,
            None => Self::Unknown(totals.account),
        }
    }

    fn owner(&self) -> Option<Owner> {
        match self {
            Self::Owner(owner) => Some(owner.as_ref().clone()),
            Self::Nobody | Self::Unknown(_) => None,
        }
    }
}

/// What is kept of one owner.
#[derive(Debug, Default)]
struct Account {
    /// Whether a process of it was added.
    is_known: bool,
    /// The sums of processes that have ended; peaks and times of all.
    past: OwnerTotals,
    /// With those that were there at the last reading.
    now: OwnerTotals,
    /// The GPUs that it used in the last interval.
    used: BTreeSet<(Option<GpuKey>, Option<GpuKey>)>,
}

impl Ledger {
    /// Goes on from what was kept before. Nobody counted in between.
    pub(super) fn resume(&mut self, totals: Vec<OwnerTotals>) {
        for totals in totals {
            let past = OwnerTotals { partial: true, alive: 0, ..totals };
            self.owners.insert(
                Key::of_totals(&past),
                Account { is_known: true, now: past.clone(), past, ..Account::default() },
            );
        }
    }

    /// How many owners there were whose totals are kept no longer.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// All of it.
    pub(super) fn totals(&self) -> Vec<OwnerTotals> {
        self.owners.values().map(|account| account.now.clone()).collect()
    }

    /// Begins a reading.
    pub(super) fn begin(&mut self) {
        for account in self.owners.values_mut() {
            account.now = account.past.clone();
            account.used.clear();
        }
    }

    /// Adds a process of the reading.
    pub(super) fn add(
        &mut self,
        reading: &ActivityReading,
        counted: &ProcessActivity,
        active: &ActiveProcess,
        known: &Known,
    ) {
        let key = Key::of(counted, known);
        let (owner, is_nobodys) = (key.owner(), key == Key::Nobody);
        let account = self.owners.entry(key).or_default();
        if !std::mem::replace(&mut account.is_known, true) {
            let since_ns = counted.since_ns;
            account.past = OwnerTotals {
                owner,
                is_nobodys,
                account: counted.account,
                since_ns,
                until_ns: since_ns,
                ..OwnerTotals::default()
            };
            account.now = account.past.clone();
        }
        add_process(&mut account.now, counted, known, reading.sums.clock_ns);
        if counted.ended_ns.is_some() {
            add_process(&mut account.past, counted, known, reading.sums.clock_ns);
        }
        let did = |work: Work| work != Work::default();
        for one in &active.gpus {
            if one.waiting_seconds.is_some() || one.interval.is_none_or(did) {
                account.used.insert((one.gpu.clone(), one.instance.clone()));
            }
        }
    }

    /// Ends a reading; the one before was at `before`.
    pub(super) fn end(&mut self, clock_ns: u64, before: Option<u64>) {
        for account in self.owners.values_mut() {
            let until = account.now.until_ns.min(clock_ns);
            let from = before.unwrap_or(0).max(account.now.since_ns);
            let length = until.saturating_sub(from);
            for one in &mut account.now.gpus {
                one.peak_bytes = one.peak_bytes.max(memory(&one.contexts));
                let is_used = account.used.contains(&(one.gpu.clone(), one.instance.clone()));
                one.used_ns = one.used_ns.saturating_add(if is_used { length } else { 0 });
                let past = row(&mut account.past.gpus, one.gpu.as_ref(), one.instance.as_ref());
                (past.peak_bytes, past.used_ns) = (one.peak_bytes, one.used_ns);
            }
            account.past.until_ns = account.now.until_ns;
        }
        while self.owners.len() > OWNERS {
            let Some(least) = self.least() else { break };
            self.owners.remove(&least);
            self.forgotten += 1;
        }
    }

    /// Of the user who has most owners, the one that ended first.
    fn least(&self) -> Option<Key> {
        let mut users: BTreeMap<Option<u32>, usize> = BTreeMap::new();
        self.owners.values().for_each(|account| *users.entry(account.now.account).or_default() += 1);
        let (user, _) = users.into_iter().max_by_key(|(_, owners)| *owners)?;
        let its = self.owners.iter().filter(|(_, account)| account.now.account == user);
        its.min_by_key(|(_, account)| (account.now.alive, account.now.until_ns)).map(|(key, _)| key.clone())
    }
}

fn add_process(totals: &mut OwnerTotals, counted: &ProcessActivity, known: &Known, clock_ns: u64) {
    totals.processes = totals.processes.saturating_add(1);
    totals.alive = totals.alive.saturating_add(u64::from(counted.ended_ns.is_none()));
    totals.since_ns = totals.since_ns.min(counted.since_ns);
    totals.until_ns = totals.until_ns.max(counted.ended_ns.unwrap_or(clock_ns));
    totals.partial |= counted.partial;
    for table in &counted.lost {
        if !totals.lost.contains(table) {
            totals.lost.push(table.clone());
        }
    }
    for error in &counted.errors {
        add_error(&mut totals.errors, error);
    }
    for (device, sums) in by_device(counted, &[]) {
        let meaning = known.meaning(device);
        let gpu = meaning.and_then(|meaning| meaning.gpu.as_ref());
        let totals = row(&mut totals.gpus, gpu, meaning.and_then(|meaning| meaning.instance.as_ref()));
        sums.streams.iter().for_each(|stream| amounts::add_stream(&mut totals.streams, stream));
        for context in &sums.contexts {
            amounts::add_context(&mut totals.contexts, context, counted.ended_ns.is_none());
            totals.peak_bytes = totals.peak_bytes.max(context.peak_bytes);
            totals.most_bytes = totals.most_bytes.saturating_add(context.peak_bytes);
        }
    }
}

/// Codes are bounded for each process; an owner may have many of these.
fn add_error(errors: &mut Vec<ErrorCount>, error: &ErrorCount) {
    let is_full = errors.len() >= CODES;
    match errors.iter_mut().find(|one| (one.api, one.code) == (error.api, error.code)) {
        Some(one) => one.count = one.count.saturating_add(error.count),
        None if is_full => {}
        None => errors.push(error.clone()),
    }
}

fn row<'t>(
    gpus: &'t mut Vec<GpuTotals>,
    gpu: Option<&GpuKey>,
    instance: Option<&GpuKey>,
) -> &'t mut GpuTotals {
    let is_it = |one: &GpuTotals| (one.gpu.as_ref(), one.instance.as_ref()) == (gpu, instance);
    let place = gpus.iter().position(is_it).unwrap_or(gpus.len());
    if place == gpus.len() {
        gpus.push(GpuTotals { gpu: gpu.cloned(), instance: instance.cloned(), ..GpuTotals::default() });
    }
    // It is there now.
    &mut gpus[place]
}

fn memory(contexts: &crate::observation::ContextSums) -> u64 {
    contexts.bytes.saturating_add(contexts.physical_bytes)
}

/// The totals of an observation's reading, the busiest first.
pub(super) fn totals_of(observation: &Observation) -> Vec<report::OwnerWork> {
    let Some(reading) = observation.activity.as_deref() else { return Vec::new() };
    let clock = Clock::of(reading);
    let mut all: Vec<report::OwnerWork> = reading.totals.iter().map(|totals| owner(clock, totals)).collect();
    all.order_by_key(|one| {
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

/// The totals of some jobs, or of all owners where none is named. Whether something is not
/// known: numbers of a job that is there are the least that it did, and one that is not there
/// may have made calls.
pub(super) fn of_jobs(
    observation: &Observation,
    reading: &ActivityReading,
    frame: report::Activity,
    jobs: &[JobName],
) -> (report::Activity, bool) {
    let is_asked = |job: &JobName, one: &OwnerWork| one.owner.as_ref().is_some_and(|owner| job.is(owner));
    let mut shown = totals_of(observation);
    shown.retain(|one| jobs.is_empty() || jobs.iter().any(|job| is_asked(job, one)));
    let is_there = |job: &JobName| shown.iter().any(|one| is_asked(job, one));
    let mut unattributed = Unattributed::default();
    if !jobs.iter().all(is_there) {
        unattributed = anybodys(reading, None);
        unattributed.forgotten_owners = reading.forgotten_totals;
        unattributed.is_part_of_node = !reading.whole_node;
    }
    for one in &mut shown {
        let whose = reading.totals.iter().find(|totals| one.owner.is_some() && totals.owner == one.owner);
        let its = whose.map(|whose| anybodys(reading, Some(whose))).unwrap_or_default();
        one.partial |= its != Unattributed::default();
        unattributed = unattributed.most(&its);
    }
    let is_partial = shown.iter().any(|one| one.partial || !one.lost.is_empty());
    let is_unknown = is_partial || unattributed != Unattributed::default();
    let unattributed = Some(unattributed).filter(|it| *it != Unattributed::default());
    (report::Activity { totals: shown, unattributed, ..frame }, is_unknown)
}

/// What may be an owner's: of the same user, or of one who is not known. `None`: of an owner
/// of whom nothing was counted.
fn anybodys(reading: &ActivityReading, owner: Option<&OwnerTotals>) -> Unattributed {
    let user = owner.and_then(|owner| owner.account);
    let is_perhaps_its = |account: Option<u32>| user.is_none() || account.is_none() || account == user;
    let unknown = reading.totals.iter().filter(|one| one.owner.is_none() && !one.is_nobodys);
    let unknown = unknown.filter(|one| is_perhaps_its(one.account)).map(|one| one.processes);
    // What else found no room marks its process, or, of one without an owner, that one's row.
    let concerns = |map: &CountTable| owner.is_none() || *map == CountTable::Processes;
    let lost = reading.sums.lost.iter().filter(|lost| concerns(&lost.map) && is_perhaps_its(lost.uid));
    let uncovered = reading.sums.uncovered.iter().filter(|one| one.function.is_none() && !one.counted);
    Unattributed {
        processes: unknown.fold(0, u64::saturating_add),
        lost: lost.map(|lost| lost.count).fold(0, u64::saturating_add),
        uncovered: uncovered.count(),
        ..Unattributed::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Owner, OwnerKind};
    use crate::observation::{Activity, LostRoom, Uncovered};

    const USER: u32 = 1000;

    fn job(number: u64) -> OwnerTotals {
        let owner = Owner { kind: OwnerKind::Slurm, job_id: Some(number), ..Owner::default() };
        OwnerTotals { owner: Some(owner), account: Some(USER), processes: 1, ..OwnerTotals::default() }
    }

    fn nameless(account: u32, is_nobodys: bool) -> OwnerTotals {
        OwnerTotals { account: Some(account), processes: 2, is_nobodys, ..OwnerTotals::default() }
    }

    /// Whether the summary of job 4711 has unknown parts, and is marked; and what may be its.
    fn told(totals: Vec<OwnerTotals>, lost: Vec<LostRoom>) -> (bool, Option<bool>, Option<Unattributed>) {
        told_of(totals, Activity { lost, ..Activity::default() })
    }

    fn told_of(totals: Vec<OwnerTotals>, sums: Activity) -> (bool, Option<bool>, Option<Unattributed>) {
        let reading = ActivityReading { whole_node: true, sums, totals, ..ActivityReading::default() };
        let observation = Observation { activity: Some(Box::new(reading.clone())), ..Observation::default() };
        let names = [JobName::parse("4711").unwrap()];
        let (answer, is_unknown) = of_jobs(&observation, &reading, report::Activity::default(), &names);
        (is_unknown, answer.totals.first().map(|one| one.partial), answer.unattributed)
    }

    /// Make sure that counts of which the owner is not known mark a job of their user's, and
    /// counts of nobody, or of another user, do not.
    #[test]
    fn of_nobody_knows_whom() {
        let unknown = |processes| Some(Unattributed { processes, ..Unattributed::default() });
        assert_eq!(told(vec![job(4711), nameless(7, true)], Vec::new()), (false, Some(false), None));
        assert_eq!(told(vec![job(4711), nameless(7, false)], Vec::new()), (false, Some(false), None));
        assert_eq!(told(vec![job(4711), nameless(USER, false)], Vec::new()), (true, Some(true), unknown(2)));
        assert_eq!(told(vec![nameless(7, true), job(4712)], Vec::new()), (false, None, None));
        assert_eq!(told(vec![nameless(7, false)], Vec::new()), (true, None, unknown(2)));
    }

    /// Make sure that a process that found no room marks the jobs of its user.
    #[test]
    fn of_processes_without_room() {
        let lost = |map, uid| vec![LostRoom { map, count: 3, uid: Some(uid) }];
        let found = |map, uid| told(vec![job(4711)], lost(map, uid)).0;
        assert!(found(CountTable::Processes, USER) && !found(CountTable::Processes, 7));
        assert!(!found(CountTable::Streams, USER));
        assert!(told(Vec::new(), lost(CountTable::Streams, 7)).0);
    }

    /// Make sure that a file whose calls are not counted marks every job, and one whose calls
    /// are counted does not: the time before the driver is in no totals.
    #[test]
    fn of_files_that_are_not_counted() {
        let found = |counted| {
            let (file, why) = ("/x".into(), "it is locked".to_owned());
            let uncovered = vec![Uncovered { file, function: None, counted, why, pid: Some(9) }];
            told_of(vec![job(4711)], Activity { uncovered, ..Activity::default() }).0
        };
        assert_eq!((found(false), found(true)), (true, false));
    }
}
