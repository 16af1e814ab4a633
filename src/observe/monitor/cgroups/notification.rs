//! Cgroup notification backends: who tells that cgroups come and go. Nobody
//! tells that programs do: for that every cgroup is asked.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};

use crate::observation::Text;
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::sys::dir::Dir;
use crate::sys::notify::{Notice, PerDir, WholeFs};

/// Ways to be told, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// fanotify on the file system (cgroup2 since about Linux 6.7).
    Fanotify,
    /// inotify on every directory.
    Inotify,
    /// Nobody: looking again.
    Polling,
}

/// The way in use.
#[derive(Debug)]
pub(super) enum Teller {
    Fanotify(WholeFs),
    Inotify(PerDir, HashMap<u64, Text>),
    Nobody,
}

/// What was told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Inode numbers of cgroups in which others were made or removed.
    pub(super) inodes: Vec<u64>,
    /// The same as paths.
    pub(super) paths: Vec<Text>,
    /// Anything may have happened.
    pub(super) lost: bool,
}

impl Teller {
    /// The engine asked for, else the best that works here.
    pub(super) fn new(hierarchy: &Hierarchy, engine: Option<Engine>) -> Self {
        let fanotify = || WholeFs::new(&hierarchy.handle).map(Self::Fanotify);
        let inotify = || PerDir::new().map(|watches| Self::Inotify(watches, HashMap::new()));
        let told = match engine {
            _ if hierarchy.is_legacy() => return Self::Nobody,
            None => fanotify().or_else(|_| inotify()),
            Some(Engine::Fanotify) => fanotify(),
            Some(Engine::Inotify) => inotify(),
            Some(Engine::Polling) => return Self::Nobody,
        };
        told.unwrap_or(Self::Nobody)
    }

    pub(super) fn engine(&self) -> Engine {
        match self {
            Self::Fanotify(_) => Engine::Fanotify,
            Self::Inotify(..) => Engine::Inotify,
            Self::Nobody => Engine::Polling,
        }
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Fanotify(group) => Some(group.as_fd()),
            Self::Inotify(watches, _) => Some(watches.as_fd()),
            Self::Nobody => None,
        }
    }

    /// Takes in a cgroup, before its children are listed. Out of watches, the
    /// rest is found by looking again: link counts tell.
    pub(super) fn add(&mut self, path: &Text, dir: &Dir) {
        if let Self::Inotify(watches, paths) = self
            && let Ok(watch) = watches.add(dir)
        {
            paths.insert(watch, path.clone());
        }
    }

    /// Forgets watches whose end was not told.
    pub(super) fn keep(&mut self, is_known: impl Fn(&Text) -> bool) {
        if let Self::Inotify(_, paths) = self {
            paths.retain(|_, path| is_known(path));
        }
    }

    /// Everything told since the last call.
    pub(super) fn drain(&mut self) -> Told {
        let mut told = Told::default();
        let result = match self {
            Self::Fanotify(group) => group.drain(|notice| match notice {
                Notice::In(inode) => told.inodes.push(inode),
                Notice::Ended(_) => {}
                Notice::Lost => told.lost = true,
            }),
            Self::Inotify(watches, paths) => watches.drain(|notice| match notice {
                Notice::In(watch) => told.paths.extend(paths.get(&watch).cloned()),
                Notice::Ended(watch) => drop(paths.remove(&watch)),
                Notice::Lost => told.lost = true,
            }),
            Self::Nobody => Ok(()),
        };
        told.lost |= result.is_err();
        told
    }
}
