//! Cgroup notification backends: fanotify or inotify report cgroups that come and
//! go. No backend reports programs; for those every cgroup is queried.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};

use crate::observation::Text;
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::sys::dir::Dir;
use crate::sys::notify::{Notice, PerDir, WholeFs};

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
