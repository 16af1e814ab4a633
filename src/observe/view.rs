//! What part of the node can be seen from where gpumap runs. In another pid namespace
//! than the node's, processes outside of it have no number; in another cgroup namespace,
//! or where cgroup2 is not mounted, cgroups are missing; a `/proc` with `hidepid` shows
//! processes of their own user alone. What is there and cannot be seen is counted, and
//! one problem each says which part is seen.

use std::collections::HashSet;
use std::path::Path;

use nix::errno::Errno;

use super::cgroups::hierarchy::Hierarchy;
use super::cgroups::query::UNMOUNTED;
use super::cgroups::walk::{OUTSIDE, VisitedCgroup, WalkPlan};
use super::mountinfo::hidepid;
use super::options::Options;
use super::pinned::{self, PinnedProcess, exists};
use super::problems::Log;
use crate::model::ProblemCode;
use crate::observation::{Cgroup, Process, UnseenProcesses};
use crate::sys::absence::OrAbsent as _;
use crate::sys::caps::{Capabilities, Capability};
use crate::sys::dir::{Dir, FileSystem};
use crate::sys::stat::stat_at;

/// Inode numbers of the node's own namespaces, `PROC_*_INIT_INO` of
/// `linux/proc_ns.h`: the same on every kernel since Linux 3.8.
const NAMESPACES: [(&str, u64); 3] = [("user", 0xEFFF_FFFD), ("cgroup", 0xEFFF_FFFB), ("pid", 0xEFFF_FFFC)];

const NODE_PIDS: &str = "run gpumap in the node's pid namespace: outside of the container, or with hostPID";

const UNNUMBERED: &str = "cgroup.procs numbers them in another pid namespace than the one of --proc";

const UNREAD: &str = "they are there and could not be read";

/// The namespaces (`user`, `cgroup`, `pid`) of gpumap that are not the node's.
///
/// # Errors
///
/// The first that cannot be looked at, and why.
pub(super) fn foreign_namespaces(proc: &Path) -> Result<Vec<&'static str>, (&'static str, Errno)> {
    let mut foreign = Vec::new();
    for (name, inode) in NAMESPACES {
        let failed = |errno| (name, errno);
        let spaces = Dir::open(&proc.join("self/ns")).map_err(failed)?;
        let link = std::ffi::CString::new(name).unwrap_or_default();
        // A kernel without this kind has one for all.
        let found = stat_at(&spaces, &link).or_absent().map_err(failed)?;
        foreign.extend(found.filter(|space| space.inode != inode).map(|_| name));
    }
    Ok(foreign)
}

/// Whether what is mounted begins at the root of the hierarchy, whatever the mount table
/// says: a cgroup namespace shows other paths there, and not other cgroups. Every cgroup
/// but the root has `cgroup.events` (cgroups(7)). `None` for cgroup v1, which has no such
/// file.
///
/// # Errors
///
/// Those of looking.
pub(super) fn is_whole(hierarchy: &Hierarchy) -> Result<Option<bool>, Errno> {
    if hierarchy.handle.file_system()? != FileSystem::Cgroup2 {
        return Ok(None);
    }
    stat_at(&hierarchy.handle, c"cgroup.events").or_removed().map(|events| Some(events.is_none()))
}

/// Whether what gpumap sees is a container with an init and a tree of cgroups of its own,
/// which is a node to those inside: a part of the node's cgroups, in which gpumap itself is
/// somewhere below the root (or entered from outside). In a container that runs one
/// application gpumap is in the root of what it sees, and everybody else is outside of it.
///
/// # Errors
///
/// Those of looking.
fn is_node_of_its_own(hierarchy: &Hierarchy) -> Result<bool, Errno> {
    let is_part = is_whole(hierarchy)? == Some(false);
    Ok(is_part && hierarchy.is_away_from_root())
}

/// What is known of the place that gpumap looks from, once the cgroups were walked.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// Whether processes of what is seen may be outside of gpumap's pid namespace.
    has_own_pids: bool,
    /// Whether the question is about all processes of the node, wherever they are.
    concerns_node: bool,
}

