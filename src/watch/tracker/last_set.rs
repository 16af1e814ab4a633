//! The last changes of processes, for a state file.

use super::Tracker;
use super::environment::value;
use super::state::TrackedProcess;
use crate::report::Value;

/// A process's last changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSet {
    /// The process.
    pub pid: u32,
    /// Its start time in clock ticks since boot.
    pub start_time: u64,
    /// The variables of the change: name, value and RFC 3339 time.
    pub variables: Vec<(String, Value, String)>,
}

impl Tracker {
    /// The last changes of every process that is there.
    pub fn last_set(&self) -> Vec<LastSet> {
        let lost = |state: &TrackedProcess| {
            state.doubtful || state.gaps != self.gaps.of(state.subject.account).count
        };
        let known = self.processes.values().filter(|state| !lost(state));
        let mut all: Vec<LastSet> = known.filter_map(of).collect();
        all.sort_by_key(|one| one.pid);
        all
    }
}

fn of(state: &TrackedProcess) -> Option<LastSet> {
    let environment = state.environment.as_ref()?;
    let one = |(name, at): (&String, &jiff::Timestamp)| {
        Some((name.clone(), value(environment, name)?, at.to_string()))
    };
    let variables: Vec<_> = state.last_set.iter().filter_map(one).collect();
    let (pid, start_time) = (state.subject.pid, state.subject.start_time);
    (!variables.is_empty()).then_some(LastSet { pid, start_time, variables })
}
