//! Processes whose calls may be missing because they, or a library of theirs, could
//! not be looked at: when each is tried again.
//!
//! Most reasons pass: another process of the node held the lock of its memory map, a
//! look took too long on a busy machine, a user's budget was used up.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The pause before the first further attempt. Each pause is twice as long as the one
/// before it, up to the longest.
const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(30);

/// All of them, by pid.
#[derive(Debug, Default)]
pub(super) struct Retries(BTreeMap<u32, Retry>);

#[derive(Clone, Copy, Debug)]
struct Retry {
    due: Instant,
    pause: Duration,
}

impl Retries {
    /// A process could not be covered.
    pub(super) fn failed(&mut self, pid: u32, now: Instant) {
        let pause = self.0.get(&pid).map_or(FIRST, |known| (known.pause * 2).min(LONGEST));
        self.0.insert(pid, Retry { due: now + pause, pause });
    }

    /// A process is covered, or has ended.
    pub(super) fn settled(&mut self, pid: u32) {
        self.0.remove(&pid);
    }

    /// When the next one is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.values().map(|retry| retry.due).min()
    }

    /// One that is due.
    pub(super) fn next(&self, now: Instant) -> Option<u32> {
        self.0.iter().find(|(_, retry)| retry.due <= now).map(|(pid, _)| *pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a process is tried again ever more rarely, and not once it is
    /// covered.
    #[test]
    fn pauses() {
        let (mut retries, now) = (Retries::default(), Instant::now());
        assert_eq!(retries.due(), None);
        for pause in [FIRST, FIRST * 2, FIRST * 4] {
            retries.failed(7, now);
            assert_eq!(retries.due(), Some(now + pause));
            assert_eq!(retries.next(now), None);
            assert_eq!(retries.next(now + pause), Some(7));
        }
        (0..20).for_each(|_| retries.failed(7, now));
        assert_eq!(retries.due(), Some(now + LONGEST));
        retries.settled(7);
        assert_eq!(retries.next(now + LONGEST), None);
    }
}
