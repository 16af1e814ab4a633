//! Chooses which processes are looked at next: those that executed a program last, and the
//! others a few at a time, each user as often as any other, and each of a user's processes in
//! its turn.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::quota::PerAccount;

/// Who answers for a process; `None` where that is not known.
type Account = Option<u32>;

/// Processes that take turns.
#[derive(Debug, Default)]
pub(super) struct Turns {
    accounts: PerAccount<Account, Turn>,
    whose: HashMap<u32, Account>,
}

/// The processes of one account, and the one that had the last turn.
#[derive(Debug, Default)]
struct Turn {
    pids: BTreeSet<u32>,
    last: u32,
}

impl Turns {
    /// A process takes part, or another account answers for it.
    pub(super) fn insert(&mut self, account: Account, pid: u32) {
        let before = self.whose.insert(pid, account);
        if before == Some(account) {
            return;
        }
        if let Some(before) = before {
            self.leave(before, pid);
        }
        self.accounts.of(account).pids.insert(pid);
    }

    /// A process takes part no longer.
    pub(super) fn remove(&mut self, pid: u32) {
        if let Some(account) = self.whose.remove(&pid) {
            self.leave(account, pid);
        }
    }

    fn leave(&mut self, account: Account, pid: u32) {
        let Some(turn) = self.accounts.get_mut(account) else { return };
        turn.pids.remove(&pid);
        if turn.pids.is_empty() {
            self.accounts.remove(account);
        }
    }

    /// How many processes of an account take part.
    pub(super) fn count(&self, account: Account) -> usize {
        self.accounts.get(account).map_or(0, |turn| turn.pids.len())
    }

    /// The next `most` processes, none of them twice.
    pub(super) fn next(&mut self, most: usize) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        let mut waiting: Vec<Account> = self.accounts.in_turn().collect();
        while found.len() < most && !waiting.is_empty() {
            waiting.retain(|account| {
                let pid = (found.len() < most).then(|| self.accounts.get_mut(*account)?.next()).flatten();
                let Some(pid) = pid else { return false };
                self.accounts.had_turn(*account);
                found.insert(pid)
            });
        }
        found
    }

    /// The same, and they take part no longer.
    pub(super) fn take(&mut self, most: usize) -> BTreeSet<u32> {
        let found = self.next(most);
        found.iter().for_each(|pid| self.remove(*pid));
        found
    }
}

impl Turn {
    fn next(&mut self) -> Option<u32> {
        let after = self.pids.range(self.last.saturating_add(1)..).next();
        self.last = *after.or_else(|| self.pids.first())?;
        Some(self.last)
    }
}

/// Processes of one account that are remembered.
const EACH: usize = 32;

/// By account, the last one first.
#[derive(Debug, Default)]
pub(super) struct Recent(BTreeMap<Option<u32>, VecDeque<u32>>);

impl Recent {
    /// A process executed a program.
    pub(super) fn insert(&mut self, account: Option<u32>, pid: u32) {
        let pids = self.0.entry(account).or_default();
        pids.retain(|other| *other != pid);
        pids.push_front(pid);
        pids.truncate(EACH);
    }

    /// A process is gone.
    pub(super) fn remove(&mut self, account: Option<u32>, pid: u32) {
        if let Some(pids) = self.0.get_mut(&account) {
            pids.retain(|other| *other != pid);
            if pids.is_empty() {
                self.0.remove(&account);
            }
        }
    }

    /// The same of a process whose account is not known any more.
    pub(super) fn forget(&mut self, pid: u32) {
        self.0.retain(|_, pids| {
            pids.retain(|other| *other != pid);
            !pids.is_empty()
        });
    }

    /// So many at most, as many of each account as of any other: the last ones.
    pub(super) fn last(&self, most: usize) -> BTreeSet<u32> {
        let ranks = (0..EACH).flat_map(|rank| self.0.values().filter_map(move |pids| pids.get(rank)));
        ranks.copied().take(most).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that one user with many processes does not keep others waiting,
    /// and that each process has its turn.
    #[test]
    fn fair() {
        let mut turns = Turns::default();
        (100..1100).for_each(|pid| turns.insert(Some(1), pid));
        turns.insert(Some(2), 5);
        turns.insert(None, 6);
        let mut seen = BTreeSet::new();
        for _ in 0..40 {
            let now = turns.next(32);
            assert!(now.len() == 32 && now.contains(&5) && now.contains(&6));
            seen.extend(now);
        }
        assert_eq!(seen.len(), 1002);
        assert_eq!(turns.next(1).len(), 1);
    }

    /// Make sure that processes leave, and that an account is changed.
    #[test]
    fn leave() {
        let mut turns = Turns::default();
        turns.insert(Some(1), 7);
        turns.insert(Some(2), 7);
        assert_eq!((turns.count(Some(1)), turns.count(Some(2))), (0, 1));
        turns.insert(Some(2), 8);
        assert_eq!(turns.take(9), BTreeSet::from([7, 8]));
        assert!(turns.next(9).is_empty() && turns.whose.is_empty() && turns.accounts.is_empty());
    }
}

#[cfg(test)]
mod recent_tests {
    use super::*;

    /// Make sure that one who executes many programs pushes out nobody else.
    #[test]
    fn fair() {
        let mut recent = Recent::default();
        recent.insert(Some(2), 5);
        (100..1100).for_each(|pid| recent.insert(Some(1), pid));
        recent.insert(Some(1), 1099);
        let last = recent.last(4);
        assert_eq!(last, BTreeSet::from([5, 1099, 1098, 1097]));
        recent.remove(Some(2), 5);
        assert_eq!((recent.last(99).len(), recent.0.len()), (EACH, 1));
    }
}
