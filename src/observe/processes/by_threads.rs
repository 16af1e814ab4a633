//! Processes that are in a cgroup by their threads alone. The kernel lists a process in
//! `cgroup.procs` of the cgroup of its main thread, and one that has ended, or is ending, stays
//! where it was when the others are moved. `cgroup.threads` lists those others.

use std::collections::{BTreeSet, HashSet};

use nix::errno::Errno;

use super::wanted::Wanted;
use crate::model::CgroupPath;
use crate::observation::{Cgroup, Text};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::cgroups::walk::{PROCS_LIMIT, parse_pids};
use crate::observe::options::Options;
use crate::observe::pinned::{NotRead, PinnedProcess, exists};
use crate::observe::problems::Log;
use crate::sys::absence::OrAbsent as _;
use crate::sys::dir::Dir;

/// The processes of these cgroups, each with its place, that are not among `listed`, to which
/// they are added.
pub(super) fn find<'c>(
    options: &Options,
    hierarchy: &Hierarchy,
    cgroups: impl Iterator<Item = (usize, &'c Cgroup)>,
    listed: &mut HashSet<u32>,
    log: &mut Log,
) -> Vec<Wanted> {
    // A v1 hierarchy lists a process wherever one of its threads is.
    if hierarchy.is_legacy() {
        return Vec::new();
    }
    // Reading the processes tells that it cannot be opened.
    let Ok(proc) = Dir::open(&options.proc) else { return Vec::new() };
    let mut found = Vec::new();
    // Where no process has a number that means it here, no thread has one.
    for (place, Cgroup { path, .. }) in cgroups.filter(|(_, cgroup)| has_numbers(cgroup)) {
        let threads = log.found(path.lossy(), threads(hierarchy, path).or_removed()).unwrap_or_default();
        let new = processes(&proc, threads, |pid| listed.contains(&pid));
        listed.extend(&new);
        found.extend(new.into_iter().map(|pid| Wanted { pid, cgroup: Some(place) }));
    }
    found
}

fn has_numbers(cgroup: &Cgroup) -> bool {
    !cgroup.pids.is_empty() || cgroup.unseen.is_none()
}

/// The threads of a cgroup. The walk has told of those outside of gpumap's pid namespace.
fn threads(hierarchy: &Hierarchy, path: &Text) -> Result<Vec<u32>, Errno> {
    let mut text = Vec::new();
    hierarchy.open(CgroupPath::new(path))?.read_into(c"cgroup.threads", &mut text, PROCS_LIMIT)?;
    Ok(parse_pids(&text).0)
}

/// The processes that have one of these threads and are not listed.
pub(crate) fn processes(
    proc: &Dir,
    threads: impl IntoIterator<Item = u32>,
    is_listed: impl Fn(u32) -> bool,
) -> BTreeSet<u32> {
    let (main, others): (Vec<u32>, Vec<u32>) = threads.into_iter().partition(|tid| is_listed(*tid));
    let mut others: HashSet<u32> = others.into_iter().collect();
    // A process that is listed tells all its threads at once.
    for pid in main {
        if others.is_empty() {
            break;
        }
        // Those of one that does not are asked themselves.
        let _failed = PinnedProcess::open(proc, pid).map(|process| {
            process.dir().numbers(c"task", |_, tid| {
                others.remove(&tid);
                true
            })
        });
    }
    let all = others.into_iter().filter_map(|tid| process_of(proc, tid));
    all.filter(|pid| !is_listed(*pid)).collect()
}

/// The process that has this thread; `None` if the thread has ended.
fn process_of(proc: &Dir, tid: u32) -> Option<u32> {
    match PinnedProcess::open(proc, tid).and_then(|thread| thread.process()) {
        Ok(pid) => Some(pid),
        Err(NotRead::Gone) if !exists(tid) => None,
        // Reading it like a process tells why it cannot be asked, or that it is hidden.
        Err(_) => Some(tid),
    }
}
