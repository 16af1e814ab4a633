//! Converts the kernel's clock to the time of day.

use std::time::Duration;

use jiff::Timestamp;

pub(super) use crate::sys::clock::boot_ns as now_ns;

/// Both clocks at one moment. They are read once for many events, and before
/// an event that is newer than the last reading: never for one in the future.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    boot: u64,
    day: Timestamp,
}

impl Clock {
    pub(super) fn now() -> Self {
        Self { boot: now_ns(), day: Timestamp::now() }
    }

    /// The time of day of a moment in nanoseconds since boot.
    pub(super) fn time(&mut self, at: u64) -> Timestamp {
        if at > self.boot {
            *self = Self::now();
        }
        let ago = Duration::from_nanos(self.boot.saturating_sub(at));
        self.day.checked_sub(ago).unwrap_or(self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the distance of two events is that of their times, and
    /// that nothing is said to happen in the future.
    #[test]
    fn distances() {
        let mut clock = Clock::now();
        let at = clock.boot;
        let (early, late) = (clock.time(at - 2_500), clock.time(at));
        assert_eq!(late.duration_since(early).as_nanos(), 2_500);
        assert!(clock.time(u64::MAX) <= Timestamp::now());
        assert!(clock.boot >= at);
    }
}
