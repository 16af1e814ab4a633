//! Reads processes that the caller names by pid.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::collect::read;
use super::wanted::{Unread, Wanted};
use crate::model::ProblemCode;
use crate::observation::Process;
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::cgroups::lookup::DELETED;
use crate::observe::cgroups::thread_cgroups::ruled_otherwise;
use crate::observe::cgroups::walk::VisitedCgroup;
use crate::observe::error::ObserveError;
use crate::observe::options::Options;
use crate::observe::problems::Log;
use crate::observe::procfile::STAT_LIMIT;
use crate::observe::procfile::parse_stat;
use crate::sys::dir::Dir;

/// Reads these processes. Each one that cannot be read is a problem; if none can
/// be read, the first failure is the error.
pub(in crate::observe) fn read_all(
    options: &Options,
    hierarchy: &Hierarchy,
    pids: &[u32],
    log: &mut Log,
) -> Result<Vec<Process>, ObserveError> {
    let mut pids = pids.to_vec();
    let mut done = HashSet::new();
    pids.retain(|pid| done.insert(*pid));
    let wanted: Vec<Wanted<'_>> =
        pids.iter().map(|pid| Wanted { pid: *pid, cgroup: None, anywhere: false }).collect();
    let mut processes = Vec::new();
    let mut errors = Vec::new();
    for (index, found) in read(options, hierarchy, &wanted, log) {
        let pid = wanted.get(index).map_or(0, |wanted| wanted.pid);
        let found = found.map_err(|why| error(why, pid, options, hierarchy));
        match found.and_then(|process| in_a_cgroup(process, hierarchy)) {
            Ok(process) => {
                tell_threads(options, hierarchy, &process, log);
                processes.push(process);
            }
            Err(error) => errors.push((pid, error)),
        }
    }
    if processes.is_empty() && !errors.is_empty() {
        return Err(errors.swap_remove(0).1);
    }
    for (pid, error) in errors {
        log.add(ProblemCode::NoProcess, format!("process {pid}"), error.to_string(), "");
    }
    Ok(processes)
}

/// Reports a process whose threads may open different devices.
fn tell_threads(options: &Options, hierarchy: &Hierarchy, process: &Process, log: &mut Log) {
    if process.threads.is_none_or(|threads| threads < 2) {
        return;
    }
    let (pid, mut text) = (process.pid, Vec::new());
    let Ok(dir) = Dir::open(&options.proc.join(pid.to_string())) else { return };
    let read = dir.read_piece(c"stat", &mut text, STAT_LIMIT);
    let is_same = read.is_ok() && parse_stat(&text).is_some_and(|stat| stat.start_time == process.start_time);
    if let Some(why) = is_same.then(|| ruled_otherwise(&dir, hierarchy)).flatten() {
        log.add(ProblemCode::ThreadedCgroup, format!("process {pid}"), why, "a question about each cgroup");
    }
}

/// Reads these processes wherever their cgroups are. Processes that ended are left
/// out; those that live and cannot be read are problems.
pub(in crate::observe) fn read_anywhere(
    options: &Options,
    hierarchy: &Hierarchy,
    pids: &[u32],
    log: &mut Log,
) -> Vec<Process> {
    let wanted: Vec<Wanted<'_>> =
        pids.iter().map(|pid| Wanted { pid: *pid, cgroup: None, anywhere: true }).collect();
    let mut processes = Vec::new();
    for (index, found) in read(options, hierarchy, &wanted, log) {
        let pid = wanted.get(index).map_or(0, |wanted| wanted.pid);
        match found {
            Ok(process) => processes.push(process),
            Err(_) if started(options, pid).is_none() => {}
            Err(_) => {
                let why = "it names the job, and its cgroup cannot be told";
                log.add(ProblemCode::Unreadable, format!("process {pid}"), why, "a look at the process");
            }
        }
    }
    processes
}

/// Keeps the processes that the walk saw in their cgroups, and those that still
/// live.
pub(in crate::observe) fn keep_present(
    options: &Options,
    mut processes: Vec<Process>,
    seen: &[VisitedCgroup],
) -> Vec<Process> {
    let paths: HashSet<&[u8]> = seen.iter().map(|seen| seen.cgroup.path.as_bytes()).collect();
    processes.retain(|process| {
        let is_seen = paths.contains(process.cgroup.as_bytes());
        is_seen || started(options, process.pid) == Some(process.start_time)
    });
    processes
}

/// When a process started, if it is there and not about to end.
fn started(options: &Options, pid: u32) -> Option<u64> {
    let mut text = Vec::new();
    let dir = Dir::open(&options.proc.join(pid.to_string())).ok()?;
    dir.read_into(c"stat", &mut text, STAT_LIMIT).ok()?;
    parse_stat(&text).filter(|stat| !stat.is_ending()).map(|stat| stat.start_time)
}

fn error(why: Unread, pid: u32, options: &Options, hierarchy: &Hierarchy) -> ObserveError {
    match why {
        Unread::Gone | Unread::Hidden => ObserveError::NoSuchProcess { pid, proc: options.proc.clone() },
        Unread::Outside(path) => {
            let path = OsStr::from_bytes(path.as_bytes()).into();
            ObserveError::OutsideNamespace { pid, path }
        }
        Unread::LongPath => ObserveError::LongPath { pid },
        Unread::Silent => ObserveError::SilentProcess { pid },
        Unread::NoCgroup => ObserveError::NoCgroup { pid, root: hierarchy.mount.point.clone() },
    }
}

/// A process outlives its cgroup when it is about to end.
fn in_a_cgroup(process: Process, hierarchy: &Hierarchy) -> Result<Process, ObserveError> {
    let path = PathBuf::from(OsStr::from_bytes(process.cgroup.as_bytes()));
    let removed = process.cgroup.as_bytes().ends_with(DELETED) && hierarchy.resolve(&path).is_err();
    if removed { Err(ObserveError::CgroupRemoved { pid: process.pid, path }) } else { Ok(process) }
}

/// Leaves out processes whose cgroup was removed before it could be read.
pub(in crate::observe) fn keep_in_cgroups(
    mut processes: Vec<Process>,
    seen: &[VisitedCgroup],
    log: &mut Log,
) -> Vec<Process> {
    let paths: HashSet<&[u8]> = seen.iter().map(|seen| seen.cgroup.path.as_bytes()).collect();
    processes.retain(|process| {
        let there = paths.contains(process.cgroup.as_bytes());
        if !there {
            let why = "its cgroup was removed while it was read";
            log.add(ProblemCode::NoProcess, format!("process {}", process.pid), why, "");
        }
        there
    });
    processes
}
