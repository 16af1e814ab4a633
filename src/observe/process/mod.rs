//! The processes of the requested cgroups, or some that are asked for one by
//! one: who they are, and with [`Options::detail`] what they ask for and hold.

mod asked;
pub(super) mod at_exec;
mod detail;
pub(super) mod devices;
pub(super) mod elf;
mod files;
mod live;
pub(crate) mod maps;
mod memory;
pub(crate) mod peek;
pub(crate) mod places;
mod reader;
pub(super) mod refusals;
mod scan;
mod sieve;
mod window;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use super::Options;
use super::hierarchy::Hierarchy;
use super::log::Log;
use super::walk::Seen;
use crate::observation::{Process, Text};
use reader::Reader;
use refusals::Refusals;

pub(super) use asked::{anywhere, asked, present, still};
pub(super) use scan::scan;

/// Bytes read of `stat`: one line.
pub(super) const STAT_LIMIT: usize = 8 << 10;
/// Threads that read details at most, and processes that one takes at a time.
/// All is system calls that hold no common lock, and two take half the time.
const WORKERS: usize = 4;
const BATCH: usize = 32;

/// A process to read.
#[derive(Clone, Copy, Debug)]
struct Wanted<'a> {
    pid: u32,
    /// Where the walk found it; `None` if it was asked for by its number.
    cgroup: Option<&'a Text>,
    /// Whether it is wanted wherever it is, outside of the root too.
    anywhere: bool,
}

/// Why a process was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Unread {
    Gone,
    /// It exists, but this `/proc` does not show it.
    Hidden,
    /// Its cgroup lies outside the namespace or mount.
    Outside(PathBuf),
    NoCgroup,
}

/// What all workers share.
#[derive(Debug)]
struct Context<'a> {
    proc: &'a Path,
    hierarchy: &'a Hierarchy,
    detail: bool,
    deadline: Option<Instant>,
    refusals: Refusals,
    next: AtomicUsize,
}

/// Reads the processes that the walk listed and that still are where they
/// were; those that ended meanwhile are left out.
pub(super) fn collect(
    options: &Options,
    hierarchy: &Hierarchy,
    seen: &[Seen],
    log: &mut Log,
) -> Vec<Process> {
    let requested = seen.iter().filter(|seen| seen.requested);
    let listed = requested.flat_map(|Seen { cgroup, .. }| cgroup.pids.iter().map(|pid| (*pid, &cgroup.path)));
    let mut done = HashSet::new();
    let wanted: Vec<Wanted<'_>> = listed
        .filter(|(pid, _)| done.insert(*pid))
        .map(|(pid, path)| Wanted { pid, cgroup: Some(path), anywhere: false })
        .collect();
    let found = read(options, hierarchy, &wanted, log);
    let mut processes: Vec<Process> = found.into_iter().filter_map(|(_, found)| found.ok()).collect();
    drop_moved(&mut processes, seen);
    processes
}

/// A process that moved to a cgroup nobody asked about is no longer of
/// interest.
fn drop_moved(processes: &mut Vec<Process>, seen: &[Seen]) {
    let requested = seen.iter().filter(|seen| seen.requested);
    let requested: HashSet<&[u8]> = requested.map(|seen| seen.cgroup.path.as_bytes()).collect();
    processes.retain(|process| requested.contains(process.cgroup.as_bytes()));
}

/// Reads what is wanted, in this order; less if the time is up.
fn read(
    options: &Options,
    hierarchy: &Hierarchy,
    wanted: &[Wanted<'_>],
    log: &mut Log,
) -> Vec<(usize, Result<Process, Unread>)> {
    let (detail, deadline) = (options.detail, log.deadline());
    let (refusals, next) = (Refusals::default(), AtomicUsize::new(0));
    let context = Context { proc: &options.proc, hierarchy, detail, deadline, refusals, next };
    let mut found = context.share(wanted);
    found.sort_unstable_by_key(|(index, _)| *index);
    if found.len() < wanted.len() {
        log.out_of_time("reading processes");
    }
    context.refusals.report(log);
    if found.iter().any(|(_, found)| *found == Err(Unread::Hidden)) {
        let why = "processes that exist are not visible (hidepid, or another pid namespace's --proc)";
        let needs = "CAP_SYS_PTRACE, or the group of the hidepid mount option";
        log.add("no-right", options.proc.to_string_lossy(), why, needs);
    }
    found
}

impl Context<'_> {
    /// Works with several threads where that pays.
    fn share(&self, wanted: &[Wanted<'_>]) -> Vec<(usize, Result<Process, Unread>)> {
        let most = thread::available_parallelism().map_or(1, usize::from).min(WORKERS);
        let workers = if self.detail { most.min(wanted.len() / BATCH) } else { 1 };
        thread::scope(|scope| {
            // A thread that cannot be had is not needed.
            let spawn = || thread::Builder::new().spawn_scoped(scope, || self.work(wanted)).ok();
            let others: Vec<_> = (1..workers).filter_map(|_| spawn()).collect();
            let mut found = self.work(wanted);
            for other in others {
                found.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            found
        })
    }

    fn work(&self, wanted: &[Wanted<'_>]) -> Vec<(usize, Result<Process, Unread>)> {
        let mut reader = Reader::new(self);
        let mut found = Vec::new();
        loop {
            let start = self.next.fetch_add(BATCH, Ordering::Relaxed);
            let batch = wanted.iter().enumerate().skip(start).take(BATCH);
            if start >= wanted.len() {
                return found;
            }
            for (index, wanted) in batch {
                if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return found;
                }
                found.push((index, reader.read(wanted)));
            }
        }
    }
}

/// An environment as a process has it, for the fuzz targets.
#[cfg(fuzzing)]
pub(super) fn fuzzing(bytes: &[u8]) -> crate::observation::Environment {
    let mut environment = crate::observation::Environment::default();
    bytes.split(|byte| *byte == 0).for_each(|entry| sieve::add(&mut environment, entry));
    environment
}
