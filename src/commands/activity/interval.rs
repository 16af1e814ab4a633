//! What is observed for one interval: the processes that made calls, and the GPUs; with the
//! time of day of moments of the kernel's clock, the same in each reading.

use std::time::Instant;

use jiff::{SignedDuration, Timestamp};

use crate::commands::invocation::Invocation;
use crate::model::ProblemCode;
use crate::observation::{ActivityReading, Observation, Problem};
use crate::observe;
use crate::observe::{ObserveError, Options};

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

/// How far both clocks may part before the time of day is looked at again: somebody set it.
const APART: SignedDuration = SignedDuration::from_secs(1);

/// What both clocks said at the first reading.
#[derive(Debug, Default)]
pub(super) struct WallClock(Option<(Timestamp, u64)>);

impl WallClock {
    /// The time of day of a moment that has just been (`CLOCK_BOOTTIME`). What lies between
    /// the looks at both clocks does not move it.
    pub(super) fn at(&mut self, clock_ns: u64) -> Timestamp {
        self.of(clock_ns, Timestamp::now())
    }

    fn of(&mut self, clock_ns: u64, now: Timestamp) -> Timestamp {
        let since = |first: u64| i64::try_from(clock_ns.saturating_sub(first)).unwrap_or(i64::MAX);
        let kept =
            self.0.and_then(|(at, first)| at.checked_add(SignedDuration::from_nanos(since(first))).ok());
        match kept.filter(|at| at.duration_until(now).abs() < APART) {
            Some(at) => at,
            None => {
                self.0 = Some((now, clock_ns));
                now
            }
        }
    }
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

#[cfg(test)]
mod wall_clock_tests {
    use super::*;

    /// Make sure that a reading that is dated late moves nothing, and a clock that is set does.
    #[test]
    fn the_same_in_each_reading() {
        let mut wall = WallClock::default();
        let time = |seconds: i64, nanos: i32| Timestamp::new(seconds, nanos).unwrap();
        assert_eq!(wall.of(5_000_000_000, time(100, 0)), time(100, 0));
        assert_eq!(wall.of(7_000_000_000, time(102, 313_000_000)), time(102, 0));
        assert_eq!(wall.of(9_000_000_000, time(3600, 0)), time(3600, 0));
        assert_eq!(wall.of(10_000_000_000, time(3601, 20_000_000)), time(3601, 0));
    }
}