/// Tells which part of the node's cgroups is seen, and marks processes that have no
/// number here or one of another process: pids that mean others in `--proc` are taken
/// away. [`View::finish`] tells of them.
pub(super) fn look(
    options: &Options,
    hierarchy: &Hierarchy,
    seen: &mut [VisitedCgroup],
    plan: &WalkPlan,
    log: &mut Log,
) -> View {
    if hierarchy.hides_cgroup2 {
        let needs = "cgroup2 mounted: mount -t cgroup2 cgroup2 DIR, or gpumap outside of the container";
        log.add(ProblemCode::PartialView, "device programs", UNMOUNTED, needs);
    }
    let foreign = foreign_namespaces(&options.proc).unwrap_or_else(|(name, errno)| {
        log.failed(format!("{}/self/ns/{name}", options.proc.display()), errno);
        Vec::new()
    });
    let has_own_pids = foreign.contains(&"pid");
    let is_own_node = is_node_of_its_own(hierarchy).unwrap_or_else(|errno| {
        log.failed(hierarchy.mount.point.to_string_lossy(), errno);
        false
    });
    if seen.iter().any(|seen| seen.requested) {
        let is_numbered = is_numbered(&options.proc).unwrap_or_else(|errno| {
            log.failed(options.proc.join("self/status").to_string_lossy(), errno);
            false
        });
        let requested = seen.iter_mut().filter(|seen| seen.requested);
        requested.for_each(|seen| mark(&mut seen.cgroup, is_numbered, has_own_pids && hierarchy.is_legacy()));
    }
    if plan.is_whole() || plan.concerns_node {
        if !is_own_node {
            part_of_cgroups(options, hierarchy, foreign.contains(&"cgroup"), log);
        }
        hidden_processes(options, log);
    }
    View { has_own_pids: has_own_pids && !is_own_node, concerns_node: plan.concerns_node }
}

/// Marks the processes that a cgroup lists without a number that means them in `--proc`.
/// cgroup v1 leaves those of outer pid namespaces out of its list (`is_cut`).
fn mark(cgroup: &mut Cgroup, is_numbered: bool, is_cut: bool) {
    if is_cut {
        cgroup.unseen = Some(UnseenProcesses { count: None, why: OUTSIDE.to_owned() });
    }
    if !is_numbered {
        let pids = u32::try_from(std::mem::take(&mut cgroup.pids).len()).unwrap_or(u32::MAX);
        let count = match &cgroup.unseen {
            Some(unseen) => unseen.count.map(|count| count.saturating_add(pids)),
            None => Some(pids),
        };
        let why = UNNUMBERED.to_owned();
        cgroup.unseen = (count != Some(0)).then_some(UnseenProcesses { count, why });
    }
}

impl View {
    /// Tells of processes that cannot be seen, once those that can be were read. Those that
    /// another pid namespace's `--proc` showed all the same are taken off again; those that
    /// a cgroup lists, that exist and that were not read are added, unless the processes
    /// were `named` one by one.
    pub(super) fn finish(
        self,
        options: &Options,
        hierarchy: &Hierarchy,
        seen: &mut [VisitedCgroup],
        processes: &[Process],
        named: bool,
        log: &mut Log,
    ) {
        let mut outside: Option<UnseenProcesses> = None;
        let mut cgroups = 0;
        for VisitedCgroup { cgroup, .. } in seen.iter_mut().filter(|seen| seen.requested) {
            take_off(cgroup, processes);
            // What could not be listed is a problem of its own.
            let is_outside = |it: &&UnseenProcesses| [OUTSIDE, UNNUMBERED].contains(&it.why.as_str());
            let unseen = cgroup.unseen.as_ref().filter(is_outside);
            outside = UnseenProcesses::join(outside, unseen);
            cgroups += usize::from(unseen.is_some());
        }
        if !named {
            add_unread(options, hierarchy, seen, processes, log);
        }
        let why = match outside {
            Some(unseen) => format!(
                "{} of {cgroups} of these cgroups cannot be seen: {}; who holds and asks for GPUs there is not \
                 known",
                unseen.counted(),
                unseen.why
            ),
            None if self.concerns_node && self.has_own_pids => {
                "gpumap is in a pid namespace of its own: processes outside of it are not seen".to_owned()
            }
            None => return,
        };
        log.add(ProblemCode::PartialView, "processes", why, NODE_PIDS);
    }
}

/// Takes off the unseen processes of a cgroup those that were read all the same.
fn take_off(cgroup: &mut Cgroup, processes: &[Process]) {
    if let Some(UnseenProcesses { count: Some(count), why }) = &mut cgroup.unseen
        && why == UNNUMBERED
    {
        let found = processes.iter().filter(|process| process.cgroup == cgroup.path).count();
        *count = count.saturating_sub(u32::try_from(found).unwrap_or(u32::MAX));
    }
    cgroup.unseen.take_if(|unseen| unseen.count == Some(0));
}

