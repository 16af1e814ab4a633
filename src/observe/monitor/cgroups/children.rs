//! Adds cgroups that came and drops those that went.

use std::collections::BTreeSet;
use std::time::Instant;

use nix::errno::Errno;

use super::nodes::child;
use super::state::{Differences, MonitoredCgroups};
use crate::model::ProblemCode;
use crate::observation::{Answer, Attached, Cgroup, Text};
use crate::observe::problems::Log;
use crate::sys::absence::is_absence;
use crate::sys::dir::Dir;

impl MonitoredCgroups {
    /// Compares the children of cgroups with those that are known.
    pub(super) fn compare_children(&mut self, found: &mut Differences, log: &mut Log) {
        for path in std::mem::take(&mut found.stale) {
            let names = match self.list(&path) {
                None => continue,
                Some(Ok(names)) => names,
                // The next check finds it gone.
                Some(Err(errno)) if is_absence(errno) => continue,
                Some(Err(errno)) => {
                    log.failed(path.lossy(), errno);
                    self.rescan_at = Instant::now();
                    continue;
                }
            };
            let now: BTreeSet<Text> = names.into_iter().collect();
            for gone in self.nodes.children(&path).into_iter().filter(|known| !now.contains(known)) {
                self.forget(&gone, found);
            }
            for new in now {
                if self.nodes.get(&new).is_none() {
                    self.add_cgroups(&new, found, log);
                }
            }
        }
    }

    /// The paths of the children, in the file system's order.
    fn list(&self, path: &Text) -> Option<Result<Vec<Text>, Errno>> {
        self.nodes.get(path)?;
        let list = |dir: &Dir| {
            // Its link count is at least as new as the one that is kept: a child
            // made from now on shows in it.
            let names = dir.subdirectories(dir.stat()?)?;
            Ok(names.iter().map(|name| child(path, name.as_bytes())).collect())
        };
        Some(self.nodes.with_dir(&self.hierarchy, path, list).and_then(|names| names))
    }

    /// Adds a cgroup and everything below it that is wanted.
    pub(super) fn add_cgroups(&mut self, path: &Text, found: &mut Differences, log: &mut Log) {
        let mut ahead = vec![path.clone()];
        while let Some(path) = ahead.pop() {
            let Some(requested) = self.nodes.wanted(&path) else { continue };
            if self.nodes.is_full() {
                let why = "more cgroups than gpumap follows: the rest is not looked at";
                log.once(ProblemCode::TooMany, "cgroups", why, "");
                return;
            }
            match self.add_cgroup(&path, requested) {
                Ok(children) => {
                    found.fresh.insert(path);
                    ahead.extend(children);
                }
                Err(errno) if is_absence(errno) => {}
                Err(errno) => log.failed(path.lossy(), errno),
            }
        }
    }

    fn add_cgroup(&mut self, path: &Text, requested: bool) -> Result<Vec<Text>, Errno> {
        let dir = self.nodes.open(&self.hierarchy, path)?;
        self.notifier.add(path, &dir);
        let stat = dir.stat()?;
        let cgroup = Cgroup {
            path: path.clone(),
            id: stat.inode,
            effective: Answer::default(),
            own: Answer::Known(Attached::default()),
            pids: Vec::new(),
            unseen: None,
            uid: (stat.uid != 0 && self.hierarchy.sees_uids).then_some(stat.uid),
        };
        self.nodes.insert(cgroup, stat, requested, dir);
        self.list(path).unwrap_or_else(|| Ok(Vec::new()))
    }
}
