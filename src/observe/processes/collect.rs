//! Reads the processes of the requested cgroups: who they are and, with
//! [`Options::detail`], what they ask for and hold.

use std::collections::HashSet;
use std::time::Instant;

use super::helpers::depth::Depth;
use super::helpers::{HelperPool, Requests};
use super::kept::Kept;
use super::moved;
use super::reader::Reader;
use super::refusals::{self, Counts, Refusals};
use super::wanted::{ReadContext, Unread, Wanted};
use crate::model::ProblemCode;
use crate::observation::Process;
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::cgroups::walk::VisitedCgroup;
use crate::observe::options::Options;
use crate::observe::problems::Log;
use crate::observe::procfile::is_own;
use crate::observe::rights::unless_held;
use crate::sys::caps::Capability;
use crate::sys::dir::Dir;

/// Reads the processes that the walk listed and that are still in one of these cgroups;
/// those that ended since are left out. `whole`: the walk was about all cgroups, so that
/// nobody leaves its scope by moving while it goes on.
pub(in crate::observe) fn collect(
    options: &Options,
    hierarchy: &Hierarchy,
    seen: &[VisitedCgroup],
    whole: bool,
    log: &mut Log,
) -> Vec<Process> {
    let requested = seen.iter().filter(|seen| seen.requested);
    let listed =
        requested.flat_map(|VisitedCgroup { cgroup, .. }| cgroup.pids.iter().map(|pid| (*pid, &cgroup.path)));
    let mut done = HashSet::new();
    let mut wanted: Vec<Wanted<'_>> = listed
        .filter(|(pid, _)| done.insert(*pid))
        .map(|(pid, path)| Wanted { pid, cgroup: Some(path), anywhere: false })
        .collect();
    if whole {
        let unlisted = moved::unlisted(options, hierarchy, &done).into_iter();
        wanted.extend(unlisted.map(|pid| Wanted { pid, cgroup: None, anywhere: false }));
    }
    let found = read(options, hierarchy, &wanted, log);
    tell_long_paths(options, &wanted, &found, log);
    let processes = found.into_iter().filter_map(|(_, found)| found.ok());
    let requested = seen.iter().filter(|seen| seen.requested);
    let requested: HashSet<&[u8]> = requested.map(|seen| seen.cgroup.path.as_bytes()).collect();
    let (processes, elsewhere): (Vec<_>, Vec<_>) =
        processes.partition(|process: &Process| requested.contains(process.cgroup.as_bytes()));
    if whole {
        moved::tell(options, &elsewhere, log);
    }
    processes
}

