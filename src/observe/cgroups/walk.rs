//! Walks the hierarchy. Every cgroup is opened once; its id, programs and
//! processes are all read through that one handle.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::thread;

use nix::errno::Errno;

use super::hierarchy::Hierarchy;
use super::query::ListQuery;
use super::thread_cgroups::{self, Threaded};
use crate::model::{CgroupPath, ProblemCode};
use crate::observation::{Cgroup, Scope, Text, UnseenProcesses};
use crate::observe::error::ObserveError;
use crate::observe::options::CgroupTarget;
use crate::observe::problems::Log;
use crate::sys::absence::is_removal;
use crate::sys::dir::{Dir, DirStat};

pub(in crate::observe) use super::query::VisitedCgroup;

/// Nested deeper than this below the first directory walked, cgroups are left
/// out with a problem: every level holds an open descriptor.
const MAX_DEPTH: usize = 256;
/// From so many directories on, two threads walk: each takes milliseconds then.
const MANY: usize = 16;
/// `cgroup.procs` is read up to this many bytes (some ten million processes).
pub(in crate::observe) const PROCS_LIMIT: usize = 64 << 20;

/// Why processes that `cgroup.procs` lists as 0 are not seen.
pub(in crate::observe) const OUTSIDE: &str = "they are outside of gpumap's pid namespace";

/// The cgroups to walk, as a tree of names.
#[derive(Debug, Default)]
pub(in crate::observe) struct WalkPlan {
    requested: bool,
    /// Whether a process that is asked about is in it.
    mentioned: bool,
    recursive: bool,
    /// Whether the question is about the whole node, whatever is walked.
    pub(in crate::observe) concerns_node: bool,
    children: BTreeMap<Vec<u8>, WalkPlan>,
}

impl WalkPlan {
    /// Resolves the targets; each must exist now.
    pub(in crate::observe) fn new(
        hierarchy: &Hierarchy,
        targets: &[CgroupTarget],
    ) -> Result<(Self, Vec<Scope>), ObserveError> {
        let mut plan = Self::default();
        let mut scope = Vec::new();
        for target in targets {
            let path = hierarchy.find_target(target)?;
            plan.add(path.as_path(), target.recursive);
            scope.push(Scope { path: path.into(), recursive: target.recursive });
        }
        Ok((plan, scope))
    }

    /// Whether it is about all cgroups there are.
    pub(in crate::observe) fn is_whole(&self) -> bool {
        self.recursive
    }

    /// Adds a cgroup whose processes were not asked for: it is walked like an
    /// ancestor.
    pub(in crate::observe) fn mention(&mut self, path: CgroupPath<'_>) -> &mut Self {
        let node = path.names().fold(self, |node, name| node.children.entry(name.to_vec()).or_default());
        node.mentioned = true;
        node
    }

    /// Adds a cgroup of which nobody knows whether it is there, and everything below it.
    pub(in crate::observe) fn add(&mut self, path: CgroupPath<'_>, recursive: bool) {
        let node = self.mention(path);
        node.requested = true;
        node.recursive |= recursive;
    }
}

/// Walks the planned cgroups, parents first.
pub(in crate::observe) fn walk(hierarchy: &Hierarchy, plan: &WalkPlan, log: &mut Log) -> Vec<VisitedCgroup> {
    if !plan.requested && !plan.mentioned && plan.children.is_empty() {
        return Vec::new();
    }
    let list_query = ListQuery::new(hierarchy);
    let mut walker = Walker {
        log,
        list_query,
        sees_uids: hierarchy.sees_uids,
        is_half: false,
        seen: Vec::new(),
        threaded: Vec::new(),
        path: Vec::new(),
        buffer: Vec::new(),
    };
    walker.planned(&hierarchy.handle, plan);
    let Walker { seen, threaded, .. } = walker;
    thread_cgroups::tell(&seen, &threaded, log);
    seen
}

struct Walker<'a> {
    log: &'a mut Log,
    list_query: ListQuery,
    sees_uids: bool,
    /// Whether another thread walks the other half at the same time.
    is_half: bool,
    seen: Vec<VisitedCgroup>,
    threaded: Vec<Threaded>,
    path: Vec<u8>,
    buffer: Vec<u8>,
}

