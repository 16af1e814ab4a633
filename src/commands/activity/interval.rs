//! What is observed for one interval: the processes that made calls, and the GPUs.

use std::time::Instant;

use crate::commands::invocation::Invocation;
use crate::model::ProblemCode;
use crate::observation::{ActivityReading, Observation, Problem};
use crate::observe::{self, ObserveError, Options};

/// The observation that a reading is joined with.
pub(super) fn observe(invocation: &Invocation<'_>, reading: ActivityReading) -> Observation {
    let deadline = invocation.global.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let options = Options { detail: true, deadline, ..invocation.options() };
    let alive = reading.sums.processes.iter().filter(|process| process.ended_ns.is_none());
    let quiet = reading.sums.quiet.iter().map(|process| process.pid);
    let mut pids: Vec<u32> = alive.map(|process| process.pid).chain(quiet).collect();
    pids.sort_unstable();
    pids.dedup();
    let seen = (!pids.is_empty()).then(|| observe::processes(&options, &pids));
    let mut observation = match seen {
        Some(Ok(seen)) => seen,
        None => observe::gpus(&options),
        Some(Err(error)) => {
            let mut gpus = observe::gpus(&options);
            gpus.errors.extend(unread(&error));
            gpus
        }
    };
    observation.activity = Some(Box::new(reading));
    observation
}

/// What is missing where none of the processes could be observed. Those that made calls and
/// ended, or left their cgroups, meanwhile are no loss.
fn unread(error: &ObserveError) -> Option<Problem> {
    let is_over = matches!(
        error,
        ObserveError::NoSuchProcess { .. } | ObserveError::CgroupRemoved { .. } | ObserveError::NoCgroupMount
    );
    let (what, why) = ("the processes that made calls".to_owned(), error.to_string());
    (!is_over).then_some(Problem { code: ProblemCode::Observe, what, why, needs: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that only what ended is passed over.
    #[test]
    fn what_is_missing() {
        assert!(unread(&ObserveError::NoSuchProcess { pid: 1, proc: "/proc".into() }).is_none());
        let failed = ObserveError::Process { pid: 1, why: "cannot read".to_owned() };
        assert_eq!(unread(&failed).unwrap().code, ProblemCode::Observe);
    }
}
