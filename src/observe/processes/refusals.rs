//! Counts what could not be read of processes, refused or failed, so that a node full
//! of other users' processes gives one problem of each kind instead of thousands.

use std::cell::{Cell, OnceCell, RefCell};
use std::path::Path;

use nix::errno::Errno;

use super::helpers::{Depth, SILENT, SPENT};
use crate::model::ProblemCode;
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::problems::Log;
use crate::observe::rights::{ProcessPart, Rights};

/// The kinds of facts that could not be read.
#[derive(Clone, Copy, Debug)]
pub(in crate::observe) enum ReadKind {
    AtExec,
    Live,
    Devices,
    Mapped,
    Exe,
    Image,
    ManyMappings,
    /// Not refused: the process does not answer.
    Silent,
    /// Not refused: it would take too long.
    Spent,
}

/// The file of each kind, in the order of [`ReadKind`], and the part of a process
/// that it takes a right to see.
const KINDS: [(&str, Option<ProcessPart>); 9] = [
    ("/proc/PID/environ", Some(ProcessPart::Memory)),
    ("/proc/PID/mem or maps", Some(ProcessPart::Memory)),
    ("/proc/PID/fd", Some(ProcessPart::Facts)),
    ("/proc/PID/map_files", Some(ProcessPart::Mapped)),
    ("/proc/PID/exe", Some(ProcessPart::Facts)),
    ("the C libraries", Some(ProcessPart::Mapped)),
    ("/proc/PID/maps", None),
    ("memory and mappings", None),
    ("memory and descriptors", None),
];
/// The reason for kinds that take no right.
const TOO_LONG: &str = "it is too long: devices that are mapped may be missing";
/// Processes of one kind.
#[derive(Debug, Default)]
struct Tally {
    count: Cell<u32>,
    /// The error number of the first, where a call failed; else 0.
    errno: Cell<u32>,
    /// The first of them, as helpers reported them.
    pids: RefCell<Vec<u32>>,
}

impl Tally {
    fn add(&self, count: u32, errno: u32) {
        self.count.set(self.count.get().saturating_add(count));
        if self.errno.get() == 0 {
            self.errno.set(errno);
        }
    }
}

/// Counts of processes by kind.
///
/// Helpers count, and send their [`Counts`] with each answer.
#[derive(Debug, Default)]
pub(in crate::observe) struct Refusals {
    refused: [Tally; KINDS.len()],
    /// Those of which a call failed for another reason.
    failed: [Tally; KINDS.len()],
    /// Read at the first refusal.
    rights: OnceCell<Rights>,
}

/// Processes of a kind that are named.
const NAMED: usize = 3;
/// From this many refused processes on, only the missing right is reported, and no
/// process is named.
const CROWD: u32 = 16;

/// Counts of what was refused, in the order of [`ReadKind`], and after them the error
/// numbers of what failed; an empty list means zeros.
pub(in crate::observe) type Counts = Vec<u32>;

impl Refusals {
    /// Counts one process.
    pub(in crate::observe) fn count(&self, kind: ReadKind) {
        if let Some(tally) = self.refused.get(kind as usize) {
            tally.add(1, 0);
        }
    }

    /// Counts a process of which a call failed, neither refused nor because it has ended.
    pub(in crate::observe) fn failed(&self, kind: ReadKind, errno: Errno) {
        if let Some(tally) = self.failed.get(kind as usize) {
            tally.add(1, (errno as i32).unsigned_abs());
        }
    }

    /// Returns the counts so far and resets them.
    pub(in crate::observe) fn take(&self) -> Counts {
        let refused = self.refused.iter().map(|tally| tally.count.take());
        let counts: Counts = refused.chain(self.failed.iter().map(|tally| tally.errno.take())).collect();
        if counts.iter().all(|count| *count == 0) { Counts::new() } else { counts }
    }

    /// Adds a helper's counts of one process.
    pub(in crate::observe) fn add(&self, pid: u32, counts: &[u32]) {
        let (refused, failed) = counts.split_at_checked(KINDS.len()).unwrap_or((counts, &[]));
        let refused = self.refused.iter().zip(refused.iter().map(|count| (*count, 0)));
        let failed = self.failed.iter().zip(failed.iter().map(|errno| (u32::from(*errno > 0), *errno)));
        for (tally, (count, errno)) in refused.chain(failed) {
            tally.add(count, errno);
            let mut pids = tally.pids.borrow_mut();
            if count > 0 && pids.len() < NAMED {
                pids.push(pid);
            }
        }
    }

    /// The reason for an [`Answer::Missing`](crate::observation::Answer) in one
    /// clause. A refusal and a failure are counted; an end of the process is neither.
    pub(in crate::observe) fn why(&self, kind: ReadKind, errno: Errno) -> String {
        match errno {
            Errno::EACCES | Errno::EPERM => {
                self.count(kind);
                let (file, part) = KINDS[kind as usize];
                let (refused, needs) = self.refused(part.unwrap_or(ProcessPart::Facts));
                let needs = if needs.is_empty() { needs } else { format!(": needs {needs}") };
                format!("not allowed to read {file}{refused}{needs}")
            }
            Errno::ENOENT | Errno::ESRCH => "it has ended".to_owned(),
            errno => {
                self.failed(kind, errno);
                format!("cannot read {}: {errno}", KINDS[kind as usize].0)
            }
        }
    }

