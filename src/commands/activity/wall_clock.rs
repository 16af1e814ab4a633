//! The time of day of moments of the kernel's clock, the same in each reading.

use jiff::{SignedDuration, Timestamp};

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
