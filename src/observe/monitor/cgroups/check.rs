//! Looks what changed since the last check: lists of programs, children of cgroups, contents
//! of maps, and functions of programs that were replaced.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::lists::Listed;
use super::nodes::{CgroupNode, child, parent};
use super::state::{Differences, MonitoredCgroups, Notification, RESCAN};
use crate::model::ProblemCode;
use crate::observation::{Answer, Attached, Cgroup, Program, Text};
use crate::observe::problems::Log;
use crate::observe::programs::{cache, symbols};
use crate::sys::absence::is_removal;
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

    /// Adds everything where the root could not be opened before.
    pub(super) fn add_root(&mut self, found: &mut Differences, log: &mut Log) {
        let root = Text::from("/");
        if self.nodes.get(&root).is_none() {
            self.add_cgroups(&root, found, log);
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
            // The number of before: then the next check finds new children.
            |dir: &Dir| if is_notified { node.links } else { dir.stat().map_or(node.links, |it| it.links) };
        let ask = |dir: &Dir| (query(dir.as_fd(), ListKind::Own), links(dir));
        let (own, links) = match self.nodes.with_dir(&self.hierarchy, path, ask) {
            Ok(answers) => answers,
            Err(errno) if is_removal(errno) => return Comparison::Gone,
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

impl MonitoredCgroups {
    /// Compares the children of cgroups with those that are known.
    pub(super) fn compare_children(&mut self, found: &mut Differences, log: &mut Log) {
        for path in std::mem::take(&mut found.stale) {
            let names = match self.list(&path) {
                None => continue,
                Some(Ok(names)) => names,
                // The next check finds it gone.
                Some(Err(errno)) if is_removal(errno) => continue,
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

    /// Adds a cgroup and everything below it that is wanted. What cannot be opened or listed
    /// is a problem, and is looked for again at the next check.
    pub(super) fn add_cgroups(&mut self, path: &Text, found: &mut Differences, log: &mut Log) {
        let mut ahead = vec![path.clone()];
        while let Some(path) = ahead.pop() {
            let Some(requested) = self.nodes.wanted(&path) else { continue };
            if self.nodes.is_full() {
                let why = "more cgroups than gpumap follows: the rest is not looked at";
                log.once(ProblemCode::TooMany, "cgroups", why, "");
                return;
            }
            let added = self.add_cgroup(&path, requested);
            let children = added.and_then(|()| self.list(&path).unwrap_or_else(|| Ok(Vec::new())));
            if self.nodes.get(&path).is_some() {
                found.fresh.insert(path.clone());
            }
            match children {
                Ok(children) => ahead.extend(children),
                Err(errno) if is_removal(errno) => {}
                Err(errno) => {
                    log.failed(path.lossy(), errno);
                    self.rescan_at = Instant::now();
                }
            }
        }
    }

    fn add_cgroup(&mut self, path: &Text, requested: bool) -> Result<(), Errno> {
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
        Ok(())
    }
}

/// The longest time that one check reads maps; the next check reads the others.
const TIME: Duration = Duration::from_millis(20);

impl MonitoredCgroups {
    /// Reads maps again, the longest unread first, and finds the cgroups whose
    /// programs in force use a changed map.
    pub(super) fn reread_maps(&mut self, found: &mut Differences, log: &mut Log) {
        let start = Instant::now();
        let mut changed = BTreeSet::new();
        for id in self.maps_in_turn() {
            self.map_turn = id;
            if self.reread(id, found, log) {
                changed.insert(id);
            }
            if start.elapsed() > TIME {
                break;
            }
        }
        if !changed.is_empty() {
            found.touched.extend(self.users(&changed));
        }
    }

    fn maps_in_turn(&self) -> Vec<u32> {
        let later = self.cache.maps.range((Bound::Excluded(self.map_turn), Bound::Unbounded));
        let earlier = self.cache.maps.range(..=self.map_turn);
        let open = later.chain(earlier).filter(|(_, map)| !map.frozen);
        open.map(|(id, _)| *id).collect()
    }

    /// Whether the contents of the map changed since it was last read. A map that
    /// cannot be read at this moment counts as unchanged.
    fn reread(&mut self, id: u32, found: &mut Differences, log: &mut Log) -> bool {
        let new = cache::read(id, log);
        let Some(known) = self.cache.maps.get_mut(&id) else { return false };
        if known.entries == new.entries || new.entries.known().is_none() {
            return false;
        }
        let old = std::mem::replace(known, new);
        self.cache.add_inner(log);
        symbols::resolve(&self.options.proc, self.cache.unnamed_called(), log);
        found.old_maps.entry(id).or_insert(old);
        true
    }

    /// The cgroups on which programs are in force that use one of these maps.
    pub(super) fn users(&self, maps: &BTreeSet<u32>) -> Vec<Text> {
        let uses = |program: &&Program| !self.cache.used(std::iter::once(*program)).is_disjoint(maps);
        let programs = self.cache.programs.values().filter(uses);
        self.running(&programs.map(|program| program.id).collect())
    }

    /// The cgroups on which one of these programs is in force.
    pub(super) fn running(&self, programs: &BTreeSet<u32>) -> Vec<Text> {
        let is_used = |ids: &Vec<u32>| ids.iter().any(|id| programs.contains(id));
        let on = self.nodes.iter().filter(|(_, node)| node.requested);
        let on = on.filter(|(_, node)| node.cgroup.effective.known().is_some_and(is_used));
        on.map(|(path, _)| path.clone()).collect()
    }
}

/// How often all links of the node are listed for that, three system calls each.
const EVERY: Duration = Duration::from_secs(1);

impl MonitoredCgroups {
    /// Finds the cgroups on which programs are in force of which a function was
    /// replaced or given back.
    pub(super) fn ask_replacements(&mut self, found: &mut Differences, log: &mut Log) {
        if self.replacements_at.elapsed() < EVERY {
            return;
        }
        self.replacements_at = Instant::now();
        let (programs, maps) = self.cache.ask_replacements(log);
        if !programs.is_empty() {
            found.touched.extend(self.running(&programs.keys().copied().collect()));
        }
        if !maps.is_empty() {
            found.touched.extend(self.users(&maps.keys().copied().collect()));
        }
        found.old_programs.extend(programs);
        for (id, old) in maps {
            found.old_maps.entry(id).or_insert(old);
        }
    }
}