    /// Counts a process that was not read to the full depth.
    pub(in crate::observe) fn passed_over(&self, depth: Depth) {
        match depth {
            Depth::Full => {}
            Depth::WithoutMemory => self.count(ReadKind::Silent),
            Depth::Minimal => self.count(ReadKind::Spent),
        }
    }

    /// Reports each kind once, with the names of the first processes.
    pub(super) fn report(&self, proc: &Path, log: &mut Log) {
        for (tally, (file, _)) in self.failed.iter().zip(KINDS) {
            let Some(what) = named(file, tally.count.get()) else { continue };
            let who = who(proc, &tally.pids.borrow(), tally.count.get());
            let errno = Errno::from_raw(tally.errno.get().cast_signed());
            log.add(ProblemCode::Unreadable, what, format!("{}{who}", errno.desc().to_lowercase()), "");
        }
        for (which, (tally, (file, part))) in self.refused.iter().zip(KINDS).enumerate() {
            let (count, pids) = (tally.count.get(), &tally.pids);
            let Some(what) = named(file, count) else { continue };
            let Some(part) = part else {
                let who = who(proc, &pids.borrow(), count);
                log.add(ProblemCode::Unreadable, what, format!("{}{who}", unasked(which)), "");
                continue;
            };
            let (refused, needs) = self.refused(part);
            // If no right is missing, these processes are special.
            let is_crowd = !needs.is_empty() && count > CROWD;
            let who = if is_crowd { String::new() } else { who(proc, &pids.borrow(), count) };
            log.add(ProblemCode::NoRight, what, format!("permission denied{who}{refused}"), needs);
        }
    }

    /// The reason why this part of a process is refused: missing rights, or else
    /// what refuses in spite of them.
    fn refused(&self, part: ProcessPart) -> (String, String) {
        let rights = self.rights.get_or_init(Rights::own);
        match rights.missing(part) {
            needs if needs.is_empty() => (rights.refuser(part), needs),
            needs => (String::new(), needs),
        }
    }
}

/// A file of so many processes, in words; `None` for none.
fn named(file: &str, count: u32) -> Option<String> {
    let processes = if count == 1 { "process" } else { "processes" };
    (count > 0).then(|| format!("{file} of {count} {processes}"))
}

/// A number of processes, in words.
pub(super) fn counted(pids: &[u32]) -> String {
    format!("{} {}", pids.len(), if pids.len() == 1 { "process" } else { "processes" })
}

/// ` (17 sshd, 18 sshd, …)`: the processes that a problem concerns.
pub(super) fn who(proc: &Path, pids: &[u32], count: u32) -> String {
    let mut named: Vec<String> = pids.iter().map(|pid| format!("{pid} {}", comm(proc, *pid))).collect();
    match usize::try_from(count).unwrap_or(usize::MAX) {
        _ if named.is_empty() => return String::new(),
        count if count > named.len() => named.push("…".to_owned()),
        _ => {}
    }
    format!(" ({})", named.join(", "))
}

/// The command name of a process, for people.
fn comm(proc: &Path, pid: u32) -> String {
    match PinnedProcess::at(proc, pid).and_then(|process| process.stat()) {
        Ok(stat) => stat.comm.lossy().into_owned(),
        Err(NotRead::Gone) => "(ended)".to_owned(),
        Err(NotRead::Fleeting | NotRead::Failed(..)) => "?".to_owned(),
    }
}

/// Why something was not read that takes no right.
fn unasked(which: usize) -> &'static str {
    match which {
        which if which == ReadKind::Silent as usize => SILENT,
        which if which == ReadKind::Spent as usize => SPENT,
        _ => TOO_LONG,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(count: impl Fn(&Refusals)) -> Vec<String> {
        let helper = Refusals::default();
        count(&helper);
        let (here, mut log) = (Refusals::default(), Log::new(None));
        here.add(u32::MAX, &helper.take());
        here.report(Path::new("/proc"), &mut log);
        log.problems.iter().map(|problem| format!("{}: {}", problem.what, problem.why)).collect()
    }

    /// Make sure that a call that failed is a problem with its reason, and that the end of
    /// a process is none.
    #[test]
    fn failures() {
        let why = |errno| told(|refusals| drop(refusals.why(ReadKind::Image, errno)));
        let of = "the C libraries of 1 process: i/o error (4294967295 (ended))";
        assert_eq!(why(Errno::EIO), [of]);
        for none in [Errno::ENOENT, Errno::ESRCH] {
            assert_eq!(why(none), Vec::<String>::new(), "{none}");
        }
        for failure in [Errno::EINVAL, Errno::ENOSYS, Errno::ESTALE, Errno::ENODEV] {
            assert_eq!(why(failure).len(), 1, "{failure}");
        }
        let refused = told(|refusals| drop(refusals.why(ReadKind::Exe, Errno::EACCES)));
        assert!(refused[0].starts_with("/proc/PID/exe of 1 process: permission denied"), "{refused:?}");
        let both = told(|refusals| {
            refusals.count(ReadKind::Silent);
            refusals.failed(ReadKind::Live, Errno::ENOMEM);
            refusals.failed(ReadKind::Live, Errno::EIO);
        });
        assert_eq!(both.len(), 2, "{both:?}");
        assert!(both[0].contains("out of memory"), "{both:?}");
    }
}
