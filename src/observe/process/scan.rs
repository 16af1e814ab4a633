//! All processes of the node, looked at just enough to tell which ones matter.

use std::path::Path;

use nix::errno::Errno;

use super::super::log::Log;
use super::super::procfile::parse_stat;
use super::crew::{Care, Crew, Duty};
use super::memory::Memory;
use super::refusals::{Counts, Kind, Refusals};
use super::{STAT_LIMIT, at_exec};
use crate::observation::Environment;
use crate::sys::dir::Dir;

/// A process that may matter: its pid and its start time.
pub(in super::super) type Candidate = (u32, u64);

/// The processes of one user, or of all, whose environment at exec is one that
/// matters. Of other users' processes nothing is read but the owner. What is
/// found may have ended, and its pid be another's, before it is read with
/// [`asked`](super::asked()): compare start times then.
///
/// Environments that may not be read, and those that do not answer, are told in
/// `log`, as counts.
///
/// # Errors
///
/// Those of listing the proc file system.
pub(in super::super) fn scan(
    proc: &Path,
    uid: Option<u32>,
    log: &mut Log,
    matters: impl Fn(&Environment) -> bool + Sync,
) -> Result<Vec<Candidate>, Errno> {
    let root = Dir::open(proc)?;
    let mut pids = Vec::new();
    root.numbers(c".", |_, pid| {
        pids.push((pid, ()));
        true
    })?;
    let mut crew = Crew::new(root, |proc, duty: Duty<'_, (), (Option<u64>, Counts)>| {
        let (refusals, mut buffer) = (Refusals::default(), Vec::new());
        duty.answer(|pid, (), care| {
            let dir = proc.child(pid.to_string().as_str()).ok();
            let dir = dir.filter(|dir| uid.is_none_or(|uid| dir.stat().is_ok_and(|stat| stat.uid == uid)));
            let found = dir.and_then(|dir| matching(&dir, care, &mut buffer, &refusals, &matters));
            (found, refusals.take())
        });
    });
    let refusals = Refusals::default();
    let (mut found, mut answered) = (Vec::new(), 0);
    crew.ask(&pids, log.deadline(), |index, answer| {
        answered += 1;
        match (pids.get(index), answer) {
            (Some((pid, ())), Some((start_time, counts))) => {
                refusals.add(&counts);
                found.extend(start_time.map(|start_time| (*pid, start_time)));
            }
            _ => refusals.count(Kind::Silent),
        }
    });
    if answered < pids.len() {
        log.out_of_time("looking for processes");
    }
    refusals.report(log);
    found.sort_unstable();
    Ok(found)
}

/// The start time of a process whose environment matters.
fn matching(
    dir: &Dir,
    care: Care,
    buffer: &mut Vec<u8>,
    refusals: &Refusals,
    matters: impl Fn(&Environment) -> bool,
) -> Option<u64> {
    if care != Care::Inside {
        refusals.passed_over(care);
        return None;
    }
    // In this order: the area is that of the memory, or it is dead.
    let mut memory = Memory::open(dir);
    dir.read_piece(c"stat", buffer, STAT_LIMIT).ok()?;
    let stat = parse_stat(buffer)?;
    let (start_time, area) = (stat.start_time, stat.environment);
    let environment = at_exec::read(&mut memory, area, buffer, refusals);
    environment.known().is_some_and(matters).then_some(start_time)
}
