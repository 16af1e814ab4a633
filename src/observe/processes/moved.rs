//! Finds processes that no cgroup listed, because they were in another one each time when
//! a cgroup was read: a process that moves to and fro would not be seen for long.

use std::collections::HashSet;

use super::refusals;
use crate::model::ProblemCode;
use crate::observation::Process;
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::clock;
use crate::observe::options::Options;
use crate::observe::problems::Log;
use crate::observe::procfile::{cgroup_line, may_be_cut};
use crate::sys::dir::Dir;

/// Bytes of `cgroup`, some fifteen lines.
const LIMIT: usize = 256 << 10;
/// Ticks (10 ms) that a process may be old to be moved into a new cgroup as part of its
/// start, as daemons do with jobs and containers.
const YOUNG: u64 = 500;

/// The processes below the cgroup root that are not among these: they moved meanwhile,
/// or have just begun.
pub(super) fn unlisted(options: &Options, hierarchy: &Hierarchy, listed: &HashSet<u32>) -> Vec<u32> {
    let (mut unlisted, mut text) = (Vec::new(), Vec::new());
    let Ok(proc) = Dir::open(&options.proc) else { return unlisted };
    let controller = if hierarchy.is_legacy() { Some(b"devices".as_slice()) } else { None };
    let mut is_inside = |pid: u32| {
        let process = proc.child(pid.to_string().as_str());
        let read = process.and_then(|process| process.read_piece(c"cgroup", &mut text, LIMIT));
        let line = cgroup_line(&text, controller);
        read.is_ok() && line.is_some_and(|line| may_be_cut(line) || hierarchy.mount.inside(line).is_some())
    };
    let _gone = proc.numbers(c".", |_, pid| {
        if !listed.contains(&pid) && is_inside(pid) {
            unlisted.push(pid);
        }
        true
    });
    unlisted
}

/// Reports processes that are in none of the cgroups that were walked, although all were to
/// be. That is usual for those that have just begun.
pub(super) fn tell(options: &Options, elsewhere: &[Process], log: &mut Log) {
    let now = clock::ticks_since_boot();
    let is_old = |process: &&Process| process.start_time.saturating_add(YOUNG) < now;
    let old: Vec<u32> = elsewhere.iter().filter(is_old).map(|process| process.pid).collect();
    if old.is_empty() {
        return;
    }
    let count = u32::try_from(old.len()).unwrap_or(u32::MAX);
    let who = refusals::who(&options.proc, old.get(..3).unwrap_or(&old), count);
    let why = format!("left out: in a cgroup that was not read, or was made while the others were{who}");
    log.add(ProblemCode::Unreadable, refusals::counted(&old), why, "another try");
}
