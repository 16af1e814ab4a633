//! Finds processes that no cgroup listed, because they were in another one each time when
//! a cgroup was read: a process that moves to and fro would not be seen for long.

use std::collections::HashSet;

use nix::errno::Errno;

use super::refusals;
use super::wanted::Wanted;
use crate::model::ProblemCode;
use crate::observation::Process;
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::clock;
use crate::observe::options::Options;
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::problems::Log;
use crate::observe::procfile::may_be_cut;
use crate::sys::dir::Dir;

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
