//! Reads the processes of the requested cgroups: who they are and, with
//! [`Options::detail`], what they ask for and hold.

use std::collections::{BTreeSet, HashSet};

use nix::errno::Errno;

use super::look::{Look, Vanished};
use super::moved;
use super::wanted::Wanted;
use crate::model::CgroupPath;
use crate::observation::{Process, Text};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::cgroups::walk::{VisitedCgroup, parse_pids};
use crate::observe::options::Options;
use crate::observe::problems::Log;

/// `cgroup.procs` is read up to this many bytes.
const PROCS_LIMIT: usize = 64 << 20;

/// Reads the processes that the walk listed and that are still in one of these cgroups, and
/// those that began since where others ended before they were read. `whole`: the walk was
/// about all cgroups, so that nobody leaves its scope by moving while it goes on.
pub(in crate::observe) fn collect(
    options: &Options,
    hierarchy: &Hierarchy,
    seen: &[VisitedCgroup],
    whole: bool,
    log: &mut Log,
) -> Vec<Process> {
    let requested = || seen.iter().filter(|seen| seen.requested).map(|seen| &seen.cgroup);
    let cgroups: Vec<&Text> = requested().map(|cgroup| &cgroup.path).collect();
    let mut listed = HashSet::new();
    let pids =
        requested().enumerate().flat_map(|(place, cgroup)| cgroup.pids.iter().map(move |pid| (*pid, place)));
    let mut wanted: Vec<Wanted> = pids
        .filter(|(pid, _)| listed.insert(*pid))
        .map(|(pid, place)| Wanted { pid, cgroup: Some(place) })
        .collect();
    let unlisted = |listed: &mut HashSet<u32>, log: &mut Log| {
        moved::unlisted(options, hierarchy, listed).unwrap_or_else(|errno| {
            log.failed(options.proc.to_string_lossy(), errno);
            Vec::new()
        })
    };
    if whole {
        wanted.extend(unlisted(&mut listed, log));
    }
    let look = Look { options, hierarchy, cgroups: &cgroups, anywhere: false, sieve: None };
    let mut list = |done: &mut HashSet<u32>, vanished: &[Vanished], log: &mut Log| {
        let mut wanted = again(hierarchy, &cgroups, done, vanished, log);
        if whole {
            let listed: HashSet<u32> = wanted.iter().map(|one| one.pid).collect();
            let others = unlisted(done, log).into_iter();
            wanted.extend(others.filter(|one| !listed.contains(&one.pid)));
        }
        wanted
    };
    let found = look.read(wanted, &mut list, log);
    look.tell(&found, log, &mut Vec::new());
    let requested: HashSet<&[u8]> = cgroups.iter().map(|path| path.as_bytes()).collect();
    let (processes, elsewhere): (Vec<_>, Vec<_>) =
        found.read.into_iter().partition(|process| requested.contains(process.cgroup.as_bytes()));
    if whole {
        moved::tell(options, &elsewhere, log);
    }
    processes
}

/// The processes that are not done, of the cgroups in which others vanished.
fn again(
    hierarchy: &Hierarchy,
    cgroups: &[&Text],
    done: &HashSet<u32>,
    vanished: &[Vanished],
    log: &mut Log,
) -> Vec<Wanted> {
    let places: BTreeSet<usize> = vanished.iter().filter_map(|one| one.wanted.cgroup).collect();
    let mut wanted = Vec::new();
    for place in places {
        let Some(path) = cgroups.get(place) else { continue };
        let text = log.there(path.lossy(), procs(hierarchy, path));
        let pids = text.map(|text| parse_pids(&text).0).unwrap_or_default().into_iter();
        let new = pids.filter(|pid| !done.contains(pid));
        wanted.extend(new.map(|pid| Wanted { pid, cgroup: Some(place) }));
    }
    wanted
}

/// The pids that a cgroup lists now. The walk has told of one that lists none because it is
/// threaded.
fn procs(hierarchy: &Hierarchy, path: &Text) -> Result<Vec<u8>, Errno> {
    let dir = hierarchy.open(CgroupPath::new(path))?;
    let mut text = Vec::new();
    match dir.read_into(c"cgroup.procs", &mut text, PROCS_LIMIT) {
        Ok(()) | Err(Errno::EOPNOTSUPP) => Ok(text),
        Err(errno) => Err(errno),
    }
}
