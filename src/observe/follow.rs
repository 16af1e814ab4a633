//! Cgroups followed over time: what is attached to each, kept up to date at
//! the cost of one query a cgroup.
//!
//! Attaching a program tells nobody. So every [`Follower::check`] asks each
//! cgroup for its own list, which since Linux 6.17 carries a revision (before,
//! lists are compared), and looks at its link count, which tells of children.
//! Where fanotify or inotify work they tell of cgroups that come and go, so
//! that a caller can wait for them instead of the next tick.
//!
//! What is kept is bounded by the number of cgroups that exist. Only programs
//! are followed: neither map contents that change nor the v1 controller.

mod engine;
mod nodes;
mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::ask::Asker;
use super::hierarchy::Hierarchy;
use super::log::Log;
use super::programs::Library;
use super::walk::Plan;
use super::{ObserveError, Options, Target, host};
use crate::observation::{Answer, Attached, Cgroup, Map, Observation, Problem, Text};
use crate::sys::bpf::{ListKind, query};
use crate::sys::dir::Dir;
use engine::Teller;
use nodes::{Nodes, child, parent};

pub use engine::Engine;
pub use step::Step;

/// However well being told works, everything is listed anew this often.
const RESCAN: Duration = Duration::from_secs(60);
/// Problems that are kept until they are fetched.
const MAX_PROBLEMS: usize = 1000;
/// The revision of a list that was never changed.
const FIRST_REVISION: u64 = 1;

/// Follows cgroups.
#[derive(Debug)]
pub struct Follower {
    options: Options,
    hierarchy: Hierarchy,
    blank: Observation,
    nodes: Nodes,
    teller: Teller,
    asker: Asker,
    library: Library,
    problems: Vec<Problem>,
    has_revisions: bool,
    rescan_at: Instant,
    facts_at: Option<Instant>,
}

/// What one look found.
#[derive(Debug, Default)]
struct Found {
    /// Cgroups as they were, if they changed or are gone.
    before: BTreeMap<Text, Cgroup>,
    /// Cgroups that came.
    fresh: BTreeSet<Text>,
    /// Cgroups whose own programs changed, with the number of changes that the
    /// kernel has counted.
    changed: BTreeMap<Text, u64>,
    /// Cgroups whose children are to be listed.
    stale: BTreeSet<Text>,
    /// Maps that were read again, as they were.
    old_maps: BTreeMap<u32, Map>,
}

/// What one cgroup says when it is asked for no more than that.
enum Look {
    Same,
    Gone,
    Answer { revision: u64, is_same: bool, links: u64 },
}

impl Follower {
    /// Starts to follow `targets` and their ancestors, told by `engine`, or by
    /// the best that works here. Without the right to query programs it
    /// follows nothing but says so in [`Self::problems`].
    ///
    /// # Errors
    ///
    /// As [`super::cgroups`].
    pub fn start(
        options: &Options,
        targets: &[Target],
        engine: Option<Engine>,
    ) -> Result<Self, ObserveError> {
        let hierarchy = Hierarchy::find(options)?;
        let (_, scope) = Plan::new(&hierarchy, targets)?;
        let mut follower = Self {
            options: options.clone(),
            blank: Observation { scope: scope.clone(), ..host::blank(options, Some(&hierarchy)) },
            nodes: Nodes::new(scope),
            teller: Teller::new(&hierarchy, engine),
            asker: Asker::new(hierarchy.is_legacy()),
            hierarchy,
            library: Library::new(),
            problems: Vec::new(),
            has_revisions: false,
            rescan_at: Instant::now() + RESCAN,
            facts_at: None,
        };
        if !follower.hierarchy.is_legacy() {
            let mut found = Found::default();
            let mut log = Log::new(None);
            follower.admit(&"/".into(), &mut found, &mut log);
            follower.read(&mut found, &mut log);
            follower.tidy(log);
        }
        Ok(follower)
    }

