//! What the monitor keeps of cgroups, what one check found, and who reports cgroups that
//! come and go: fanotify or inotify. Neither reports programs; for those every cgroup is
//! queried.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::lists::ListReader;
use super::nodes::Nodes;
use crate::observation::{Cgroup, Map, Observation, Problem, Program, Text};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::cgroups::query::ListQuery;
use crate::observe::options::Options;
use crate::observe::problems::Log;
use crate::observe::programs::cache::ProgramCache;
use crate::sys::dir::Dir;
use crate::sys::notify::{Notice, PerDir, WholeFs};

/// How often everything is listed again, even if notification works.
pub(super) const RESCAN: Duration = Duration::from_secs(60);

/// Problems that are kept until they are fetched.
const MAX_PROBLEMS: usize = 1000;

/// The revision of a list that was never changed.
pub(super) const FIRST_REVISION: u64 = 1;

/// The state of the monitor.
#[derive(Debug)]
pub(super) struct MonitoredCgroups {
    pub(super) options: Options,
    pub(super) hierarchy: Hierarchy,
    pub(super) blank: Observation,
    pub(super) nodes: Nodes,
    pub(super) notifier: Notifier,
    pub(super) lists: ListReader,
    pub(super) list_query: ListQuery,
    pub(super) cache: ProgramCache,
    pub(super) problems: Vec<Problem>,
    pub(super) has_revisions: bool,
    pub(super) rescan_at: Instant,
    pub(super) facts_at: Option<Instant>,
    /// The map that was read last.
    pub(super) map_turn: u32,
    /// When replaced functions were last asked for.
    pub(super) replacements_at: Instant,
}

/// The differences that one check found.
#[derive(Debug, Default)]
pub(super) struct Differences {
    /// Changed and removed cgroups as they were before.
    pub(super) before: BTreeMap<Text, Cgroup>,
    /// New cgroups.
    pub(super) fresh: BTreeSet<Text>,
    /// Cgroups whose own programs changed, with the number of changes that the
    /// kernel counted.
    pub(super) changed: BTreeMap<Text, u64>,
    /// Cgroups whose children have to be listed again.
    pub(super) stale: BTreeSet<Text>,
    /// Changed maps as they were before.
    pub(super) old_maps: BTreeMap<u32, Map>,
    /// Programs of which other functions are replaced now, as they were before.
    pub(super) old_programs: BTreeMap<u32, Program>,
    /// Cgroups on which programs are in force that read a changed map, or of which
    /// a function was replaced.
    pub(super) touched: BTreeSet<Text>,
}

impl MonitoredCgroups {
    /// Keeps problems, each once, until the caller fetches them.
    pub(super) fn tidy(&mut self, log: Log) {
        let room = MAX_PROBLEMS.saturating_sub(self.problems.len());
        let known = |problem: &Problem| self.problems.contains(problem);
        let new: Vec<Problem> =
            log.problems.into_iter().filter(|problem| !known(problem)).take(room).collect();
        self.problems.extend(new);
    }
}

impl Differences {
    pub(super) fn is_nothing(&self) -> bool {
        self.before.is_empty() && self.fresh.is_empty() && self.changed.is_empty() && self.touched.is_empty()
    }
}

/// Notification backends, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// fanotify on the file system (cgroup2 since about Linux 6.7).
    Fanotify,
    /// inotify on every directory.
    Inotify,
    /// None: the caller checks at intervals.
    Polling,
}

/// The backend in use.
#[derive(Debug)]
pub(super) enum Notifier {
    Fanotify(WholeFs),
    Inotify(PerDir, HashMap<u64, Text>),
    Nobody,
}

/// The changes that the backend reported.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// Inode numbers of cgroups whose children were created or removed.
    pub(super) inodes: Vec<u64>,
    /// Paths of cgroups whose children were created or removed.
    pub(super) paths: Vec<Text>,
    /// Notifications were lost: anything may have happened.
    pub(super) lost: bool,
}

impl Notifier {
    /// The backend that the caller names, or else the best that works here.
    pub(super) fn new(hierarchy: &Hierarchy, engine: Option<Notification>) -> Self {
        let fanotify = || WholeFs::new(&hierarchy.handle).map(Self::Fanotify);
        let inotify = || PerDir::new().map(|watches| Self::Inotify(watches, HashMap::new()));
        let notices = match engine {
            _ if hierarchy.is_legacy() => return Self::Nobody,
            None => fanotify().or_else(|_| inotify()),
            Some(Notification::Fanotify) => fanotify(),
            Some(Notification::Inotify) => inotify(),
            Some(Notification::Polling) => return Self::Nobody,
        };
        notices.unwrap_or(Self::Nobody)
    }

    pub(super) fn engine(&self) -> Notification {
        match self {
            Self::Fanotify(_) => Notification::Fanotify,
            Self::Inotify(..) => Notification::Inotify,
            Self::Nobody => Notification::Polling,
        }
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Fanotify(group) => Some(group.as_fd()),
            Self::Inotify(watches, _) => Some(watches.as_fd()),
            Self::Nobody => None,
        }
    }

    /// Adds a cgroup, before its children are listed. Without a free watch, changes of
    /// its children are found by its link count.
    pub(super) fn add(&mut self, path: &Text, dir: &Dir) {
        if let Self::Inotify(watches, paths) = self
            // Without a watch its link count tells changes.
            && let Ok(watch) = watches.add(dir)
        {
            paths.insert(watch, path.clone());
        }
    }

    /// Forgets watches whose end was not reported.
    pub(super) fn keep(&mut self, is_known: impl Fn(&Text) -> bool) {
        if let Self::Inotify(_, paths) = self {
            paths.retain(|_, path| is_known(path));
        }
    }

    /// Everything reported since the last call.
    pub(super) fn drain(&mut self) -> Notices {
        let mut notices = Notices::default();
        let result = match self {
            Self::Fanotify(group) => group.drain(|notice| match notice {
                Notice::In(inode) => notices.inodes.push(inode),
                Notice::Ended(_) => {}
                Notice::Lost => notices.lost = true,
            }),
            Self::Inotify(watches, paths) => watches.drain(|notice| match notice {
                Notice::In(watch) => notices.paths.extend(paths.get(&watch).cloned()),
                Notice::Ended(watch) => drop(paths.remove(&watch)),
                Notice::Lost => notices.lost = true,
            }),
            Self::Nobody => Ok(()),
        };
        // Then anything may have happened.
        notices.lost |= result.is_err();
        notices
    }
}
