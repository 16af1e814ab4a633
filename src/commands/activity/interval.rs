//! What is observed for one interval: the processes that made calls, and the GPUs.

use std::time::Instant;

use crate::commands::invocation::Invocation;
use crate::observation::{ActivityReading, Observation};
use crate::observe::{self, Options};

/// The observation that a reading is joined with.
pub(super) fn observe(invocation: &Invocation<'_>, reading: ActivityReading) -> Observation {
    let deadline = invocation.global.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let options = Options { detail: true, deadline, ..invocation.options() };
    let alive = reading.sums.processes.iter().filter(|process| process.ended_ns.is_none());
    let quiet = reading.sums.quiet.iter().map(|process| process.pid);
    let mut pids: Vec<u32> = alive.map(|process| process.pid).chain(quiet).collect();
    pids.sort_unstable();
    pids.dedup();
    let seen = if pids.is_empty() { None } else { observe::processes(&options, &pids).ok() };
    let mut observation = seen.unwrap_or_else(|| observe::gpus(&options));
    observation.activity = Some(Box::new(reading));
    observation
}