/// Adds to each cgroup the processes that it listed, that exist, and that were not read.
fn add_unread(
    options: &Options,
    hierarchy: &Hierarchy,
    seen: &mut [VisitedCgroup],
    processes: &[Process],
    log: &mut Log,
) {
    let read: HashSet<u32> = processes.iter().map(|process| process.pid).collect();
    for VisitedCgroup { cgroup, .. } in seen.iter_mut().filter(|seen| seen.requested) {
        let path = cgroup.path.as_bytes();
        let is_unread = |pid: &&u32| {
            !read.contains(pid) && exists(**pid) && !is_elsewhere(&options.proc, hierarchy, **pid, path)
        };
        let unread = u32::try_from(cgroup.pids.iter().filter(is_unread).count()).unwrap_or(u32::MAX);
        if unread > 0 {
            let more = UnseenProcesses { count: Some(unread), why: UNREAD.to_owned() };
            if log.problems.is_empty() {
                log.add(
                    ProblemCode::Unreadable,
                    more.counted(),
                    format!("left out: {UNREAD}"),
                    "another try",
                );
            }
            cgroup.unseen = UnseenProcesses::join(cgroup.unseen.take(), Some(&more));
        }
    }
}

/// Whether the pids of a proc file system are those of gpumap's own pid namespace:
/// `NSpid` of `/proc/PID/status` has a number for each namespace from the one of the
/// file system down to that of the process (since Linux 4.1).
fn is_numbered(proc: &Path) -> Result<bool, Errno> {
    let own = Dir::open(&proc.join("self")).and_then(|own| pinned::status(&own)).or_absent()?;
    // What has no such file is no proc file system: a stand-in means what it says.
    let text = own.unwrap_or_default();
    let numbers = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"));
    Ok(numbers.is_none_or(|numbers| numbers.trim_ascii().iter().all(u8::is_ascii_digit)))
}

/// Tells if a question about the whole node is answered by a part of its cgroups. A part
/// that the caller named is what was asked for.
fn part_of_cgroups(options: &Options, hierarchy: &Hierarchy, is_foreign: bool, log: &mut Log) {
    if options.cgroup_root.is_some() {
        return;
    }
    let is_part = match is_whole(hierarchy) {
        Ok(whole) => whole.map_or(is_foreign, |whole| !whole),
        Err(errno) => return log.failed(hierarchy.mount.point.to_string_lossy(), errno),
    };
    if is_part {
        log.add(
            ProblemCode::PartialView,
            "cgroups",
            format!(
                "{} is a part of the node's cgroups; the others are not seen",
                hierarchy.mount.point.display()
            ),
            "run gpumap outside of the container, or ask about this part alone with --cgroup-root DIR",
        );
    }
}

/// Tells if `/proc` hides the processes of others.
fn hidden_processes(options: &Options, log: &mut Log) {
    if Capabilities::effective().is_some_and(|held| held.has(Capability::SysPtrace)) {
        return;
    }
    match hidepid(&options.proc) {
        Ok(Some((value, false))) => log.add(
            ProblemCode::PartialView,
            options.proc.to_string_lossy(),
            format!("it is mounted with hidepid={value}: processes of other users are not shown"),
            "CAP_SYS_PTRACE, or the group of the hidepid mount option",
        ),
        Ok(_) => {}
        Err(errno) => log.failed(options.proc.join("self/mounts").to_string_lossy(), errno),
    }
}

/// Whether a process is known to be in another cgroup by now.
fn is_elsewhere(proc: &Path, hierarchy: &Hierarchy, pid: u32, path: &[u8]) -> bool {
    let lines = PinnedProcess::at(proc, pid).and_then(|process| {
        let main = process.stat()?;
        process.by_thread(&main, PinnedProcess::cgroups)
    });
    // What cannot be read is where it was listed.
    lines.is_ok_and(|lines| {
        let now = hierarchy.line(&lines).and_then(|line| hierarchy.mount.inside(line));
        now.is_some_and(|now| now != path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that gpumap's own `/proc` numbers processes as gpumap does, and that
    /// its namespaces can be looked at.
    #[test]
    fn own_view() {
        assert_eq!(is_numbered(Path::new("/proc")), Ok(true));
        assert_eq!(is_numbered(Path::new("/nonexistent")), Ok(true));
        assert!(foreign_namespaces(Path::new("/proc")).is_ok());
        assert!(foreign_namespaces(Path::new("/dev")).is_err());
    }

    /// Make sure that a number that is not known stays unknown.
    #[test]
    fn sums() {
        let some = |count, why: &str| Some(UnseenProcesses { count, why: why.to_owned() });
        let join = |one, other: Option<UnseenProcesses>| UnseenProcesses::join(one, other.as_ref());
        assert_eq!(join(some(Some(1), "a"), some(Some(2), "b")), some(Some(3), "a; b"));
        assert_eq!(join(some(Some(1), "a"), some(None, "a")), some(None, "a"));
        assert_eq!(join(None, None), None);
        assert_eq!(some(Some(2), "a").unwrap().counted(), "2 processes");
    }
}
