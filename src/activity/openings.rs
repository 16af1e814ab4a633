//! What is remembered of processes between two readings: when they mapped a driver's library,
//! whether they are to be looked at again, and the paths of their cgroups.
//!
//! A program that mapped its library after this was attached to has been counted from its
//! first call, however long it had run before. One that mapped it earlier may have made
//! calls that nobody counted.
//!
//! Most reasons pass: another process of the node held the lock of its memory map, a
//! look took too long on a busy machine, a user's budget was used up.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use crate::observation::Text;

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

    /// So many mappings were not reported. What is known of programs that run already may
    /// not be their first.
    pub(super) fn lost(&mut self, now: u64, count: u64) {
        self.lost = (now, self.lost.1.saturating_add(count));
    }

    /// How many mappings were not reported.
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

/// Finds the path of a cgroup that is there.
type Resolve = Box<dyn FnMut(u64) -> Option<Text>>;

/// Paths that are kept.
const KEPT: usize = 1 << 16;

/// The paths that are known.
#[derive(Default)]
pub(super) struct CgroupPaths {
    resolve: Option<Resolve>,
    known: HashMap<u64, Option<Text>>,
}

impl CgroupPaths {
    /// Resolves ids in this way from now on.
    pub(super) fn resolve_with(&mut self, resolve: Resolve) {
        self.resolve = Some(resolve);
    }

    /// The path of a cgroup; it is looked for the first time that its id is asked for.
    pub(super) fn path(&mut self, id: u64) -> Option<&Text> {
        let resolve = self.resolve.as_mut()?;
        if self.known.len() >= KEPT && !self.known.contains_key(&id) {
            self.known.clear();
        }
        self.known.entry(id).or_insert_with(|| resolve(id)).as_ref()
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

#[cfg(test)]
mod retries_tests {
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

#[cfg(test)]
mod cgroup_paths_tests {
    use super::*;

    /// Make sure that a path stays known when its cgroup is gone.
    #[test]
    fn kept() {
        let mut paths = CgroupPaths::default();
        assert_eq!(paths.path(7), None);
        let mut left = 1;
        paths.resolve_with(Box::new(move |id| {
            left -= 1;
            (left == 0).then(|| Text::from(format!("/{id}").into_bytes()))
        }));
        let path = Text::from(b"/7".to_vec());
        assert_eq!(
            (paths.path(7).cloned(), paths.path(8).cloned(), paths.path(7).cloned()),
            (Some(path.clone()), None, Some(path))
        );
    }
}