/// Reports processes of which nobody says where they are: since the walk saw them they
/// moved to a cgroup whose path is too long.
fn tell_long_paths(options: &Options, wanted: &[Wanted<'_>], found: &[Found], log: &mut Log) {
    let nameless = found.iter().filter(|(_, found)| matches!(found, Err(Unread::LongPath)));
    let nameless: Vec<u32> = nameless.filter_map(|(index, _)| Some(wanted.get(*index)?.pid)).collect();
    if !nameless.is_empty() {
        let count = u32::try_from(nameless.len()).unwrap_or(u32::MAX);
        let who = refusals::who(&options.proc, nameless.get(..3).unwrap_or(&nameless), count);
        let why = format!("left out: the path of the cgroup is longer than the kernel shows{who}");
        log.add(ProblemCode::Unreadable, refusals::counted(&nameless), why, "another try");
    }
}

/// The index of a process in the list, and the process or why it was not read.
type Found = (usize, Result<Process, Unread>);

/// Reads these processes, in this order; fewer if the time is up.
pub(super) fn read(
    options: &Options,
    hierarchy: &Hierarchy,
    wanted: &[Wanted<'_>],
    log: &mut Log,
) -> Vec<Found> {
    let refusals = Refusals::default();
    let mut found = match (Dir::open(&options.proc), options.detail) {
        (Err(_), _) => Vec::new(),
        (Ok(proc), true) => by_helpers(options, hierarchy, wanted, proc, &refusals, log),
        (Ok(proc), false) => by_itself(hierarchy, wanted, &proc, log.deadline()),
    };
    found.sort_unstable_by_key(|(index, _)| *index);
    if found.len() < wanted.len() {
        log.out_of_time("reading processes");
    }
    refusals.report(&options.proc, log);
    let unread = |why: &Unread| -> Vec<u32> {
        let found = found.iter().filter(|(_, found)| found.as_ref().err() == Some(why));
        found.filter_map(|(index, _)| Some(wanted.get(*index)?.pid)).collect()
    };
    tell(options, log, &unread(&Unread::Hidden), &unread(&Unread::Silent));
    found
}

/// Reports processes that exist and cannot be seen, and those that do not answer.
fn tell(options: &Options, log: &mut Log, hidden: &[u32], silent: &[u32]) {
    if !hidden.is_empty() {
        let needs = "CAP_SYS_PTRACE, or the group of the hidepid mount option";
        let needs = unless_held(&[Capability::SysPtrace], needs);
        let why = match needs.is_empty() {
            false => "hidepid, or this is another pid namespace's --proc",
            true => "this is another pid namespace's --proc, or a security module and hidepid hide it",
        };
        // Their names are hidden with them.
        let first: Vec<String> = hidden.iter().take(3).map(u32::to_string).collect();
        let more = if hidden.len() > first.len() { ", …" } else { "" };
        let why = format!("there, and not to be seen (pid {}{more}): {why}", first.join(", "));
        log.add(
            ProblemCode::NoRight,
            format!("{} in {}", refusals::counted(hidden), options.proc.to_string_lossy()),
            why,
            needs,
        );
    }
    if !silent.is_empty() {
        let count = u32::try_from(silent.len()).unwrap_or(u32::MAX);
        let who = refusals::who(&options.proc, silent.get(..3).unwrap_or(silent), count);
        log.add(ProblemCode::Unreadable, refusals::counted(silent), format!("left out: no answer{who}"), "");
    }
}

/// Reads without helpers everything that is not in the memory of processes, because
/// none of it can block on a process.
fn by_itself(
    hierarchy: &Hierarchy,
    wanted: &[Wanted<'_>],
    proc: &Dir,
    deadline: Option<Instant>,
) -> Vec<Found> {
    let refusals = Refusals::default();
    let context = ReadContext { proc, hierarchy, detail: false, is_own: false, refusals };
    let mut reader = Reader::new(&context);
    let in_time = |_: &(usize, &Wanted<'_>)| deadline.is_none_or(|deadline| Instant::now() < deadline);
    let wanted = wanted.iter().enumerate().take_while(in_time);
    wanted.map(|(index, wanted)| (index, reader.read(wanted, Depth::WithoutMemory))).collect()
}

/// Reads details too, by helpers.
fn by_helpers(
    options: &Options,
    hierarchy: &Hierarchy,
    wanted: &[Wanted<'_>],
    proc: Dir,
    refusals: &Refusals,
    log: &Log,
) -> Vec<Found> {
    let is_own = is_own(&options.proc);
    let mut kept = Kept::new(&options.proc);
    let mut pool =
        HelperPool::new(proc, |proc, requests: Requests<'_, usize, (Result<Process, Unread>, Counts)>| {
            let refusals = Refusals::default();
            let context = ReadContext { proc, hierarchy, detail: true, is_own, refusals };
            let mut reader = Reader::new(&context);
            requests.answer(|_, index, depth| {
                let process = wanted.get(index).ok_or(Unread::Gone);
                (process.and_then(|wanted| reader.read(wanted, depth)), context.refusals.take())
            });
        });
    let questions: Vec<(u32, usize)> = wanted.iter().map(|one| one.pid).zip(0..).collect();
    let mut found = Vec::new();
    pool.ask(&questions, log.deadline(), |index, answer| {
        let (mut process, counts) = answer.unwrap_or((Err(Unread::Silent), Counts::new()));
        refusals.add(wanted.get(index).map_or(0, |wanted| wanted.pid), &counts);
        if let Ok(Process { pid, detail: Some(detail), .. }) = &mut process {
            kept.limit(*pid, detail);
        }
        found.push((index, process));
    });
    found
}
