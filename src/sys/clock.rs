//! The kernel's clocks.

use std::time::Duration;

use nix::errno::Errno;
use nix::time::{ClockId, clock_gettime};

/// Nanoseconds since boot, with the time that the node was asleep
/// (`CLOCK_BOOTTIME`): what start times of processes are of.
pub fn boot_ns() -> u64 {
    read(ClockId::CLOCK_BOOTTIME)
}

/// Nanoseconds since boot, without the time that the node was asleep
/// (`CLOCK_MONOTONIC`).
pub fn monotonic_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// 0 if there is no such clock.
fn read(clock: ClockId) -> u64 {
    let now = clock_gettime(clock).map(Duration::from);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

/// Whether the kernel takes its clock for synchronised, as NTP daemons tell it.
///
/// # Errors
///
/// Those of adjtimex(2); a seccomp filter may refuse it.
pub fn is_synchronized() -> Result<bool, Errno> {
    // SAFETY: the structure is made of integers alone, of which 0 is a value.
    let mut clock: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `clock` outlives the call. Without a mode the kernel changes nothing
    // and fills it in.
    let state = unsafe { libc::adjtimex(&raw mut clock) };
    Errno::result(state).map(|state| state != libc::TIME_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that asking needs no right.
    #[test]
    fn anybody_may_ask() {
        assert!(is_synchronized().is_ok());
    }
}
