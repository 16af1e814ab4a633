//! Reads processes, and lists again what a listing could not finish.
//!
//! Processes come and go while they are read. One that ended before it was read tells
//! nothing, and what it held its children may hold, which no listing has shown yet. So
//! whatever listed it lists again, and what is new is read, until nothing ends unread, or
//! until a later listing has nothing new. Whoever lets processes begin and end faster than
//! that is reported: nobody can say what they hold.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Instant;

use super::helpers::{Depth, HelperPool, Requests};
use super::kept::Kept;
use super::reader::{ReadContext, Reader};
use super::refusals::{self, Refusals};
use super::users::user_names;
use super::wanted::{Outcome, Sieve, Unread, Wanted};
use crate::model::ProblemCode;
use crate::observation::{Problem, Process, Text};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::options::Options;
use crate::observe::problems::Log;
use crate::observe::procfile::is_own;
use crate::observe::rights::unless_held;
use crate::sys::caps::Capability;
use crate::sys::dir::Dir;

/// How often processes are listed. Where processes of a build come and go, the second or
/// third listing has nothing that ends unread.
const ROUNDS: usize = 24;

/// A look at processes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'a> {
    pub(super) options: &'a Options,
    pub(super) hierarchy: &'a Hierarchy,
    /// The cgroups that were walked, for [`Wanted::cgroup`].
    pub(super) cgroups: &'a [&'a Text],
    /// Whether a process is also read if its cgroup is outside of the root.
    pub(super) anywhere: bool,
    /// What is looked for; `None` if all are.
    pub(super) sieve: Option<&'a Sieve<'a>>,
}

/// What a look saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) read: Vec<Process>,
    pub(super) unread: Vec<(Wanted, Unread)>,
    /// Processes of the last listing that had ended when they were to be read.
    pub(super) vanished: Vec<Vanished>,
    /// Whether no process was left that could have been read.
    pub(super) settled: bool,
}

/// A process that had ended, or was ending, when it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vanished {
    pub(super) wanted: Wanted,
    /// Whether it was read all the same.
    pub(super) read: bool,
    uid: Option<u32>,
}

/// Lists processes that are not among the first, which were read; the second are those that
/// vanished.
type List<'l> = dyn FnMut(&mut HashSet<u32>, &[Vanished], &mut Log) -> Vec<Wanted> + 'l;

/// Reads processes; calls the second with the place of each and what reading gave.
type Read<'r> = dyn FnMut(&[Wanted], &mut dyn FnMut(usize, Outcome)) + 'r;

