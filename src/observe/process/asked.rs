//! Processes that are asked for by number.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::super::hierarchy::Hierarchy;
use super::super::log::Log;
use super::super::pid::DELETED;
use super::super::walk::Seen;
use super::super::{ObserveError, Options};
use super::{Unread, Wanted, read};
use crate::observation::Process;

/// Reads these processes. Those that cannot be had are problems; if none can,
/// the first is an error.
pub(in super::super) fn asked(
    options: &Options,
    hierarchy: &Hierarchy,
    pids: &[u32],
    log: &mut Log,
) -> Result<Vec<Process>, ObserveError> {
    let mut pids = pids.to_vec();
    let mut done = HashSet::new();
    pids.retain(|pid| done.insert(*pid));
    let wanted: Vec<Wanted<'_>> = pids.iter().map(|pid| Wanted { pid: *pid, cgroup: None }).collect();
    let mut processes = Vec::new();
    let mut errors = Vec::new();
    for (index, found) in read(options, hierarchy, &wanted, log) {
        let pid = wanted.get(index).map_or(0, |wanted| wanted.pid);
        let found = found.map_err(|why| error(why, pid, options, hierarchy));
        match found.and_then(|process| in_a_cgroup(process, hierarchy)) {
            Ok(process) => processes.push(process),
            Err(error) => errors.push((pid, error)),
        }
    }
    if processes.is_empty() && !errors.is_empty() {
        return Err(errors.swap_remove(0).1);
    }
    for (pid, error) in errors {
        log.add("no-process", format!("process {pid}"), error.to_string(), "");
    }
    Ok(processes)
}

fn error(why: Unread, pid: u32, options: &Options, hierarchy: &Hierarchy) -> ObserveError {
    match why {
        Unread::Gone | Unread::Hidden => ObserveError::NoSuchProcess { pid, proc: options.proc.clone() },
        Unread::Outside(path) => ObserveError::OutsideNamespace { pid, path },
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
pub(in super::super) fn still(mut processes: Vec<Process>, seen: &[Seen], log: &mut Log) -> Vec<Process> {
    let paths: HashSet<&[u8]> = seen.iter().map(|seen| seen.cgroup.path.as_bytes()).collect();
    processes.retain(|process| {
        let there = paths.contains(process.cgroup.as_bytes());
        if !there {
            let why = "its cgroup was removed while it was read";
            log.add("no-process", format!("process {}", process.pid), why, "");
        }
        there
    });
    processes
}
