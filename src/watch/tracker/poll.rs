//! Polls environments for changes that probes missed: each is read in turn and
//! compared with the last.

use std::collections::{BTreeSet, HashMap};

use super::environment::ChangedVariable;
use super::environment::{differences, value};
use super::state::known;
use super::{EACH, PROCESSES, Tracker, subject};
use crate::model::{EventCause, EventKind};
use crate::observation::Environment;
use crate::observe::processes::environment_poll::{PolledEnvironment, PolledEnvironments};
use crate::report::Event;
use crate::watch::EventSubject;

/// Environments that are read again at a time: those of processes whose calls
/// are not seen, of those of which a call was seen but not what it changed, of
/// those that executed a program last, and of all others in turn.
const UNCOVERED: usize = 64;
const DOUBTFUL: usize = 64;
const RECENT: usize = 32;
const OTHERS: usize = 32;

/// Environments as they were read again, to be compared.
#[derive(Debug)]
pub struct Reread {
    /// Each with the number of the process's changes of before.
    seen: Vec<(PolledEnvironment, u64)>,
    /// Processes that could not be read, and why.
    unread: Vec<(u32, String)>,
    /// Processes that are no longer there.
    gone: Vec<u32>,
    /// When that was done, in nanoseconds since boot.
    at: u64,
}

impl Reread {
    /// The processes.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.seen.iter().map(|(peek, _)| peek.pid)
    }

    /// When all of them had been read, in nanoseconds since boot: facts up to
    /// then are to be taken before they are compared.
    pub fn at(&self) -> u64 {
        self.at
    }
}

impl Tracker {
    /// Reads environments again: the first half of finding changes that no probe reported.
    pub fn reread(&mut self) -> Reread {
        let pids = self.in_turn();
        let changes = |pid: &u32| self.processes.get(pid).map_or(0, |state| state.changes);
        let before: HashMap<u32, u64> = pids.iter().map(|pid| (*pid, changes(pid))).collect();
        let PolledEnvironments { read: seen, mut unread } =
            self.node.environments(&pids.iter().copied().collect::<Vec<_>>());
        let there = seen.iter().map(|peek| peek.pid).chain(unread.iter().map(|(pid, _)| *pid));
        let there: BTreeSet<u32> = there.collect();
        unread.append(&mut self.unread);
        let gone: Vec<u32> = pids.difference(&there).copied().collect();
        for pid in &gone {
            self.uncovered.remove(*pid);
            self.recent.forget(*pid);
        }
        let seen = seen.into_iter().map(|peek| {
            let changes = before.get(&peek.pid).copied().unwrap_or(0);
            (peek, changes)
        });
        Reread { seen: seen.collect(), unread, gone, at: self.node.now() }
    }

    /// The processes whose turn it is.
    fn in_turn(&mut self) -> BTreeSet<u32> {
        let mut all = self.uncovered.next(UNCOVERED);
        all.extend(self.doubtful.take(DOUBTFUL));
        all.extend(self.recent.last(RECENT));
        all.extend(self.turns.next(OTHERS));
        all
    }

    /// The second half, after the facts of the meantime were taken: what
    /// changed without a call that was seen.
    pub fn compare(&mut self, reread: Reread) -> Vec<Event> {
        let seen = reread.seen.into_iter();
        let mut events: Vec<Event> =
            seen.flat_map(|(peek, changes)| self.compare_one(peek, changes)).collect();
        events.extend(self.cannot_read(reread.unread));
        events.extend(reread.gone.into_iter().filter_map(|pid| self.vanished(pid)));
        events.extend(self.too_many());
        events.extend(self.decoding());
        events
    }

    /// What could not be reported because a user has too many processes, or all have.
    fn too_many(&mut self) -> Option<Event> {
        let unreported: Vec<_> = std::mem::take(&mut self.unreported).into_iter().collect();
        let why = format!("more than {EACH} processes of one user are not followed, nor {PROCESSES} of all");
        (!unreported.is_empty()).then(|| Event::lost(unreported).because(why))
    }

