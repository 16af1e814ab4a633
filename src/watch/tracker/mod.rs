//! Turns facts into events. It keeps what each process in scope asks for, so that an event
//! can say what it was before and what it is now.
//!
//! Here is what is kept, and which fact goes where; `state` is one process,
//! `environment` its variables, `life` its beginning and end with what it asks for, `poll`
//! finds changes that no probe reported.

mod baseline;
mod environment;
mod life;
mod moved;
mod poll;
mod state;
#[cfg(test)]
mod tests;
mod turns;
mod weights;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use crate::model::Time;
use crate::observation::Environment;
use crate::observe::Options;
use crate::observe::processes::environment_poll::PolledEnvironment;
use crate::report::{Event, Gpu};
use crate::watch::node::{LiveNode, NodeReader};
use crate::watch::{EventSubject, Fact, ProcessScope};
use baseline::Portion;
use moved::Move;
use moved::UndecidedMoves;
use state::Gaps;
use state::{EnvironmentReading, TrackedProcess};
use turns::Recent;
use turns::Turns;
use weights::Weights;

pub use baseline::Baseline;
pub use poll::Reread;

/// Processes that are kept at most: of one account, and of all.
const EACH: usize = 1 << 16;
const PROCESSES: usize = 1 << 18;

/// Keeps what processes ask for.
#[derive(Debug)]
pub struct Tracker {
    node: Box<dyn NodeReader>,
    /// Whose moves are reported, and where cgroup2 is mounted.
    scope: ProcessScope,
    root: PathBuf,
    processes: HashMap<u32, TrackedProcess>,
    gaps: Gaps,
    /// How often nothing could be said of an account's processes because there
    /// are too many.
    unreported: BTreeMap<Option<u32>, u64>,
    /// All of them, to be read again in turn.
    turns: Turns,
    /// Those whose calls are not seen.
    uncovered: Turns,
    /// Those of which a call was seen but not what it changed.
    doubtful: Turns,
    /// Those that executed a program last.
    recent: Recent,
    /// Moves of which it is not known yet what they change.
    undecided: UndecidedMoves,
    /// Those that could not be read when the watch began, which is still to be said.
    unread: Vec<(u32, String)>,
    /// The one that ended last, and who answered for it.
    gone: Option<(u32, Option<u32>)>,
    /// How much is kept of environments.
    weights: Weights,
}

impl Tracker {
    /// Knows nothing yet, and tells of everybody.
    pub fn new(options: Options) -> Self {
        Self::of(Box::new(LiveNode::new(options)))
    }

    /// The same for another node than the running one.
    fn of(node: Box<dyn NodeReader>) -> Self {
        Self {
            node,
            scope: ProcessScope { all: true, ..ProcessScope::default() },
            root: PathBuf::new(),
            processes: HashMap::new(),
            gaps: Gaps::default(),
            unreported: BTreeMap::new(),
            turns: Turns::default(),
            uncovered: Turns::default(),
            doubtful: Turns::default(),
            recent: Recent::default(),
            undecided: UndecidedMoves::default(),
            unread: Vec::new(),
            gone: None,
            weights: Weights::default(),
        }
    }

    /// Tells only of moves of these processes, or into and out of these cgroups
    /// of the hierarchy that is mounted at `root`: the kernel tells of more.
    #[must_use]
    pub fn within(self, scope: ProcessScope, root: &Path) -> Self {
        Self { scope, root: root.to_owned(), ..self }
    }

    /// Takes environments that were read when the source had begun, so that no
    /// change falls between.
    pub fn learn(&mut self, baseline: Baseline) {
        baseline.finish().into_iter().for_each(|portion| self.learn_portion(portion));
    }

    fn learn_portion(&mut self, Portion { begun, ended, polled }: Portion) {
        self.unread.extend(polled.unread);
        for polled in polled.read {
            let pid = polled.pid;
            let Some(state) = self.state(&subject(&polled)) else { continue };
            if let Some(environment) = state::known(polled) {
                state.learn(EnvironmentReading { begun, ended, environment });
            }
            self.weigh(pid);
        }
    }

    /// The node's GPUs as of the last event.
    pub fn gpus(&self) -> &[Gpu] {
        self.node.gpus()
    }

