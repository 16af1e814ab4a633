//! Tells which cgroup a process was in when something happened.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use super::remember::Remembered;
use crate::model::{CgroupPathBuf, Owner};
use crate::observation::Text;
use crate::observe::{self, Options};
use crate::owner::TrustedNames;
use crate::watch::EventSubject;

/// How long a process is taken to stay in its cgroup where only `/proc` can
/// tell.
pub(super) const STAYS: Duration = Duration::from_millis(100);
/// Cgroups that are remembered.
const KEPT: usize = 1024;

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
pub(super) struct Places {
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
    pub(super) fn new(trusted: TrustedNames) -> Self {
        let (by_process, looked) = (Remembered::new(STAYS), Remembered::new(STAYS));
        Self { trusted, by_id: HashMap::new(), by_process, looked }
    }

    /// The cgroup of a process at an event, if the event names one that was seen
    /// or is there; else the one that it is in now, if it still is there.
    pub(super) fn of(&mut self, options: &Options, subject: &EventSubject) -> Option<Rc<OwnedCgroup>> {
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

    /// What an observation told: the id of the cgroup at a path.
    pub(super) fn remember(&mut self, id: u64, path: &Text) {
        if self.by_id.len() >= KEPT && !self.by_id.contains_key(&id) {
            self.by_id.clear();
        }
        self.by_id.entry(id).or_insert_with(|| Rc::new(OwnedCgroup::new(path, &self.trusted)));
    }
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
        assert!(places.by_id.len() <= KEPT);
    }
}