impl Look<'_> {
    /// Reads these processes in this order, and then those that `list` finds; fewer if the
    /// time is up.
    pub(super) fn read(self, first: Vec<Wanted>, list: &mut List<'_>, log: &mut Log) -> Seen {
        let place = &self.options.proc;
        match Dir::open(place) {
            Err(errno) => {
                log.failed(place.to_string_lossy(), errno);
                Seen::default()
            }
            Ok(proc) if self.options.detail => self.by_helpers(proc, first, list, log),
            Ok(proc) => self.by_itself(&proc, first, list, log),
        }
    }

    fn context<'c>(&'c self, proc: &'c Dir) -> ReadContext<'c> {
        let (detail, is_own) = (self.options.detail, is_own(&self.options.proc));
        let Self { hierarchy, cgroups, anywhere, sieve, .. } = *self;
        let refusals = Refusals::default();
        ReadContext { proc, hierarchy, cgroups, detail, anywhere, sieve, is_own, refusals }
    }

    /// Reads without helpers everything that is not in the memory of processes, because
    /// none of it can block on a process.
    fn by_itself(&self, proc: &Dir, first: Vec<Wanted>, list: &mut List<'_>, log: &mut Log) -> Seen {
        let context = self.context(proc);
        let (mut reader, deadline) = (Reader::new(&context), log.deadline());
        let mut read = |wanted: &[Wanted], each: &mut dyn FnMut(usize, Outcome)| {
            let in_time = |_: &(usize, &Wanted)| deadline.is_none_or(|end| Instant::now() < end);
            let wanted = wanted.iter().enumerate().take_while(in_time);
            wanted.for_each(|(index, wanted)| {
                each(index, reader.read(*wanted, Depth::WithoutMemory));
            });
        };
        rounds(&mut read, first, list, log)
    }

    /// Reads details too, by helpers.
    fn by_helpers(&self, proc: Dir, first: Vec<Wanted>, list: &mut List<'_>, log: &mut Log) -> Seen {
        let (refusals, mut kept) = (Refusals::default(), Kept::new(&self.options.proc));
        let mut pool = HelperPool::new(proc, |proc, requests: Requests<'_, Option<usize>, Outcome>| {
            let context = self.context(proc);
            let mut reader = Reader::new(&context);
            requests.answer(|pid, cgroup, depth| reader.read(Wanted { pid, cgroup }, depth));
        });
        let deadline = log.deadline();
        let mut read = |wanted: &[Wanted], each: &mut dyn FnMut(usize, Outcome)| {
            let questions: Vec<_> = wanted.iter().map(|one| (one.pid, one.cgroup)).collect();
            pool.ask(&questions, deadline, |index, answer| {
                let mut outcome = answer.unwrap_or_else(Outcome::silent);
                // What is doubtful is reported by name.
                if !matches!(outcome.found, Err(Unread::Unsure(_) | Unread::Other)) {
                    refusals.add(wanted.get(index).map_or(0, |wanted| wanted.pid), &outcome.refusals);
                }
                // Only a process that was read has something to keep; `each` takes the failure.
                if let Ok(Process { pid, detail: Some(detail), .. }) = &mut outcome.found {
                    kept.limit(*pid, detail);
                }
                each(index, outcome);
            });
        };
        let seen = rounds(&mut read, first, list, log);
        refusals.report(&self.options.proc, log);
        seen
    }

    /// Reports what could not be read, whatever was asked: processes that cannot be seen,
    /// that do not answer, of which a file cannot be read, and those that came and went.
    /// The problems of processes that are certainly not looked for go to `remarks`.
    pub(super) fn tell(&self, seen: &Seen, log: &mut Log, remarks: &mut Vec<Problem>) {
        let mut failed: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        let mut hidden = Vec::new();
        for (Wanted { pid, .. }, why) in &seen.unread {
            let mut failed = |why: &str| failed.entry(format!("left out: {why}")).or_default().push(*pid);
            match why {
                Unread::Hidden => hidden.push(*pid),
                Unread::Silent => failed("no answer"),
                Unread::Failed(why) => failed(why),
                Unread::NoCgroup => failed("/proc/PID/cgroup names no cgroup of this hierarchy"),
                Unread::LongPath(_) => failed("the path of the cgroup is longer than the kernel shows"),
                Unread::Unsure(doubt) => {
                    let code = if doubt.refused { ProblemCode::NoRight } else { ProblemCode::Unreadable };
                    let what = format!("process {pid} ({})", doubt.comm.lossy());
                    let older = if doubt.older { "; it cannot be the job's, for it is older" } else { "" };
                    let (why, needs) = (format!("{}{older}", doubt.why), String::new());
                    let problems = if doubt.older { &mut *remarks } else { &mut log.problems };
                    problems.push(Problem { code, what, why, needs });
                }
                // Not what was asked for.
                Unread::Outside(_) | Unread::Gone | Unread::Other => {}
            }
        }
        for (why, pids) in failed {
            let count = u32::try_from(pids.len()).unwrap_or(u32::MAX);
            let who = refusals::who(&self.options.proc, pids.get(..3).unwrap_or(&pids), count);
            log.add(ProblemCode::Unreadable, refusals::counted(&pids), format!("{why}{who}"), "");
        }
        self.tell_hidden(&hidden, log);
        if !seen.settled {
            self.tell_vanished(seen, log);
        }
    }

    /// Reports processes that exist and cannot be seen.
    fn tell_hidden(&self, hidden: &[u32], log: &mut Log) {
        if hidden.is_empty() {
            return;
        }
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
        let what = format!("{} in {}", refusals::counted(hidden), self.options.proc.to_string_lossy());
        log.add(ProblemCode::NoRight, what, why, needs);
    }

    /// Reports processes that came and went, by the cgroup that listed them.
    fn tell_vanished(&self, seen: &Seen, log: &mut Log) {
        let mut places: BTreeMap<Option<&Text>, BTreeSet<u32>> = BTreeMap::new();
        for Vanished { wanted, uid, .. } in &seen.vanished {
            let cgroup = wanted.cgroup.and_then(|place| self.cgroups.get(place).copied());
            let inside = seen.read.iter().filter(|process| Some(&process.cgroup) == cgroup);
            places.entry(cgroup).or_default().extend(inside.map(|process| process.uid).chain(*uid));
        }
        for (cgroup, uids) in places {
            let what = cgroup.map_or_else(|| "processes".to_owned(), |path| path.lossy().into_owned());
            let users = users(self.options, uids);
            let why = format!("processes{users} begin and end there faster than they can be looked at");
            log.add(ProblemCode::ShortLived, what, why, "try again, or end these processes");
        }
    }
}

