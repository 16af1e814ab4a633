//! Caches facts about processes and cgroups for a moment.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Things that are remembered at most; then all are forgotten.
const KEPT: usize = 8192;

/// One thing of each key.
#[derive(Debug)]
pub(super) struct Remembered<K, T> {
    window: Duration,
    found: HashMap<K, (Instant, T)>,
}

impl<K: Hash + Eq, T: Clone> Remembered<K, T> {
    /// What is looked up serves for this time.
    pub(super) fn new(window: Duration) -> Self {
        Self { window, found: HashMap::new() }
    }

    /// What was looked up, or is now.
    pub(super) fn get(&mut self, key: K, look: impl FnOnce() -> T) -> T {
        if let Some((at, found)) = self.found.get(&key)
            && at.elapsed() < self.window
        {
            return found.clone();
        }
        if self.found.len() >= KEPT {
            self.found.clear();
        }
        // Before the look: it is no older than that.
        let at = Instant::now();
        let found = look();
        self.found.insert(key, (at, found.clone()));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a process is looked at once in the time, that another
    /// with its pid is another, and that not more are kept than said.
    #[test]
    fn windows() {
        let mut long = Remembered::new(Duration::from_secs(3600));
        assert_eq!((long.get((1, 1), || 1), long.get((1, 1), || 2)), (1, 1));
        assert_eq!(long.get((1, 2), || 3), 3);
        for pid in 0..20_000 {
            long.get((pid, 1), || 0);
        }
        assert!(long.found.len() <= KEPT);
        let mut none = Remembered::new(Duration::ZERO);
        assert_eq!((none.get((1, 1), || 1), none.get((1, 1), || 2)), (1, 2));
    }
}
