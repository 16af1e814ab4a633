//! Reads processes that the caller names by pid.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::look::Look;
use super::wanted::{Unread, Wanted};
use crate::model::{CgroupPath, ProblemCode};
use crate::observation::Process;
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::cgroups::lookup::DELETED;
use crate::observe::cgroups::thread_cgroups::ruled_otherwise;
use crate::observe::cgroups::walk::VisitedCgroup;
use crate::observe::error::ObserveError;
use crate::observe::options::Options;
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::problems::Log;

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
    let wanted = pids.into_iter().map(|pid| Wanted { pid, cgroup: None }).collect();
    let look = Look { options, hierarchy, cgroups: &[], anywhere: false, sieve: None };
    let seen = look.read(wanted, &mut |_, _, _| Vec::new(), log);
    let gone = seen.vanished.iter().filter(|one| !one.read).map(|one| (one.wanted.pid, Unread::Gone));
    let unread = seen.unread.into_iter().map(|(wanted, why)| (wanted.pid, why)).chain(gone);
    let mut errors: Vec<_> = unread.map(|(pid, why)| (pid, error(why, pid, options, hierarchy))).collect();
    let mut processes = Vec::new();
    for process in seen.read {
        match in_a_cgroup(process, hierarchy) {
            Ok(process) => {
                tell_threads(options, hierarchy, &process, log);
                processes.push(process);
            }
            Err((pid, error)) => errors.push((pid, error)),
        }
    }
    if processes.is_empty() && !errors.is_empty() {
        return Err(errors.swap_remove(0).1);
    }
    for (pid, error) in errors {
        let code = if error.is_unread() { ProblemCode::Unreadable } else { ProblemCode::NoProcess };
        log.add(code, format!("process {pid}"), error.to_string(), "");
    }
    Ok(processes)
}

/// Reports a process whose threads may open different devices.
fn tell_threads(options: &Options, hierarchy: &Hierarchy, process: &Process, log: &mut Log) {
    if process.threads.is_none_or(|threads| threads < 2) {
        return;
    }
    let pid = process.pid;
    let same = PinnedProcess::at(&options.proc, pid).and_then(|pinned| Ok((pinned.stat()?, pinned)));
    let why = match same {
        Ok((stat, pinned)) if stat.start_time == process.start_time => {
            ruled_otherwise(pinned.dir(), hierarchy)
        }
        Ok(_) | Err(NotRead::Gone) => None,
        Err(why) => Some(why.to_string()),
    };
    if let Some(why) = why {
        log.add(ProblemCode::ThreadedCgroup, format!("process {pid}"), why, "ask about each cgroup");
    }
}

/// Why a process that exists is not read.
const HIDDEN: &str = "it is there and not to be seen: hidepid, or this is another pid namespace's --proc";

fn error(why: Unread, pid: u32, options: &Options, hierarchy: &Hierarchy) -> ObserveError {
    match why {
        Unread::Hidden => ObserveError::Process { pid, why: HIDDEN.to_owned() },
        Unread::Gone | Unread::Other => ObserveError::NoSuchProcess { pid, proc: options.proc.clone() },
        Unread::Outside(path) => {
            let path = OsStr::from_bytes(path.as_bytes()).into();
            ObserveError::OutsideNamespace { pid, path }
        }
        Unread::LongPath(_) => ObserveError::LongPath { pid },
        Unread::Silent => ObserveError::SilentProcess { pid },
        Unread::NoCgroup => ObserveError::NoCgroup { pid, root: hierarchy.mount.point.clone() },
        Unread::Failed(why) => ObserveError::Process { pid, why },
        Unread::Unsure(doubt) => ObserveError::Process { pid, why: doubt.why },
    }
}

/// A process outlives its cgroup when it is about to end.
fn in_a_cgroup(process: Process, hierarchy: &Hierarchy) -> Result<Process, (u32, ObserveError)> {
    let is_gone = || hierarchy.has(CgroupPath::new(&process.cgroup)) == Ok(false);
    if !(process.cgroup.as_bytes().ends_with(DELETED) && is_gone()) {
        return Ok(process);
    }
    let (pid, path) = (process.pid, OsStr::from_bytes(process.cgroup.as_bytes()).into());
    Err((pid, ObserveError::CgroupRemoved { pid, path }))
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
