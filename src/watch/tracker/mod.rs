//! From facts to events: what each process in scope asks for is kept, so that
//! an event can say what it was before and what it is now.
//!
//! Here is what is kept and how facts are told apart; `state` is one process,
//! `changes` are its variables, `life` its beginning and end, `again` finds
//! what no call told, `words` makes events.

mod again;
mod changes;
mod effect;
mod environment;
mod last_set;
mod life;
mod mapped;
mod place;
mod remember;
mod resolve;
mod state;
#[cfg(test)]
mod tests;
mod words;

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::observation::Environment;
use crate::observe::Options;
use crate::observe::process::peek::{self, Peek};
use crate::report::{Event, Gpu};
use crate::watch::clock::{Clock, now_ns};
use crate::watch::{Fact, Subject};
use resolve::Resolver;

use state::{Memory, State};

pub use again::Reread;
pub use last_set::LastSet;
pub use words::event;

/// Processes that are kept at most.
const PROCESSES: usize = 1 << 18;

/// Keeps what processes ask for.
#[derive(Debug)]
pub struct Tracker {
    resolver: Resolver,
    clock: Clock,
    processes: HashMap<u32, State>,
    /// How often events were lost, and when for the last time at the latest:
    /// any of them may have been about any process.
    gaps: u64,
    gap_at: u64,
    uncovered: BTreeSet<u32>,
    /// The processes that executed a program last.
    recent: VecDeque<u32>,
    /// The last process that was read again.
    turn: u32,
}

impl Tracker {
    /// Knows nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            resolver: Resolver::new(options),
            clock: Clock::now(),
            processes: HashMap::new(),
            gaps: 0,
            gap_at: 0,
            uncovered: BTreeSet::new(),
            recent: VecDeque::new(),
            turn: 0,
        }
    }

    /// Reads the environments of processes that run already. To be called when
    /// the source has begun, so that no change falls between.
    pub fn learn(&mut self, pids: impl IntoIterator<Item = u32>) {
        let own = std::process::id();
        for pid in pids.into_iter().filter(|pid| *pid != own) {
            let begun = now_ns();
            let Some(peek) = peek::live(self.resolver.proc(), [pid]).pop() else { continue };
            let Some(state) = self.state(&subject(&peek)) else { continue };
            if let Some(environment) = state::known(peek) {
                state.learn(Memory { begun, ended: now_ns(), environment });
            }
        }
    }

    /// The node's GPUs as of the last event.
    pub fn gpus(&self) -> &[Gpu] {
        &self.resolver.gpus
    }

    /// The events that a fact makes.
    pub fn take(&mut self, fact: Fact) -> Vec<Event> {
        match fact {
            Fact::Set { at, subject, how, name, value, keep } => {
                self.set(at, &subject, how, name, value, keep).into_iter().collect()
            }
            Fact::Cleared { at, subject } => self.cleared(at, &subject),
            Fact::Exec { at, subject, env_end, environment } => {
                let environment = environment.or_else(|| self.given(&subject, env_end));
                self.executed(at, &subject, environment).into_iter().collect()
            }
            Fact::Fork { subject, parent, .. } => {
                self.forked(&subject, parent);
                Vec::new()
            }
            Fact::Exit { at, subject } => self.ended(at, &subject).into_iter().collect(),
            Fact::Driver { at, subject, driver, result } => vec![self.driver(at, &subject, driver, result)],
            Fact::Uncovered { pid, why } => self.not_covered(pid, why).into_iter().collect(),
            Fact::Lost(lost) => vec![Event { lost: Some(lost), ..event("lost", None) }],
            Fact::Gap { at } => {
                self.gaps += 1;
                self.gap_at = at;
                Vec::new()
            }
        }
    }

    /// The state of a process: a new one if the pid is another process's now.
    /// `None` where too many are kept already.
    fn state(&mut self, subject: &Subject) -> Option<&mut State> {
        let full = self.processes.len() >= PROCESSES;
        if full && !self.processes.contains_key(&subject.pid) {
            return None;
        }
        let state = self.processes.entry(subject.pid).or_default();
        if state.subject.start_time != subject.start_time {
            *state = State::new(subject, self.gaps);
        }
        if state.gaps != self.gaps {
            state.forget(self.gap_at);
            state.gaps = self.gaps;
        }
        // What was read from /proc has no cgroup id.
        if state.subject != *subject {
            state.subject = subject.clone();
        }
        Some(state)
    }

    /// RFC 3339 of nanoseconds since boot.
    fn time(&mut self, at: u64) -> String {
        self.clock.time(at).to_string()
    }

    /// The environment that the process has in memory now.
    fn read(&self, subject: &Subject) -> Option<Memory> {
        let begun = now_ns();
        let peek = peek::live(self.resolver.proc(), [subject.pid]).pop();
        let environment: Environment =
            state::known(peek.filter(|peek| peek.start_time == subject.start_time)?)?;
        Some(Memory { begun, ended: now_ns(), environment })
    }
}

fn subject(peek: &Peek) -> Subject {
    let (pid, start_time, uid) = (peek.pid, peek.start_time, peek.uid);
    Subject { pid, start_time, uid, comm: peek.comm.clone(), cgroup: 0 }
}
