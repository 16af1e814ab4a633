//! Converts the kernel's clock, by which calls are dated, to times of day.

use jiff::{SignedDuration, Timestamp};

use super::amounts::seconds;
use crate::observation::ActivityReading;

/// The moment of a reading by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    at: Option<Timestamp>,
    clock_ns: u64,
}

impl Clock {
    /// The moment of this reading.
    pub(super) fn of(reading: &ActivityReading) -> Self {
        Self { at: reading.at.parse().ok(), clock_ns: reading.sums.clock_ns }
    }

    /// The moment by the kernel's clock.
    pub(super) fn clock_ns(&self) -> u64 {
        self.clock_ns
    }

    /// A moment as a time of day, RFC 3339 to the millisecond; empty where the
    /// reading does not tell its own. A moment after the reading is the reading's.
    pub(super) fn time(&self, moment_ns: u64) -> String {
        let before = self.clock_ns.saturating_sub(moment_ns);
        let before = SignedDuration::from_nanos(i64::try_from(before).unwrap_or(i64::MAX));
        let time = self.at.and_then(|at| at.checked_sub(before).ok());
        time.map(|time| format!("{time:.3}")).unwrap_or_default()
    }

    /// How many seconds before the reading a moment was.
    pub(super) fn seconds_since(&self, moment_ns: u64) -> f64 {
        seconds(self.clock_ns.saturating_sub(moment_ns))
    }

    /// How many seconds the reading is older than an observation; `None` where one of
    /// them does not tell when it was made.
    pub(super) fn age(&self, taken_at: &str) -> Option<f64> {
        let taken_at: Timestamp = taken_at.parse().ok()?;
        Some(taken_at.duration_since(self.at?).as_secs_f64().max(0.0))
    }
}