impl Walker<'_> {
    fn planned(&mut self, dir: &Dir, plan: &WalkPlan) {
        if plan.recursive {
            return self.subtree(dir, 0);
        }
        if self.record(dir, plan.requested).is_none() {
            return;
        }
        for (name, child) in &plan.children {
            // No name in a file system has a NUL byte.
            let Ok(name) = CString::new(name.as_slice()) else {
                self.failed(Errno::ENOENT);
                continue;
            };
            self.below(dir, &name, |walker, dir| walker.planned(dir, child));
        }
    }

    fn subtree(&mut self, dir: &Dir, depth: usize) {
        let Some(stat) = self.record(dir, true) else { return };
        if depth >= MAX_DEPTH && stat.links > 2 {
            let what = self.here();
            self.log.add(
                ProblemCode::TooDeep,
                what,
                format!("cgroups nested over {MAX_DEPTH} levels were not read"),
                "name a cgroup further down",
            );
            return;
        }
        match dir.subdirectories(stat) {
            Ok(names) if !self.is_half && names.len() >= MANY => self.halves(dir, &names, depth),
            Ok(names) => self.each(dir, &names, depth),
            Err(errno) => self.failed(errno),
        }
    }

    fn each(&mut self, dir: &Dir, names: &[CString], depth: usize) {
        names.iter().for_each(|name| self.below(dir, name, |walker, dir| walker.subtree(dir, depth + 1)));
    }

    /// Walks the second half in another thread and keeps the order. Half of the
    /// names of the first large directory is half of the work on most nodes.
    fn halves(&mut self, dir: &Dir, names: &[CString], depth: usize) {
        let (first, second) = names.split_at(names.len() / 2);
        let mut log = Log::new(self.log.deadline());
        let list_query = self.list_query.clone();
        let (path, sees_uids) = (self.path.clone(), self.sees_uids);
        let seen = thread::scope(|scope| {
            let log = &mut log;
            let work = move || {
                let (seen, threaded, buffer) = (Vec::new(), Vec::new(), Vec::new());
                let is_half = true;
                let mut walker = Walker { log, list_query, sees_uids, is_half, seen, threaded, path, buffer };
                walker.each(dir, second, depth);
                (walker.seen, walker.threaded)
            };
            // Without a thread, one after the other.
            let Ok(other) = thread::Builder::new().spawn_scoped(scope, work) else { return None };
            self.is_half = true;
            self.each(dir, first, depth);
            self.is_half = false;
            Some(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        match seen {
            Some((seen, threaded)) => {
                self.seen.extend(seen);
                self.threaded.extend(threaded);
            }
            None => self.each(dir, names, depth),
        }
        // A problem that both halves found is reported once.
        let news = log.problems.into_iter().filter(|problem| !self.log.problems.contains(problem));
        let news: Vec<_> = news.collect();
        self.log.problems.extend(news);
    }

    /// Goes one name down, and back.
    fn below(&mut self, dir: &Dir, name: &CString, visit: impl FnOnce(&mut Self, &Dir)) {
        if self.log.out_of_time("walking the cgroups") {
            return;
        }
        let length = self.path.len();
        self.path.push(b'/');
        self.path.extend_from_slice(name.as_bytes());
        match dir.child(name.as_c_str()) {
            Ok(child) => visit(self, &child),
            Err(errno) => self.failed(errno),
        }
        self.path.truncate(length);
    }

    /// Reads everything about one cgroup; `None` if it is gone.
    fn record(&mut self, dir: &Dir, requested: bool) -> Option<DirStat> {
        let stat = match dir.stat() {
            Ok(stat) => stat,
            Err(errno) => {
                self.failed(errno);
                return None;
            }
        };
        // The query says nothing but that the cgroup is gone.
        let Ok((effective, own)) = self.list_query.lists(dir, self.log) else {
            self.failed(Errno::ENOENT);
            return None;
        };
        let (pids, unseen) = if requested { self.pids(dir)? } else { Default::default() };
        let path = self.text();
        let uid = (stat.uid != 0 && self.sees_uids).then_some(stat.uid);
        self.seen.push(VisitedCgroup {
            cgroup: Cgroup { path, id: stat.inode, effective, own, pids, unseen, uid },
            requested,
        });
        Some(stat)
    }

    /// Its processes: their pids, and those that cannot be seen.
    fn pids(&mut self, dir: &Dir) -> Option<(Vec<u32>, Option<UnseenProcesses>)> {
        match dir.read_into(c"cgroup.procs", &mut self.buffer, PROCS_LIMIT) {
            Ok(()) => {
                let (pids, outside) = parse_pids(&self.buffer);
                let why = OUTSIDE.to_owned();
                let unseen = (outside > 0).then_some(UnseenProcesses { count: Some(outside), why });
                Some((pids, unseen))
            }
            Err(Errno::EOPNOTSUPP) => {
                let read = dir.read_into(c"cgroup.threads", &mut self.buffer, PROCS_LIMIT);
                if let Err(errno) = read {
                    self.failed(errno);
                }
                // A failure was told above.
                let is_empty = read.is_ok() && self.buffer.is_empty();
                self.threaded.push(Threaded { path: self.text(), is_empty });
                Some((Vec::new(), None))
            }
            Err(errno) => {
                self.failed(errno);
                let why = format!("they could not be listed: {}", errno.desc());
                (!is_removal(errno)).then_some((Vec::new(), Some(UnseenProcesses { count: None, why })))
            }
        }
    }

    fn failed(&mut self, errno: Errno) {
        let what = self.here();
        if is_removal(errno) {
            self.log.add(ProblemCode::CgroupGone, what, "removed while it was read", "");
        } else {
            self.log.failed(what, errno);
        }
    }

    fn here(&self) -> String {
        self.text().lossy().into_owned()
    }

    fn text(&self) -> Text {
        if self.path.is_empty() { "/".into() } else { self.path.as_slice().into() }
    }
}

/// Pids of `cgroup.procs`, and how many processes have none: 0 stands for one outside of
/// gpumap's pid namespace.
pub(in crate::observe) fn parse_pids(text: &[u8]) -> (Vec<u32>, u32) {
    let lines = text.split(|byte| *byte == b'\n');
    let mut pids: Vec<u32> = lines.filter_map(|line| std::str::from_utf8(line).ok()?.parse().ok()).collect();
    let all = pids.len();
    pids.retain(|pid| *pid != 0);
    let outside = all - pids.len();
    (pids, u32::try_from(outside).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that foreign pids are counted and rubbish is left out.
    #[test]
    fn pids() {
        assert_eq!(parse_pids(b"0\n17\n0\n4194304\nx\n99999999999\n"), (vec![17, 4194304], 2));
        assert_eq!(parse_pids(b""), (Vec::new(), 0));
    }

    /// Make sure that overlapping targets become one tree.
    #[test]
    fn plans() {
        let mut plan = WalkPlan::default();
        plan.add(CgroupPath::new("/a/b"), true);
        plan.add(CgroupPath::new("/a"), false);
        plan.add(CgroupPath::new("/a/b"), false);
        let a = &plan.children[&b"a"[..]];
        assert!(a.requested && !a.recursive && !plan.requested);
        assert!(a.children[&b"b"[..]].recursive);
    }
}
