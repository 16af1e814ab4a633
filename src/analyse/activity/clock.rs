//! Converts the kernel's clock, by which calls are dated, to times of day; and the time that
//! threads wait in calls that have not returned.

use jiff::{SignedDuration, Timestamp};

use super::amounts::seconds;
use crate::model::Time;
use crate::observation::{ActivityReading, CallUnderWay};
use crate::report::Work;

/// The moment of a reading by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    at: Option<Timestamp>,
    clock_ns: u64,
}

impl Clock {
    /// The moment of this reading.
    pub(super) fn of(reading: &ActivityReading) -> Self {
        Self { at: reading.at.timestamp(), clock_ns: reading.sums.clock_ns }
    }

    /// The moment by the kernel's clock.
    pub(super) fn clock_ns(&self) -> u64 {
        self.clock_ns
    }

    /// A moment as a time of day, to the millisecond; not known where the
    /// reading does not tell its own. A moment after the reading is the reading's.
    pub(super) fn time(&self, moment_ns: u64) -> Time {
        let before = self.clock_ns.saturating_sub(moment_ns);
        let before = SignedDuration::from_nanos(i64::try_from(before).unwrap_or(i64::MAX));
        let time = self.at.and_then(|at| at.checked_sub(before).ok());
        time.map(|time| format!("{time:.3}").into()).unwrap_or_default()
    }

    /// How many seconds before the reading a moment was.
    pub(super) fn seconds_since(&self, moment_ns: u64) -> f64 {
        seconds(self.clock_ns.saturating_sub(moment_ns))
    }

    /// How many seconds the reading is older than an observation; `None` where one of
    /// them does not tell when it was made.
    pub(super) fn age(&self, taken_at: &Time) -> Option<f64> {
        Some(taken_at.timestamp()?.duration_since(self.at?).as_secs_f64().max(0.0))
    }
}

/// What calls under way add to the work of a device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    /// In functions that wait, and in copies.
    waits: f64,
    copies: f64,
    /// The longest of both.
    pub(super) longest: Option<f64>,
}

impl Waiting {
    /// Until a moment.
    pub(super) fn until<'c>(calls: impl IntoIterator<Item = &'c CallUnderWay>, clock_ns: u64) -> Self {
        let mut all = Self::default();
        for call in calls.into_iter().filter(|call| call.waits) {
            let lasted = seconds(clock_ns.saturating_sub(call.since_ns));
            let sum = if call.function.contains("Memcpy") { &mut all.copies } else { &mut all.waits };
            *sum += lasted;
            all.longest = Some(all.longest.map_or(lasted, |longest| longest.max(lasted)));
        }
        all
    }

    /// Adds it to the sums since counting began.
    pub(super) fn added_to(self, work: Work) -> Work {
        Work {
            wait_seconds: work.wait_seconds + self.waits,
            copy_wait_seconds: work.copy_wait_seconds + self.copies,
            ..work
        }
    }

    /// Adds it to what the kernel counted in an interval. What had been told of calls at its
    /// beginning is not told again when they return.
    pub(super) fn of_interval(self, before: Self, work: Work) -> Work {
        Work {
            wait_seconds: (work.wait_seconds + self.waits - before.waits).max(0.0),
            copy_wait_seconds: (work.copy_wait_seconds + self.copies - before.copies).max(0.0),
            ..work
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn call(since_ns: u64) -> CallUnderWay {
        let function = "cuStreamSynchronize".to_owned();
        CallUnderWay { function, since_ns, waits: true, ..CallUnderWay::default() }
    }

    /// Make sure that a wait of six seconds is told second by second, and no more at its end.
    #[test]
    fn second_by_second() {
        let wait = [call(SECOND)];
        let of = |at: u64| if at < 7 { Waiting::until(&wait, at * SECOND) } else { Waiting::default() };
        let counted = |at: u64| Work { wait_seconds: if at < 7 { 0.0 } else { 6.0 }, ..Work::default() };
        for at in 2..=8 {
            let kernel = Work {
                wait_seconds: counted(at).wait_seconds - counted(at - 1).wait_seconds,
                ..Work::default()
            };
            let told = of(at).of_interval(of(at - 1), kernel).wait_seconds;
            let truth = if at <= 7 { 1.0 } else { 0.0 };
            assert!((told - truth).abs() < 1e-9, "{at}: {told}");
        }
        assert_eq!(of(4).longest, Some(3.0));
    }
}