/// ` of alice and uid 1002`, or nothing.
fn users(options: &Options, uids: BTreeSet<u32>) -> String {
    let names = user_names(options, uids.clone());
    let name = |uid: &u32| {
        let name = names.iter().find(|user| user.uid == *uid).map(|user| user.name.lossy().into_owned());
        name.unwrap_or_else(|| format!("uid {uid}"))
    };
    let names: Vec<String> = uids.iter().take(3).map(name).collect();
    if names.is_empty() { String::new() } else { format!(" of {}", names.join(" and ")) }
}

/// Reads and lists by turns.
fn rounds(read: &mut Read<'_>, first: Vec<Wanted>, list: &mut List<'_>, log: &mut Log) -> Seen {
    let (mut seen, mut done, mut wanted) = (Seen::default(), HashSet::new(), first);
    for _ in 0..ROUNDS {
        let mut outcomes = Vec::with_capacity(wanted.len());
        read(&wanted, &mut |index, outcome| outcomes.push((index, outcome)));
        outcomes.sort_unstable_by_key(|(index, _)| *index);
        let is_late = outcomes.len() < wanted.len() && log.out_of_time("reading processes");
        seen.vanished.clear();
        for (index, outcome) in outcomes {
            seen.extend(wanted.get(index).copied().zip(Some(outcome)), &mut done);
        }
        seen.settled = is_late || seen.vanished.is_empty();
        if seen.settled {
            return seen;
        }
        // Twice: where pids begin again from the lowest one, a process may have taken the
        // place of another behind the back of a listing.
        let mut lists = (0..2).map(|_| list(&mut done, &seen.vanished, log));
        wanted = lists.find(|wanted| !wanted.is_empty()).unwrap_or_default();
        seen.settled = wanted.is_empty();
        if seen.settled {
            return seen;
        }
    }
    seen
}

impl Seen {
    fn extend(&mut self, one: Option<(Wanted, Outcome)>, done: &mut HashSet<u32>) {
        let Some((wanted, Outcome { found, uid, ended, .. })) = one else { return };
        let read = found != Err(Unread::Gone);
        if ended || !read {
            self.vanished.push(Vanished { wanted, read, uid });
        }
        if read {
            done.insert(wanted.pid);
        }
        match found {
            Ok(process) => self.read.push(process),
            Err(Unread::Gone | Unread::Other) => {}
            Err(why) => self.unread.push((wanted, why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [u32; 3] = [1, 2, 3];

    fn wanted(pids: &[u32]) -> Vec<Wanted> {
        pids.iter().map(|pid| Wanted { pid: *pid, cgroup: None }).collect()
    }

    fn outcome(pid: u32, is_gone: bool) -> Outcome {
        let process = Process { pid, ..Process::default() };
        let found = if is_gone { Err(Unread::Gone) } else { Ok(process) };
        Outcome { found, ..Outcome::silent() }
    }

    /// Reads as long as a process vanishes; `gone` says which do.
    fn read(gone: impl Fn(u32) -> bool, list: &mut List<'_>) -> (Vec<u32>, bool) {
        let mut read = |wanted: &[Wanted], each: &mut dyn FnMut(usize, Outcome)| {
            wanted.iter().enumerate().for_each(|(index, one)| each(index, outcome(one.pid, gone(one.pid))));
        };
        let seen = rounds(&mut read, wanted(&ALL), list, &mut Log::default());
        (seen.read.iter().map(|process| process.pid).collect(), seen.settled)
    }

    /// Make sure that nothing is listed again where all was read, that what came meanwhile
    /// is read, and that a look ends where processes always come and go.
    #[test]
    fn again() {
        let all = read(|_| false, &mut |_, _, _| unreachable!("all were read"));
        assert_eq!(all, (ALL.to_vec(), true));
        let mut listings = vec![vec![], vec![], vec![4], vec![]];
        let mut list = |done: &mut HashSet<u32>, vanished: &[Vanished], _: &mut Log| {
            assert!(done.contains(&1) && !done.contains(&2));
            assert!(vanished.iter().any(|one| !one.read));
            wanted(&listings.pop().unwrap())
        };
        assert_eq!(read(|pid| [2, 4].contains(&pid), &mut list), (vec![1, 3], true));
        let mut next = 10;
        let mut relay = |_: &mut HashSet<u32>, _: &[Vanished], _: &mut Log| {
            next += 1;
            wanted(&[next])
        };
        assert_eq!(read(|pid| pid > 2, &mut relay), (vec![1, 2], false));
    }
}