    /// Processes that could not be read at their turn: each is said once until it can be.
    fn cannot_read(&mut self, unread: Vec<(u32, String)>) -> Option<Event> {
        let is_new = |(pid, _): &(u32, String)| match self.processes.get_mut(pid) {
            Some(state) => !std::mem::replace(&mut state.unread, true),
            None => !self.node.has_ended(*pid),
        };
        let new: Vec<(u32, String)> = unread.into_iter().filter(is_new).collect();
        let (pid, why) = new.first()?;
        let whose = match new.len() - 1 {
            0 => format!("the environment of process {pid}"),
            others => format!("the environments of process {pid} and {others} others"),
        };
        let why = format!("{whose} cannot be read: what changes without a call is not known ({why})");
        Some(Event::now(EventKind::Uncovered).because(why))
    }

    /// A process whose end was among the events that were lost.
    fn vanished(&mut self, pid: u32) -> Option<Event> {
        let subject = self.processes.get(&pid)?.subject.clone();
        if !self.node.has_ended(pid) {
            return None;
        }
        let now = self.node.now();
        let event = self.ended(now, &subject)?;
        Some(event.because("its end was not seen: it is gone"))
    }

    fn compare_one(&mut self, peek: PolledEnvironment, changes: u64) -> Vec<Event> {
        let state = self.processes.get_mut(&peek.pid);
        let same = |state: &mut super::TrackedProcess| {
            state.unread = false;
            state.subject.start_time == peek.start_time && state.changes == changes
        };
        if !state.is_some_and(same) {
            return Vec::new();
        }
        let subject = subject(&peek);
        let unreadable = peek.environment.missing().map(str::to_owned);
        match known(peek) {
            Some(now) => {
                let events = self.found(&subject, now);
                self.weigh(subject.pid);
                events
            }
            None => self.stays_unknown(&subject, unreadable.as_deref()).into_iter().collect(),
        }
    }

    /// A process whose environment cannot be read. If a call changed something
    /// that is not known, that is said once.
    fn stays_unknown(&mut self, subject: &EventSubject, why: Option<&str>) -> Option<Event> {
        let state = self.state(subject)?;
        if !std::mem::take(&mut state.doubtful) {
            return None;
        }
        state.begin();
        state.reported = true;
        let why = why.unwrap_or("no reason is known");
        let why = format!(
            "it changed a variable whose name could not be read, and its environment cannot be read either ({why})"
        );
        let now = self.node.now();
        let now = self.time(now);
        Some(self.about(EventKind::Uncovered, now, subject).because(why))
    }

    /// What a process has in memory, where every call up to then was reported.
    fn found(&mut self, subject: &EventSubject, now: Environment) -> Vec<Event> {
        let Some(state) = self.state(subject) else { return Vec::new() };
        if state.environment.as_ref() == Some(&now) {
            state.doubtful = false;
            return Vec::new();
        }
        let asked = self.asked(subject);
        let Some(state) = self.state(subject) else { return Vec::new() };
        let Some(before) = state.replace(Some(now.clone())) else { return Vec::new() };
        let names = differences(&before, &now);
        let at = self.node.now();
        let change = |name: &String| {
            let (old, new, before) = (value(&before, name), value(&now, name), asked.clone());
            self.changed(subject, ChangedVariable { at, how: EventCause::Memory, name, old, new, before })
        };
        names.iter().filter_map(change).collect()
    }

    /// The calls of a process are not seen, for this reason.
    pub(super) fn not_covered(&mut self, pid: u32, why: String) -> Option<Event> {
        let mut polled = self.node.environments(&[pid]);
        let Some(peek) = polled.read.pop() else {
            let (pid, unread) = polled.unread.pop()?;
            let why = format!("process {pid}: {why}; its environment cannot be read either ({unread})");
            return Some(Event::now(EventKind::Uncovered).because(why));
        };
        let subject = subject(&peek);
        let unreadable = peek.environment.missing().map(str::to_owned);
        let environment = known(peek);
        let state = self.state(&subject)?;
        let account = state.subject.account;
        if environment.is_some() {
            state.replace(environment);
        }
        let why = match unreadable {
            Some(unreadable) => format!("{why}; its environment cannot be read again either ({unreadable})"),
            None => {
                self.uncovered.insert(account, pid);
                format!("{why}; its environment is read again every second")
            }
        };
        let now = self.node.now();
        let now = self.time(now);
        Some(self.about(EventKind::Uncovered, now, &subject).because(why))
    }
}
