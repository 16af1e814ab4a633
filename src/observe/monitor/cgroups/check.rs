//! Checks every monitored cgroup: whether it still exists, whether its own programs
//! changed, and whether its children did.

use std::os::fd::AsFd;
use std::time::Instant;

use super::lists::Listed;
use super::nodes::{CgroupNode, parent};
use super::notification::Notification;
use super::state::{Differences, MonitoredCgroups, RESCAN};
use crate::model::ProblemCode;
use crate::observation::Text;
use crate::observe::problems::Log;
use crate::sys::absence::is_absence;
use crate::sys::bpf::{ListKind, query};
use crate::sys::dir::Dir;

/// The result of comparing one cgroup with the last check.
enum Comparison {
    Same,
    Gone,
    Answer { revision: u64, is_same: bool, links: u64 },
}

impl MonitoredCgroups {
    /// Takes the notifications that have arrived.
    pub(super) fn take_notices(&mut self, found: &mut Differences) {
        let notices = self.notifier.drain();
        let paths = notices.inodes.iter().filter_map(|id| self.nodes.path_of(*id)).cloned();
        found.stale.extend(paths.chain(notices.paths));
        if notices.lost || Instant::now() >= self.rescan_at {
            self.rescan_at = Instant::now() + RESCAN;
            self.notifier.keep(|path| self.nodes.get(path).is_some());
            found.stale.extend(self.nodes.iter().map(|(path, _)| path.clone()));
        }
    }

    /// Checks every cgroup for changes of its own list and of its children.
    pub(super) fn check_all(&mut self, found: &mut Differences, log: &mut Log) {
        let mut gone = Vec::new();
        let mut news = Vec::new();
        let walked = self.lists.walk(self.nodes.len());
        for (path, node) in self.nodes.iter() {
            let listed = walked.as_ref().and_then(|walked| walked.get(node.cgroup.id));
            match listed
                .and_then(|listed| compare(node, &listed))
                .unwrap_or_else(|| self.look(path, node, log))
            {
                Comparison::Same => {}
                Comparison::Gone => gone.push(path.clone()),
                Comparison::Answer { revision, is_same, links } => {
                    news.push((path.clone(), revision, is_same, links));
                }
            }
        }
        for (path, revision, is_same, links) in news {
            let Some(node) = self.nodes.get_mut(&path) else { continue };
            if links != node.links {
                node.links = links;
                found.stale.insert(path.clone());
            }
            if !is_same {
                let count = node.advance(revision);
                found.changed.insert(path, count);
            }
        }
        for path in gone {
            found.stale.extend(parent(&path));
            self.forget(&path, found);
        }
    }

    /// Checks the programs in force at the root. In a cgroup namespace these include
    /// programs of cgroups above, which cannot be seen from here.
    pub(super) fn check_above_root(&mut self, found: &mut Differences, log: &mut Log) {
        let root = Text::from("/");
        let list_query = &mut self.list_query;
        let ask = |dir: &Dir| list_query.effective(dir, log);
        let now = self.nodes.with_dir(&self.hierarchy, &root, ask);
        let known = self.nodes.get(&root).map(|node| &node.cgroup.effective);
        if let (Ok(Ok(now)), Some(known)) = (now, known)
            && now != *known
        {
            found.changed.entry(root).or_default();
        }
    }

    /// Queries one cgroup. One that cannot be asked is a problem, and is asked again at the
    /// next check.
    fn look(&self, path: &Text, node: &CgroupNode, log: &mut Log) -> Comparison {
        let is_notified = self.notifier.engine() == Notification::Fanotify;
        let links =
            |dir: &Dir| if is_notified { node.links } else { dir.stat().map_or(node.links, |it| it.links) };
        let ask = |dir: &Dir| (query(dir.as_fd(), ListKind::Own), links(dir));
        let (own, links) = match self.nodes.with_dir(&self.hierarchy, path, ask) {
            Ok(answers) => answers,
            Err(errno) if is_absence(errno) => return Comparison::Gone,
            Err(errno) => {
                log.failed(path.lossy(), errno);
                return Comparison::Same;
            }
        };
        match own {
            Err(error) if error.is_gone() => Comparison::Gone,
            Err(error) => {
                if !error.is_refused() {
                    log.once(ProblemCode::QueryFailed, "device programs of a cgroup", error.to_string(), "");
                }
                Comparison::Answer { revision: node.revision, is_same: true, links }
            }
            Ok(own) => answer(node, own.revision, &own.ids, links),
        }
    }

    pub(super) fn forget(&mut self, path: &Text, found: &mut Differences) {
        for cgroup in self.nodes.remove(path) {
            found.changed.remove(&cgroup.path);
            if !found.fresh.remove(&cgroup.path) {
                found.before.entry(cgroup.path.clone()).or_insert(cgroup);
            }
        }
    }
}

/// Compares with what a walk has shown; `None` if it did not show everything.
fn compare(node: &CgroupNode, listed: &Listed<'_>) -> Option<Comparison> {
    Some(answer(node, listed.revision, listed.own?, listed.links))
}

/// The list of ids is compared too: the kernel does not reuse ids for a long time.
fn answer(node: &CgroupNode, revision: u64, ids: &[u32], links: u64) -> Comparison {
    let known = node.cgroup.own.known().map(|own| own.programs.as_slice());
    let is_same = revision == node.revision && known == Some(ids);
    if is_same && links == node.links {
        return Comparison::Same;
    }
    Comparison::Answer { revision, is_same, links }
}
