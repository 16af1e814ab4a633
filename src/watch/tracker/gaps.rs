//! Keeps where events were lost, by the user who answers for the processes. What was lost
//! may have been about any process of that user, and about nobody else's.

use std::collections::HashMap;

/// How often events were lost, and when for the last time at the latest, in
/// nanoseconds since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) count: u64,
    pub(super) at: u64,
}

impl Mark {
    fn add(&mut self, at: u64) {
        self.count += 1;
        self.at = self.at.max(at);
    }
}

/// Gaps of all accounts. Their number is that of the accounts that lost
/// something, which the kernel side bounds.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    accounts: HashMap<u32, Mark>,
    /// Of users who are not told apart.
    others: Mark,
    all: Mark,
}

impl Gaps {
    /// Events of an account were lost, no later than this moment; `None`: of
    /// users who are not told apart.
    pub(super) fn add(&mut self, account: Option<u32>, at: u64) {
        account.map_or(&mut self.others, |account| self.accounts.entry(account).or_default()).add(at);
        self.all.add(at);
    }

    /// What concerns processes of an account; `None`: of one that is not known,
    /// which any gap concerns.
    pub(super) fn of(&self, account: Option<u32>) -> Mark {
        let Some(account) = account else { return self.all };
        let own = self.accounts.get(&account).copied().unwrap_or_default();
        Mark { count: own.count + self.others.count, at: own.at.max(self.others.at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a loss concerns whose it is, and those whose is not known.
    #[test]
    fn whose() {
        let mut gaps = Gaps::default();
        gaps.add(Some(1), 10);
        let mark = |count, at| Mark { count, at };
        assert_eq!(
            (gaps.of(Some(1)), gaps.of(Some(2)), gaps.of(None)),
            (mark(1, 10), mark(0, 0), mark(1, 10))
        );
        gaps.add(None, 20);
        assert_eq!(
            (gaps.of(Some(1)), gaps.of(Some(2)), gaps.of(None)),
            (mark(2, 20), mark(1, 20), mark(2, 20))
        );
    }
}
