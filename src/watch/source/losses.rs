//! Records which accounts lost events, and between which events the lost ones were.

use std::collections::BTreeMap;

/// Counts what was lost, by account. Each record tells how many of its account
/// were lost before it, the kernel side how many of each account all in all.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    /// Only accounts that lost something, of which the kernel side bounds the
    /// number.
    accounts: BTreeMap<u32, Loss>,
    /// All that are known of.
    known: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Loss {
    known: u64,
    reported: u64,
}

impl Losses {
    /// Takes what a record tells of its account: the low half of the number.
    /// Whether some were lost since the account's record before it.
    pub(super) fn before(&mut self, account: u32, stamp: u32) -> bool {
        let known = self.accounts.get(&account).map_or(0, |loss| loss.known);
        let low = u32::try_from(known & u64::from(u32::MAX)).unwrap_or(0);
        let more = stamp.wrapping_sub(low);
        // Records of several CPUs may be a little out of order.
        let is_more = more != 0 && more.cast_signed() > 0;
        if is_more {
            self.accounts.entry(account).or_default().known += u64::from(more);
            self.known += u64::from(more);
        }
        is_more
    }

    /// Whether this number of losses of all accounts says that there are some
    /// which are not known yet.
    pub(super) fn misses(&self, all: u64) -> bool {
        all > self.known
    }

    /// Takes the whole number of an account, as it was before the ring was read
    /// to its end. Whether some were lost since its last record.
    pub(super) fn all(&mut self, account: u32, number: u64) -> bool {
        let known = self.accounts.get(&account).map_or(0, |loss| loss.known);
        let is_more = number > known;
        if is_more {
            self.accounts.entry(account).or_default().known = number;
            self.known += number - known;
        }
        is_more
    }

    /// How many of each account were not reported yet; they are now.
    pub(super) fn unreported(&mut self) -> Vec<(u32, u64)> {
        let mut unreported = Vec::new();
        for (account, loss) in &mut self.accounts {
            if loss.known > loss.reported {
                unreported.push((*account, loss.known - loss.reported));
                loss.reported = loss.known;
            }
        }
        unreported
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that every loss is counted once, for the account whose it is,
    /// and is where it was.
    #[test]
    fn places() {
        let mut losses = Losses::default();
        assert!(!losses.before(7, 0) && losses.before(7, 3));
        assert!(!losses.before(7, 2) && !losses.before(7, 3) && !losses.before(8, 0));
        assert!(losses.before(8, 1));
        assert_eq!((losses.unreported(), losses.unreported()), (vec![(7, 3), (8, 1)], vec![]));
        assert!(!losses.misses(4) && losses.misses(5));
        assert!(!losses.all(7, 3) && losses.all(7, 4) && !losses.misses(5));
        assert_eq!(losses.unreported(), [(7, 1)]);
    }

    /// Make sure that a number that outgrows 32 bits is no harm.
    #[test]
    fn many() {
        let mut losses = Losses::default();
        let whole = u64::from(u32::MAX);
        assert!(losses.all(7, whole));
        assert!(losses.before(7, 4) && !losses.before(7, 4));
        assert_eq!(losses.unreported(), [(7, whole + 5)]);
    }
}
