//! Facts of processes and cgroups, kept for a moment: which cgroup a process was in when
//! something happened, which drivers' libraries it maps.

use std::collections::HashMap;
use std::hash::Hash;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::model::{CgroupPathBuf, Owner};
use crate::observation::Text;
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::processes::mapped_files::mappings;
use crate::observe::{self, Options};
use crate::owner::TrustedNames;
use crate::probing::driver::{Driver, Drivers, driver};
use crate::watch::EventSubject;

/// How long a process is taken to stay in its cgroup where only `/proc` can
/// tell.
pub(super) const STAYS: Duration = Duration::from_millis(100);

/// Cgroups that are remembered.
const PLACES_KEPT: usize = 1024;

/// A cgroup, and one of the v1 devices controller where that has a say: two
/// processes in the same two may open the same.
pub(super) type Key = (Text, Option<Text>);

/// A cgroup and its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::watch) struct OwnedCgroup {
    /// Path relative to the cgroup root.
    pub(in crate::watch) path: Text,
    /// Whose it is.
    pub(in crate::watch) owner: Option<Owner>,
}

impl OwnedCgroup {
    pub(super) fn new(path: &Text, trusted: &TrustedNames) -> Self {
        let owner = trusted.owner(path.as_bytes());
        Self { path: path.clone(), owner }
    }
}

/// What is remembered of cgroups.
#[derive(Debug)]
pub(in crate::watch) struct Places {
    trusted: TrustedNames,
    /// By id. A cgroup of the second version keeps its path as long as it is
    /// there, and no other ever gets its id: this never grows old.
    by_id: HashMap<u64, Rc<OwnedCgroup>>,
    /// Where processes were.
    by_process: Remembered<(u32, u64), Option<Rc<OwnedCgroup>>>,
    /// Paths that ids led to, or that they led nowhere.
    looked: Remembered<u64, Option<CgroupPathBuf>>,
}

impl Places {
    /// Nothing remembered yet.
    pub(in crate::watch) fn new(trusted: TrustedNames) -> Self {
        let (by_process, looked) = (Remembered::new(STAYS), Remembered::new(STAYS));
        Self { trusted, by_id: HashMap::new(), by_process, looked }
    }

    /// The cgroup of a process at an event, if the event names one that was seen
    /// or is there; else the one that it is in now, if it still is there.
    pub(in crate::watch) fn of(
        &mut self,
        options: &Options,
        subject: &EventSubject,
    ) -> Option<Rc<OwnedCgroup>> {
        if let Some(place) = self.by_id(options, subject.cgroup) {
            return Some(place);
        }
        let trusted = &self.trusted;
        self.by_process.get((subject.pid, subject.start_time), || {
            // Without a cgroup an event says that it is not known.
            let path = observe::process_cgroup(options, subject.pid, subject.start_time).ok()?;
            Some(Rc::new(OwnedCgroup::new(&path.into(), trusted)))
        })
    }

    /// The cgroup of an id, if it is there or was seen: no process is asked.
    pub(super) fn by_id(&mut self, options: &Options, id: u64) -> Option<Rc<OwnedCgroup>> {
        let known = self.by_id.get(&id).cloned();
        known.or_else(|| self.named(options, id))
    }

    fn named(&mut self, options: &Options, id: u64) -> Option<Rc<OwnedCgroup>> {
        let look = || (id != 0).then(|| observe::id_cgroup(options, id)).flatten();
        let path = self.looked.get(id, look)?;
        self.remember(id, &path.into());
        self.by_id.get(&id).cloned()
    }

    /// What an observation reported: the id of the cgroup at a path.
    pub(super) fn remember(&mut self, id: u64, path: &Text) {
        if self.by_id.len() >= PLACES_KEPT && !self.by_id.contains_key(&id) {
            self.by_id.clear();
        }
        self.by_id.entry(id).or_insert_with(|| Rc::new(OwnedCgroup::new(path, &self.trusted)));
    }
}

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

/// Bytes that are read of a process's map.
const LIMIT: usize = 4 << 20;

/// The drivers whose libraries a process maps now; `None` if it is gone. What it
/// does not map it has not initialised. One whose map cannot be read, or has too many
/// files to look through, may map any.
pub(super) fn drivers(proc: &Path, pid: u32) -> Option<Drivers> {
    let process = PinnedProcess::at(proc, pid).and_then(|process| Ok((process.stat()?, process)));
    let maps = process.and_then(|(main, process)| process.by_thread(&main, |thread| thread.maps(LIMIT)));
    let text = match maps {
        Ok(text) if !text.is_empty() => text,
        Ok(_) | Err(NotRead::Gone) => return None,
        // It may map any of them.
        Err(_) => return Some(Drivers::of(&[Driver::Cuda, Driver::Hip, Driver::Hsa])),
    };
    let found = mappings(&text).filter_map(|mapping| driver(mapping.name()));
    Some(found.fold(Drivers::default(), Drivers::and))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that an id tells the cgroup without a look at the process,
    /// and that not more are kept than said.
    #[test]
    fn ids() {
        let mut places = Places::new(TrustedNames::default());
        let subject = EventSubject { pid: u32::MAX, cgroup: 7, ..EventSubject::default() };
        let nowhere = Options { proc: "/nonexistent".into(), ..Options::default() };
        assert_eq!(places.of(&nowhere, &subject), None);
        places.remember(7, &"/a".into());
        let place = places.of(&nowhere, &subject).unwrap();
        assert_eq!(place.path.lossy(), "/a");
        for id in 8..10_000 {
            places.remember(id, &"/b".into());
        }
        assert!(places.by_id.len() <= PLACES_KEPT);
    }
}

#[cfg(test)]
mod remember_tests {
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
