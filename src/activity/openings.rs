//! Keeps which processes mapped a driver's library, and when, as the kernel reported it.
//!
//! A program that mapped its library after this was attached to has been counted from its
//! first call, however long it had run before. One that mapped it earlier may have made
//! calls that nobody counted.

use std::collections::BTreeMap;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Openings {
    /// By pid.
    now: BTreeMap<u32, Opening>,
    /// Programs that have ended since the last reading.
    past: Vec<(u32, Opening)>,
    /// When something was lost last (`CLOCK_BOOTTIME`), and how often in all.
    lost: (u64, u64),
}

/// A program that mapped libraries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opening {
    /// When it mapped the first one (`CLOCK_BOOTTIME`).
    pub(super) first: u64,
    /// The newest one: the number of its inode, and its path as the process sees it,
    /// which a user may have chosen.
    pub(super) inode: u64,
    pub(super) path: Vec<u8>,
}

impl Openings {
    /// A process mapped a library.
    pub(super) fn mapped(&mut self, pid: u32, at: u64, inode: u64, path: Vec<u8>) {
        let first = self.now.get(&pid).map_or(at, |known| known.first);
        self.now.insert(pid, Opening { first, inode, path });
    }

    /// The process ended, or executes another program.
    pub(super) fn ended(&mut self, pid: u32) {
        self.past.extend(self.now.remove(&pid).map(|opening| (pid, opening)));
    }

    /// So many mappings were not told. What is known of programs that run already may
    /// not be their first.
    pub(super) fn lost(&mut self, now: u64, count: u64) {
        self.lost = (now, self.lost.1.saturating_add(count));
    }

    /// How many mappings were not told.
    pub(super) fn all_lost(&self) -> u64 {
        self.lost.1
    }

    /// Takes the programs that have ended since the last reading.
    pub(super) fn take_past(&mut self) -> Vec<(u32, Opening)> {
        std::mem::take(&mut self.past)
    }

    /// Whether the program of a process that began at `start`, and made its first call at
    /// `call`, had mapped no library before `moment`. A process that executes several
    /// programs has mapped one for each.
    pub(super) fn is_later(&self, (pid, start): (u32, u64), moment: u64, call: u64) -> bool {
        let past = self.past.iter().filter(|(other, _)| *other == pid).map(|(_, opening)| opening.first);
        let all = past.chain(self.now.get(&pid).map(|opening| opening.first));
        let is_whole = self.lost.1 == 0 || start > self.lost.0;
        is_whole && all.filter(|first| *first <= call).max().is_some_and(|first| first >= moment)
    }
}

impl Opening {
    /// Whether calls of the program may be missing: its library was attached to at
    /// `attached` or never, and its first call that was counted came at `call` or never.
    /// What was counted says of itself that it is a part.
    pub(super) fn is_missed(&self, attached: Option<u64>, call: Option<u64>) -> bool {
        let late = attached.is_none_or(|attached| attached > self.first);
        late && call.is_none_or(|call| call < self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the first library counts, for each program of a process.
    #[test]
    fn first() {
        let mut openings = Openings::default();
        let map = |openings: &mut Openings, at| openings.mapped(7, at, 1, b"/libcuda.so.1".to_vec());
        map(&mut openings, 5000);
        map(&mut openings, 6000);
        assert!(openings.is_later((7, 1), 5000, 9000) && !openings.is_later((7, 1), 5001, 9000));
        assert!(!openings.is_later((8, 1), 0, 9000));
        openings.ended(7);
        openings.ended(7);
        map(&mut openings, 8000);
        assert!(openings.is_later((7, 1), 8000, 9000) && !openings.is_later((7, 1), 6000, 7000));
        assert!(openings.is_later((7, 1), 5000, 7000));
        assert_eq!(openings.take_past().len(), 1);
        assert!(!openings.is_later((7, 1), 5000, 7000));
        openings.lost(100, 3);
        assert!(!openings.is_later((7, 1), 8000, 9000) && openings.is_later((7, 101), 8000, 9000));
        assert_eq!(openings.all_lost(), 3);
    }

    /// Make sure that a program is missed if it could call before anybody counted, and
    /// nothing of it was counted.
    #[test]
    fn missed() {
        let opening = Opening { first: 50, inode: 1, path: Vec::new() };
        assert!(opening.is_missed(None, None) && opening.is_missed(Some(51), None));
        assert!(!opening.is_missed(Some(50), None) && !opening.is_missed(Some(51), Some(60)));
        // That was another program of the process.
        assert!(opening.is_missed(Some(51), Some(40)));
    }
}
