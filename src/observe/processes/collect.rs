//! Reads the processes of the requested cgroups: who they are and, with
//! [`Options::detail`], what they ask for and hold.
//! A survey looks through all processes of the node for those whose environment matters.

use std::collections::{BTreeSet, HashSet};

use nix::errno::Errno;

use super::by_threads;
use super::look::{Look, Vanished};
use super::refusals;
use super::wanted::{Sieve, Unread, Wanted};
use crate::model::{CgroupPath, ProblemCode};
use crate::observation::{Problem, Process, Text};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::cgroups::walk::{PROCS_LIMIT, VisitedCgroup, parse_pids};
use crate::observe::clock;
use crate::observe::options::Options;
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::problems::Log;
use crate::observe::procfile::{is_own, may_be_cut};
use crate::sys::absence::OrAbsent as _;
use crate::sys::dir::Dir;
use crate::sys::helper;

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
        unlisted(options, hierarchy, listed).unwrap_or_else(|errno| {
            log.failed(options.proc.to_string_lossy(), errno);
            Vec::new()
        })
    };
    if whole {
        wanted.extend(unlisted(&mut listed, log));
    } else {
        let places = requested().enumerate();
        wanted.extend(by_threads::find(options, hierarchy, places, &mut listed, log));
    }
    let look = Look { options, hierarchy, cgroups: &cgroups, anywhere: false, sieve: None };
    let mut list = |done: &mut HashSet<u32>, vanished: &[Vanished], log: &mut Log| {
        let mut wanted = again(hierarchy, &cgroups, done, vanished, log);
        if whole {
            let listed: HashSet<u32> = wanted.iter().map(|one| one.pid).collect();
            let others = unlisted(done, log).into_iter();
            wanted.extend(others.filter(|one| !listed.contains(&one.pid)));
        }
        let helpers = own_helpers(options);
        wanted.retain(|one| !helpers.contains(&one.pid));
        wanted
    };
    let found = look.read(wanted, &mut list, log);
    look.tell(&found, log, &mut Vec::new());
    let requested: HashSet<&[u8]> = cgroups.iter().map(|path| path.as_bytes()).collect();
    let (processes, elsewhere): (Vec<_>, Vec<_>) =
        found.read.into_iter().partition(|process| requested.contains(process.cgroup.as_bytes()));
    if whole {
        tell(options, &elsewhere, log);
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
        let text = log.found(path.lossy(), procs(hierarchy, path).or_removed());
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

/// Ticks (10 ms) that a process may be old to be moved into a new cgroup as part of its
/// start, as daemons do with jobs and containers.
const YOUNG: u64 = 500;

/// The processes below the cgroup root that are not among these: they moved meanwhile,
/// or have just begun. Those that are elsewhere are added to these, and those that have ended
/// leave them, since their pids may be used again; those of which it is not known where they
/// are, are taken to be below it.
pub(super) fn unlisted(
    options: &Options,
    hierarchy: &Hierarchy,
    listed: &mut HashSet<u32>,
) -> Result<Vec<Wanted>, Errno> {
    let mut unlisted = Vec::new();
    let proc = Dir::open(&options.proc)?;
    let is_elsewhere = |pid: u32| -> Result<bool, NotRead> {
        let lines = PinnedProcess::open(&proc, pid)?.cgroups()?;
        let line = hierarchy.line(&lines);
        Ok(line.is_none_or(|line| !may_be_cut(line) && hierarchy.mount.inside(line).is_none()))
    };
    let mut there = HashSet::new();
    proc.numbers(c".", |_, pid| {
        there.insert(pid);
        if !listed.contains(&pid) {
            match is_elsewhere(pid) {
                Ok(true) => _ = listed.insert(pid),
                // Below a part of the hierarchy nothing is known of those that have ended.
                Err(NotRead::Gone) if hierarchy.mount.root != b"/" => {}
                // One that cannot be asked is read like the others, which tells why it cannot be.
                Ok(false) | Err(_) => unlisted.push(Wanted { pid, cgroup: None }),
            }
        }
        true
    })?;
    listed.retain(|pid| there.contains(pid));
    Ok(unlisted)
}

/// Reports processes that are in none of the cgroups that were walked, although all were to
/// be. That is usual for those that have just begun.
pub(super) fn tell(options: &Options, elsewhere: &[Process], log: &mut Log) {
    let now = clock::ticks_since_boot();
    let is_old = |process: &&Process| process.start_time.saturating_add(YOUNG) < now && !is_dead(process);
    let old: Vec<u32> = elsewhere.iter().filter(is_old).map(|process| process.pid).collect();
    if old.is_empty() {
        return;
    }
    let count = u32::try_from(old.len()).unwrap_or(u32::MAX);
    let who = refusals::who(&options.proc, old.get(..3).unwrap_or(&old), count);
    let why = format!("left out: in a cgroup that was not read, or was made while the others were{who}");
    log.add(ProblemCode::Unreadable, refusals::counted(&old), why, "another try");
}

/// Whether no thread of it runs any more: its parent has not asked how it ended, and its cgroup
/// may be gone. It has nothing open.
fn is_dead(process: &Process) -> bool {
    matches!(process.state, Some('Z' | 'X')) && process.threads.is_some_and(|threads| threads <= 1)
}

/// The processes that were found.
#[derive(Debug, Default)]
pub(in crate::observe) struct Surveyed {
    /// Those whose environment matters, and those of which that is not known and which have
    /// devices open.
    pub(in crate::observe) processes: Vec<Process>,
    /// What is shown of the cgroups of others, whose path is too long to be shown.
    pub(in crate::observe) long_paths: Vec<Option<Text>>,
}

/// The processes that go through a sieve, wherever their cgroups are. Of other users'
/// processes only the owner is read.
///
/// Processes that may be among them and whose environment may not be read, or that
/// do not answer, are reported in `log`, each with its name; those that certainly
/// are not are reported in `remarks`. Those with a long path are not reported.
pub(in crate::observe) fn survey(
    options: &Options,
    hierarchy: &Hierarchy,
    sieve: &Sieve<'_>,
    log: &mut Log,
    remarks: &mut Vec<Problem>,
) -> Surveyed {
    let look = Look { options, hierarchy, cgroups: &[], anywhere: true, sieve: Some(sieve) };
    let mut list = |done: &mut HashSet<u32>, _: &[_], log: &mut Log| {
        let own = if sieve.itself { Vec::new() } else { own_processes(options) };
        unread(options, done, &own).unwrap_or_else(|errno| {
            log.failed(options.proc.to_string_lossy(), errno);
            Vec::new()
        })
    };
    let first = list(&mut HashSet::new(), &[], log);
    let mut seen = look.read(first, &mut list, log);
    let mut long_paths = Vec::new();
    seen.unread.retain(|(_, why)| match why {
        Unread::LongPath(shown) => {
            long_paths.push(shown.clone());
            false
        }
        _ => true,
    });
    look.tell(&seen, log, remarks);
    Surveyed { processes: seen.read, long_paths }
}

/// The processes that are among neither of these; pids of those that have ended
/// leave the first, since they may be used again.
fn unread(options: &Options, done: &mut HashSet<u32>, own: &[u32]) -> Result<Vec<Wanted>, Errno> {
    let mut listed = BTreeSet::new();
    Dir::open(&options.proc)?.numbers(c".", |_, pid| {
        listed.insert(pid);
        true
    })?;
    done.retain(|pid| listed.contains(pid));
    let new = listed.into_iter().filter(|pid| !done.contains(pid) && !own.contains(pid));
    Ok(new.map(|pid| Wanted { pid, cgroup: None }).collect())
}

/// gpumap itself and its helpers. A hook gives them the environment of its job, and they end
/// with the answer.
fn own_processes(options: &Options) -> Vec<u32> {
    let itself = is_own(&options.proc).then(std::process::id);
    own_helpers(options).into_iter().chain(itself).collect()
}

/// The processes that gpumap starts to read others, which end with the answer.
fn own_helpers(options: &Options) -> Vec<u32> {
    if is_own(&options.proc) { helper::own() } else { Vec::new() }
}
