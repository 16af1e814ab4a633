//! What is kept of one process, and where events about it may have been lost.
//!
//! Its environment is followed call by call from where it was known: from its
//! execve, its parent, or memory. Memory may be ahead of the calls that are
//! still to be reported, so for those it does not say what was before.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use jiff::Timestamp;

use super::Tracker;
use super::environment::{Effect, shorten, value};
use crate::model::InOrder as _;
use crate::observation::{Answer, Environment};
use crate::observe::processes::environment_poll::PolledEnvironment;
use crate::report::Asked;
use crate::watch::EventSubject;
use crate::watch::node::{CgroupReach, OwnedCgroup};
use crate::watch::state::{LastValue, SavedProcess};

/// An environment that was read from memory, between two moments in
/// nanoseconds since boot.
#[derive(Clone, Debug)]
pub(super) struct EnvironmentReading {
    pub(super) begun: u64,
    pub(super) ended: u64,
    pub(super) environment: Environment,
}

/// One process.
#[derive(Clone, Debug, Default)]
pub(super) struct TrackedProcess {
    pub(super) subject: EventSubject,
    pub(super) place: Option<Rc<OwnedCgroup>>,
    /// As far as it is known; `None` where it is not.
    pub(super) environment: Option<Environment>,
    /// What was read, as long as calls of before that may be still to come.
    pub(super) memory: Option<EnvironmentReading>,
    /// The variables that calls reported since it was read.
    followed: Vec<&'static str>,
    /// The gaps of its account that are reckoned with here.
    pub(super) gaps: u64,
    /// A variable was changed of which the name could not be read.
    pub(super) doubtful: bool,
    /// What the environment asks for, by the serial number of an observation.
    asked: Option<(u64, Asked)>,
    /// Whether changes have an effect.
    pub(super) effect: Effect,
    /// Whether it was said that it cannot be read again.
    pub(super) unread: bool,
    /// Whether there was an event about it.
    pub(super) reported: bool,
    /// Number of changes and of other readings, to tell whether there was one meanwhile.
    pub(super) changes: u64,
    /// When the last change was, by a variable's name.
    pub(super) last_set: BTreeMap<String, Timestamp>,
}

impl TrackedProcess {
    /// A process of which nothing is known yet.
    pub(super) fn new(subject: &EventSubject, gaps: u64) -> Self {
        Self { subject: subject.clone(), gaps, ..Self::default() }
    }

    /// Takes what was read from memory for its environment.
    pub(super) fn learn(&mut self, memory: EnvironmentReading) {
        self.replace(Some(memory.environment.clone()));
        self.memory = Some(memory);
    }

    /// Nothing is known but what calls will tell.
    pub(super) fn begin(&mut self) {
        let cut = Some("its environment is not known".to_owned());
        self.replace(Some(Environment { variables: Vec::new(), cut }));
    }

    /// Another environment, known exactly; the one of before.
    pub(super) fn replace(&mut self, environment: Option<Environment>) -> Option<Environment> {
        self.asked = None;
        self.memory = None;
        self.doubtful = false;
        self.followed.clear();
        self.changes += 1;
        std::mem::replace(&mut self.environment, environment)
    }

    /// The same environment and place as another process: its parent.
    pub(super) fn inherit(&mut self, parent: &Self) {
        self.environment.clone_from(&parent.environment);
        self.memory.clone_from(&parent.memory);
        self.followed.clone_from(&parent.followed);
        self.doubtful = parent.doubtful;
        self.place.clone_from(&parent.place);
        self.effect = parent.effect.inherited();
    }

    /// Changes the environment, if it is known, as a call did.
    pub(super) fn change(&mut self, name: &'static str, change: impl FnOnce(&mut Environment)) {
        self.asked = None;
        if let Some(environment) = &mut self.environment {
            change(environment);
        }
        if self.memory.is_some() && !self.followed.contains(&name) {
            self.followed.push(name);
        }
    }

    /// Whether the environment says what a variable was just before a call
    /// that returned at this moment.
    pub(super) fn is_followed(&mut self, name: &str, at: u64) -> bool {
        if self.memory.as_ref().is_some_and(|memory| at > memory.ended) {
            self.memory = None;
        }
        self.environment.is_some()
            && !self.doubtful
            && (self.memory.is_none() || self.followed.contains(&name))
    }

    /// Reckons with what its account lost since it was looked at last.
    pub(super) fn reckon(&mut self, gaps: &Gaps) {
        let now = gaps.of(self.subject.account);
        if self.gaps != now.count {
            self.forget(now.at);
            self.gaps = now.count;
        }
    }

    /// Another account answers for it: it changed its user, or its account was
    /// not known. What the new one lost before may have been about it, but for
    /// what was reckoned with already.
    pub(super) fn answer_for(&mut self, account: Option<u32>, gaps: &Gaps) {
        let now = gaps.of(account);
        if self.subject.account.is_some() && now.count > 0 {
            self.forget(now.at);
        }
        self.subject.account = account;
        self.gaps = now.count;
    }

