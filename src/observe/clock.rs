//! The time of day, and times since boot.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use jiff::Timestamp;
use nix::errno::Errno;
use nix::time::{ClockId, clock_gettime};

use super::problems::errno_of;
use crate::model::Time;
use crate::sys::retry::again;

/// The current time, to the millisecond.
pub fn now() -> Time {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now).into()
}

/// When a file was last changed, to the second.
///
/// # Errors
///
/// Those of stat(2); `EOVERFLOW` for a time that no calendar has.
pub(super) fn modified_at(path: &Path) -> Result<Time, Errno> {
    let facts = again(|| std::fs::metadata(path)).map_err(|error| errno_of(&error))?;
    Timestamp::from_second(facts.mtime()).map(Time::from).or(Err(Errno::EOVERFLOW))
}

/// Nanoseconds of a clock tick of `/proc` (`USER_HZ` is 100 everywhere).
const TICK: i128 = 10_000_000;

/// Clock ticks since boot, as start times of processes count them.
pub(super) fn ticks_since_boot() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).map(std::time::Duration::from);
    now.map_or(0, |now| u64::try_from(i128::try_from(now.as_nanos()).unwrap_or(0) / TICK).unwrap_or(0))
}

/// Turns nanoseconds since boot into the time of day.
#[derive(Clone, Copy, Debug)]
pub(super) struct BootClock {
    booted: Option<i128>,
}

impl BootClock {
    /// Compares the clocks now (`CLOCK_BOOTTIME`, suspend included).
    pub(super) fn now() -> Self {
        let nanoseconds = |clock| {
            // A clock that the kernel does not have leaves times unknown.
            let time = clock_gettime(clock).ok()?;
            Some(i128::from(time.tv_sec()) * 1_000_000_000 + i128::from(time.tv_nsec()))
        };
        let booted = || Some(nanoseconds(ClockId::CLOCK_REALTIME)? - nanoseconds(ClockId::CLOCK_BOOTTIME)?);
        Self { booted: booted() }
    }

    /// Clock ticks from boot to a moment, in seconds since 1970; negative before.
    pub(super) fn ticks(self, second: i64) -> Option<i128> {
        let since_boot = i128::from(second).checked_mul(1_000_000_000)?.checked_sub(self.booted?)?;
        Some(since_boot.div_euclid(TICK))
    }

    /// To the second; not known (0: a kernel before 4.15).
    pub(super) fn stamp(self, since_boot: u64) -> Time {
        let stamp = || {
            let at = self.booted?.checked_add(i128::from(since_boot))?.div_euclid(1_000_000_000);
            // A time that no calendar has is unknown.
            Timestamp::from_second(i64::try_from(at).ok()?).ok()
        };
        if since_boot == 0 { None } else { stamp() }.map(Time::from).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that load times come out as whole seconds and never overflow.
    #[test]
    fn stamps() {
        let clock = BootClock { booted: Some(1_700_000_000_999_999_999) };
        assert_eq!(clock.stamp(1_000_000_001).as_str(), "2023-11-14T22:13:22Z");
        assert!(!clock.stamp(0).is_known());
        assert_eq!(clock.stamp(u64::MAX).as_str().len(), 20);
        assert!(!BootClock { booted: None }.stamp(5).is_known());
    }
}