    /// Who tells: `revision+fanotify`, `revision+inotify`, the same with
    /// `lists` where the kernel counts no revisions, `polling`.
    pub fn engine(&self) -> &'static str {
        match (self.teller.engine(), self.has_revisions) {
            (Engine::Fanotify, true) => "revision+fanotify",
            (Engine::Fanotify, false) => "lists+fanotify",
            (Engine::Inotify, true) => "revision+inotify",
            (Engine::Inotify, false) => "lists+inotify",
            (Engine::Polling, _) => "polling",
        }
    }

    /// Readable when cgroups came or went; `None` when polling.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.teller.fd()
    }

    /// What could not be seen since the last call.
    pub fn problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }

    /// Looks at every cgroup; `None` if no programs changed anywhere. Does not
    /// wait.
    pub fn check(&mut self) -> Option<Step> {
        if self.hierarchy.is_legacy() {
            return None;
        }
        let mut found = Found::default();
        let mut log = Log::new(None);
        self.listen(&mut found);
        self.sweep(&mut found);
        self.look_above(&mut found, &mut log);
        self.relist(&mut found, &mut log);
        let step = if found.is_nothing() { None } else { self.step(found, &mut log) };
        self.tidy(log);
        step
    }

    /// Takes in what was told.
    fn listen(&mut self, found: &mut Found) {
        let told = self.teller.drain();
        let paths = told.inodes.iter().filter_map(|id| self.nodes.path_of(*id)).cloned();
        found.stale.extend(paths.chain(told.paths));
        if told.lost || Instant::now() >= self.rescan_at {
            self.rescan_at = Instant::now() + RESCAN;
            self.teller.keep(|path| self.nodes.get(path).is_some());
            found.stale.extend(self.nodes.iter().map(|(path, _)| path.clone()));
        }
    }

    /// Asks every cgroup whether its own list or its children have changed.
    fn sweep(&mut self, found: &mut Found) {
        let mut gone = Vec::new();
        let mut news = Vec::new();
        for (path, node) in self.nodes.iter() {
            match self.look(path, node) {
                Look::Same => {}
                Look::Gone => gone.push(path.clone()),
                Look::Answer { revision, is_same, links } => {
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

    /// In a cgroup namespace the programs of cgroups that cannot be seen from
    /// here count too: they show in what is in force at the root.
    fn look_above(&mut self, found: &mut Found, log: &mut Log) {
        let root = Text::from("/");
        let asker = &mut self.asker;
        let ask = |dir: &Dir| asker.effective(dir, log);
        let now = self.nodes.with_dir(&self.hierarchy, &root, ask);
        let known = self.nodes.get(&root).map(|node| &node.cgroup.effective);
        if let (Ok(Ok(now)), Some(known)) = (now, known)
            && now != *known
        {
            found.changed.entry(root).or_default();
        }
    }

    fn look(&self, path: &Text, node: &nodes::Node) -> Look {
        let ask = |dir: &Dir| (query(dir.as_fd(), ListKind::Own), dir.stat());
        let (own, stat) = match self.nodes.with_dir(&self.hierarchy, path, ask) {
            Ok(answers) => answers,
            Err(Errno::ENOENT | Errno::ENODEV) => return Look::Gone,
            Err(_) => return Look::Same,
        };
        let links = stat.map_or(node.links, |stat| stat.links);
        match own {
            Err(error) if error.is_gone() => Look::Gone,
            Err(_) => Look::Answer { revision: node.revision, is_same: true, links },
            Ok(own) => {
                // Ids are not given again for a long time: the list tells too.
                let known = node.cgroup.own.known().map(|own| &own.programs);
                let is_same = own.revision == node.revision && known.is_some_and(|ids| *ids == own.ids);
                if is_same && links == node.links {
                    return Look::Same;
                }
                Look::Answer { revision: own.revision, is_same, links }
            }
        }
    }

    fn forget(&mut self, path: &Text, found: &mut Found) {
        for cgroup in self.nodes.remove(path) {
            found.changed.remove(&cgroup.path);
            if !found.fresh.remove(&cgroup.path) {
                found.before.entry(cgroup.path.clone()).or_insert(cgroup);
            }
        }
    }

    /// Compares the children of cgroups with those that are known.
    fn relist(&mut self, found: &mut Found, log: &mut Log) {
        for path in std::mem::take(&mut found.stale) {
            let Some(Ok(names)) = self.list(&path) else { continue };
            let now: BTreeSet<Text> = names.into_iter().collect();
            for gone in self.nodes.children(&path).into_iter().filter(|known| !now.contains(known)) {
                self.forget(&gone, found);
            }
            for new in now {
                if self.nodes.get(&new).is_none() {
                    self.admit(&new, found, log);
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

    /// Takes in a cgroup and everything wanted below.
    fn admit(&mut self, path: &Text, found: &mut Found, log: &mut Log) {
        let mut ahead = vec![path.clone()];
        while let Some(path) = ahead.pop() {
            let Some(requested) = self.nodes.wanted(&path) else { continue };
            if self.nodes.is_full() {
                let why = "more cgroups than gpumap follows: the rest is not looked at";
                log.once("too-many", "cgroups", why, "");
                return;
            }
            match self.admit_one(&path, requested) {
                Ok(children) => {
                    found.fresh.insert(path);
                    ahead.extend(children);
                }
                Err(Errno::ENOENT | Errno::ENODEV) => {}
                Err(errno) => log.add("unreadable", path.lossy(), errno.to_string(), ""),
            }
        }
    }

    fn admit_one(&mut self, path: &Text, requested: bool) -> Result<Vec<Text>, Errno> {
        let dir = self.nodes.open(&self.hierarchy, path)?;
        self.teller.add(path, &dir);
        let stat = dir.stat()?;
        let cgroup = Cgroup {
            path: path.clone(),
            id: stat.inode,
            effective: Answer::default(),
            own: Answer::Known(Attached::default()),
            pids: Vec::new(),
        };
        let revision = query(dir.as_fd(), ListKind::Own).map_or(0, |own| own.revision);
        self.has_revisions |= revision > 0;
        self.nodes.insert(cgroup, stat, requested, dir);
        if let Some(node) = self.nodes.get_mut(path) {
            node.revision = revision;
        }
        self.list(path).unwrap_or_else(|| Ok(Vec::new()))
    }

    /// Keeps the problems until they are fetched, each once.
    fn tidy(&mut self, log: Log) {
        let room = MAX_PROBLEMS.saturating_sub(self.problems.len());
        let known = |problem: &Problem| self.problems.contains(problem);
        let new: Vec<Problem> =
            log.problems.into_iter().filter(|problem| !known(problem)).take(room).collect();
        self.problems.extend(new);
    }
}

impl Found {
    fn is_nothing(&self) -> bool {
        self.before.is_empty() && self.fresh.is_empty() && self.changed.is_empty()
    }
}
