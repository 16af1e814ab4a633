//! Limits the output of `gpumap watch` that one user can cause. Users choose how
//! often their processes do something and how long their values are, and the
//! output is often kept.

use std::time::Instant;

use crate::quota::{PerAccount, Recovering};

/// Bytes that one user may cause in a burst, some 180,000 changes of usual length,
/// and those that are added in a second: some 5 GiB a day.
const AT_ONCE: u64 = 128 << 20;
const A_SECOND: u64 = 64 << 10;
/// Bytes of the shortest event.
const LEAST: u64 = 32;

/// The bytes that users have left. A user is the one responsible for a process;
/// processes without a known one share one allowance.
#[derive(Debug, Default)]
pub(in crate::commands) struct Allowances(PerAccount<Option<u32>, Allowance>);

#[derive(Debug, Default)]
struct Allowance {
    /// Bytes.
    spent: Recovering,
    /// Events that were not printed and not counted in the output yet.
    omitted: u64,
}

impl Allowances {
    /// Whether an event of so many bytes may be printed; it is counted if not.
    pub(in crate::commands) fn allow(&mut self, user: Option<u32>, bytes: usize, now: Instant) -> bool {
        let allowance = self.0.of(user);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let has_room = allowance.spent.used(now, A_SECOND).saturating_add(bytes) <= AT_ONCE;
        if has_room {
            allowance.spent.spend(bytes);
        } else {
            allowance.omitted += 1;
        }
        has_room
    }

    /// Whether nothing is left: then an event is counted that is not printed.
    pub(in crate::commands) fn is_used_up(&mut self, user: Option<u32>, now: Instant) -> bool {
        let Some(allowance) = self.0.get_mut(user) else { return false };
        let is_used_up = allowance.spent.used(now, A_SECOND).saturating_add(LEAST) > AT_ONCE;
        allowance.omitted += u64::from(is_used_up);
        is_used_up
    }

    /// How many events of each user were not printed since the last call. Users
    /// whose allowance is full again are forgotten.
    pub(in crate::commands) fn omitted(&mut self, now: Instant) -> Vec<(Option<u32>, u64)> {
        let mut omitted = Vec::new();
        self.0.retain(|user, allowance| {
            if allowance.omitted > 0 {
                omitted.push((user, std::mem::take(&mut allowance.omitted)));
            }
            allowance.spent.used(now, A_SECOND) > 0
        });
        omitted
    }
}

/// Why events are missing that were seen.
pub(in crate::commands) fn why() -> String {
    format!(
        "a user may cause {} MiB of output at once, and {} KiB a second after that",
        AT_ONCE >> 20,
        A_SECOND >> 10
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Make sure that users do not share allowances, that an event that is not
    /// printed is counted once, and that allowances fill up again.
    #[test]
    fn apart() {
        let (mut all, now) = (Allowances::default(), Instant::now());
        let half = usize::try_from(AT_ONCE / 2).unwrap();
        assert!(all.allow(Some(7), half, now) && all.allow(Some(7), half, now));
        assert!(!all.allow(Some(7), 1, now) && !all.allow(Some(7), 1, now));
        assert!(all.allow(Some(8), half, now) && all.allow(None, half, now));
        assert_eq!(all.omitted(now), [(Some(7), 2)]);
        assert_eq!(all.omitted(now), []);
        let later = now + Duration::from_secs(1);
        assert!(all.allow(Some(7), 64 << 10, later) && !all.allow(Some(7), 1, later));
        assert!(
            all.is_used_up(Some(7), later)
                && all.is_used_up(Some(7), later)
                && !all.is_used_up(Some(9), later)
        );
        assert_eq!(all.omitted(later), [(Some(7), 3)]);
        all.omitted(later + Duration::from_secs(AT_ONCE / A_SECOND));
        assert_eq!(all.0.len(), 0);
    }
}
