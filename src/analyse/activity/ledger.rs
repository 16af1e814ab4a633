//! Adds up what each owner did from its first call on. The sums of processes that have
//! ended stay with their owner, so that they never go down.

use std::collections::{BTreeMap, BTreeSet};

use super::amounts;
use super::process::{Known, by_device};
use crate::model::Owner;
use crate::observation::{ActivityReading, ErrorCount, GpuTotals, OwnerTotals, ProcessActivity};
use crate::report::{ActiveProcess, Work};

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
    used: BTreeSet<(Option<String>, Option<String>)>,
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
    gpu: Option<&String>,
    instance: Option<&String>,
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
