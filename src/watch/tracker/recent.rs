//! Keeps the processes that executed a program last, a bounded number for each user.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