    /// Calls were lost, no later than this moment: what was read after it is
    /// still right, as it was read.
    pub(super) fn forget(&mut self, at: u64) {
        match self.memory.take().filter(|memory| memory.begun > at) {
            Some(memory) => self.learn(memory),
            None => drop(self.replace(None)),
        }
    }

    /// What it asks for with its environment.
    pub(super) fn asked(&mut self, known: &CgroupReach) -> Asked {
        if let Some((serial, asked)) = &self.asked
            && *serial == known.serial
        {
            return asked.clone();
        }
        let asked = known.asked(self.environment.as_ref());
        self.asked = Some((known.serial, asked.clone()));
        asked
    }
}

/// The environment that was read, if it was.
pub(super) fn known(peek: PolledEnvironment) -> Option<Environment> {
    let Answer::Known(mut environment) = peek.environment else { return None };
    shorten(&mut environment);
    Some(environment)
}

impl Tracker {
    /// The last changes of every process that is there.
    pub fn last_set(&self) -> Vec<SavedProcess> {
        let lost = |state: &TrackedProcess| {
            state.doubtful || state.gaps != self.gaps.of(state.subject.account).count
        };
        let known = self.processes.values().filter(|state| !lost(state));
        let mut all: Vec<SavedProcess> = known.filter_map(of).collect();
        all.order_by_key(|one| one.pid);
        all
    }
}

fn of(state: &TrackedProcess) -> Option<SavedProcess> {
    let environment = state.environment.as_ref()?;
    let one = |(name, at): (&String, &Timestamp)| {
        Some(LastValue { name: name.clone(), at: (*at).into(), value: value(environment, name)? })
    };
    let variables: Vec<_> = state.last_set.iter().filter_map(one).collect();
    let (pid, start_time) = (state.subject.pid, state.subject.start_time);
    (!variables.is_empty()).then_some(SavedProcess { pid, start_time, variables })
}

/// How often events were lost, and when for the last time at the latest, in
/// nanoseconds since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) count: u64,
    pub(super) at: u64,
}

impl Mark {
    fn add(&mut self, at: u64) {
        self.count += 1;
        self.at = self.at.max(at);
    }
}

/// Gaps of all accounts. Their number is that of the accounts that lost
/// something, which the kernel side bounds.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    accounts: HashMap<u32, Mark>,
    /// Of users who are not kept apart.
    others: Mark,
    all: Mark,
}

impl Gaps {
    /// Events of an account were lost, no later than this moment; `None`: of
    /// users who are not kept apart.
    pub(super) fn add(&mut self, account: Option<u32>, at: u64) {
        account.map_or(&mut self.others, |account| self.accounts.entry(account).or_default()).add(at);
        self.all.add(at);
    }

    /// What concerns processes of an account; `None`: of one that is not known,
    /// which any gap concerns.
    pub(super) fn of(&self, account: Option<u32>) -> Mark {
        let Some(account) = account else { return self.all };
        let own = self.accounts.get(&account).copied().unwrap_or_default();
        Mark { count: own.count + self.others.count, at: own.at.max(self.others.at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Variable;

    const A: &str = "CUDA_VISIBLE_DEVICES";
    const B: &str = "HIP_VISIBLE_DEVICES";

    fn environment(value: &str) -> Environment {
        let variables = vec![Variable { name: A.to_owned(), value: value.into(), cut: false }];
        Environment { variables, cut: None }
    }

    fn learned() -> TrackedProcess {
        let mut state = TrackedProcess::default();
        state.learn(EnvironmentReading { begun: 10, ended: 12, environment: environment("9") });
        state
    }

    /// Make sure that memory says nothing of what was before calls that are
    /// older, until these calls do.
    #[test]
    fn memory_is_ahead() {
        let mut state = learned();
        assert!(!state.is_followed(A, 5));
        state.change(A, |all| *all = environment("5"));
        assert!(state.is_followed(A, 6) && !state.is_followed(B, 6));
        assert!(state.is_followed(B, 13));
        assert!(state.memory.is_none());
    }

    /// Make sure that after a loss nothing is known but what was read since,
    /// and of that nothing that an older call reported.
    #[test]
    fn losses() {
        let mut state = learned();
        state.change(A, |all| *all = environment("5"));
        state.forget(8);
        assert_eq!(state.environment, Some(environment("9")));
        assert!(!state.is_followed(A, 9));
        state.forget(11);
        assert_eq!(state.environment, None);
        let mut state = learned();
        assert!(state.is_followed(A, 20));
        state.forget(8);
        assert_eq!(state.environment, None);
    }
}

#[cfg(test)]
mod gaps_tests {
    use super::*;

    /// Make sure that a loss concerns whose it is, and those whose is not known.
    #[test]
    fn whose() {
        let mut gaps = Gaps::default();
        gaps.add(Some(1), 10);
        let mark = |count, at| Mark { count, at };
        assert_eq!(
            (gaps.of(Some(1)), gaps.of(Some(2)), gaps.of(None)),
            (mark(1, 10), mark(0, 0), mark(1, 10))
        );
        gaps.add(None, 20);
        assert_eq!(
            (gaps.of(Some(1)), gaps.of(Some(2)), gaps.of(None)),
            (mark(2, 20), mark(1, 20), mark(2, 20))
        );
    }
}