    /// The user who answers for a process that is kept or was the last to end;
    /// `None` where that is not known.
    pub fn account(&self, pid: u32) -> Option<u32> {
        let gone = self.gone.filter(|(gone, _)| *gone == pid).and_then(|(_, account)| account);
        self.processes.get(&pid).map_or(gone, |state| state.subject.account)
    }

    /// The events that a fact makes.
    pub fn take(&mut self, fact: Fact) -> Vec<Event> {
        let pid = fact.subject().map(|subject| subject.pid);
        let events = self.events(fact);
        if let Some(pid) = pid {
            self.weigh(pid);
        }
        events
    }

    fn events(&mut self, fact: Fact) -> Vec<Event> {
        match fact {
            Fact::Set { at, subject, how, name, value, keep } => {
                self.set(at, &subject, how, name, value, keep).into_iter().collect()
            }
            Fact::Unnamed { subject, .. } => {
                self.unnamed(&subject);
                Vec::new()
            }
            Fact::Cleared { at, subject } => self.cleared(at, &subject),
            Fact::Exec { at, subject, env_end, environment } => {
                let environment = environment.or_else(|| self.environment_at_exec(&subject, env_end));
                self.executed(at, &subject, environment).into_iter().collect()
            }
            Fact::Fork { subject, parent, parent_start, .. } => {
                self.forked(&subject, parent, parent_start);
                Vec::new()
            }
            Fact::Moved { at, subject, from, thread, born } => {
                self.moved(&subject, Move { at, from, thread, born }).into_iter().collect()
            }
            Fact::Exit { at, subject } => self.ended(at, &subject).into_iter().collect(),
            Fact::Driver { at, subject, driver, result } => vec![self.driver(at, &subject, driver, result)],
            Fact::Uncovered { pid, why } => self.not_covered(pid, why).into_iter().collect(),
            Fact::Overlooked { account } => vec![life::overlooked(account)],
            Fact::Uncounted { why } => vec![life::uncounted(&why)],
            Fact::Lost(lost) => vec![Event::lost(lost)],
            Fact::Gap { at, account } => {
                self.gaps.add(account, at);
                Vec::new()
            }
        }
    }

    /// The state of a process: a new one if the pid is another process's now.
    /// `None` where too many are kept already, which is reported.
    fn state(&mut self, subject: &EventSubject) -> Option<&mut TrackedProcess> {
        let full = self.processes.len() >= PROCESSES || self.turns.count(subject.account) >= EACH;
        if full && !self.processes.contains_key(&subject.pid) {
            *self.unreported.entry(subject.account).or_default() += 1;
            return None;
        }
        let state = self.processes.entry(subject.pid).or_default();
        if state.subject.start_time != subject.start_time {
            *state = TrackedProcess::new(subject, self.gaps.of(subject.account).count);
        }
        state.reckon(&self.gaps);
        if subject.account.is_some() && state.subject.account != subject.account {
            state.answer_for(subject.account, &self.gaps);
        }
        // What was read from /proc has no cgroup id, and no account.
        if state.subject != *subject {
            let account = state.subject.account;
            state.subject = EventSubject { account, ..subject.clone() };
        }
        self.turns.insert(state.subject.account, subject.pid);
        Some(state)
    }

    /// The time of nanoseconds since boot.
    fn time(&mut self, at: u64) -> Time {
        self.node.time(at).into()
    }

    /// The environment that the process has in memory now.
    fn read(&mut self, subject: &EventSubject) -> Option<EnvironmentReading> {
        let begun = self.node.now();
        // Of one that cannot be read the environment is not known.
        let peek = self.node.environments(&[subject.pid]).read.pop();
        let environment: Environment =
            state::known(peek.filter(|peek| peek.start_time == subject.start_time)?)?;
        Some(EnvironmentReading { begun, ended: self.node.now(), environment })
    }
}

fn subject(peek: &PolledEnvironment) -> EventSubject {
    let (pid, start_time, uid) = (peek.pid, peek.start_time, peek.uid);
    EventSubject { pid, start_time, uid, account: None, comm: peek.comm.clone(), cgroup: 0 }
}
