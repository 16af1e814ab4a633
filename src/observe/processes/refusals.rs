//! Counts what could not be read of processes, so that a node full of other
//! users' processes gives one problem of each kind instead of thousands.

use std::cell::{Cell, OnceCell, RefCell};
use std::path::Path;

use nix::errno::Errno;

use super::helpers::depth::{Depth, SILENT, SPENT};
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
/// Counts of processes by kind.
///
/// Helpers count, and send their [`Counts`] with each answer.
#[derive(Debug, Default)]
pub(in crate::observe) struct Refusals {
    counts: [Cell<u32>; KINDS.len()],
    /// The first processes of each kind that helpers reported.
    pids: [RefCell<Vec<u32>>; KINDS.len()],
    /// Read at the first refusal.
    rights: OnceCell<Rights>,
}

/// Processes of a kind that are named.
const NAMED: usize = 3;
/// From this many refused processes on, only the missing right is reported, and no
/// process is named.
const CROWD: u32 = 16;

/// Counts, in the order of [`ReadKind`]; an empty list means zeros.
pub(in crate::observe) type Counts = Vec<u32>;

impl Refusals {
    /// Counts one process.
    pub(in crate::observe) fn count(&self, kind: ReadKind) {
        if let Some(count) = self.counts.get(kind as usize) {
            count.set(count.get().saturating_add(1));
        }
    }

    /// Returns the counts so far and resets them.
    pub(in crate::observe) fn take(&self) -> Counts {
        let counts: Counts = self.counts.iter().map(Cell::take).collect();
        if counts.iter().all(|count| *count == 0) { Counts::new() } else { counts }
    }

    /// Adds a helper's counts of one process.
    pub(in crate::observe) fn add(&self, pid: u32, counts: &[u32]) {
        for ((count, pids), more) in self.counts.iter().zip(&self.pids).zip(counts) {
            count.set(count.get().saturating_add(*more));
            let mut pids = pids.borrow_mut();
            if *more > 0 && pids.len() < NAMED {
                pids.push(pid);
            }
        }
    }

    /// The reason for an [`Answer::Missing`](crate::observation::Answer) in one
    /// clause. A refusal is counted.
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
            errno => format!("cannot read {}: {errno}", KINDS[kind as usize].0),
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
        let kinds = self.counts.iter().zip(&self.pids).zip(KINDS).enumerate();
        for (which, ((count, pids), (file, part))) in kinds {
            let count = count.get();
            if count == 0 {
                continue;
            }
            let what = format!("{file} of {count} {}", if count == 1 { "process" } else { "processes" });
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
        Err(NotRead::Failed(..)) => "?".to_owned(),
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
