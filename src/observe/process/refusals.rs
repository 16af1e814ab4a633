//! What could not be read of processes, counted: a node of other people's
//! processes gives one problem of a kind, not thousands.

use std::cell::Cell;

use nix::errno::Errno;

use super::super::log::Log;
use super::crew::Care;

/// What was to be read.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Kind {
    AtExec,
    Live,
    Devices,
    Mapped,
    Exe,
    Image,
    ManyMappings,
    /// Nothing is refused: there is no answer.
    Silent,
    /// Nothing is refused: it would take too long.
    Spent,
}

/// The file and right of each kind, in the order of [`Kind`].
const KINDS: [(&str, &str); 9] = [
    ("/proc/PID/environ", PTRACE),
    ("/proc/PID/mem or maps", PTRACE),
    ("/proc/PID/fd", PTRACE),
    ("/proc/PID/map_files", "CAP_CHECKPOINT_RESTORE (CAP_SYS_ADMIN before Linux 5.9)"),
    ("/proc/PID/exe", PTRACE),
    ("the C libraries", "CAP_CHECKPOINT_RESTORE (CAP_SYS_ADMIN before Linux 5.9)"),
    ("/proc/PID/maps", ""),
    ("memory and mappings", ""),
    ("memory and descriptors", ""),
];
/// What is said of kinds that take no right.
const TOO_LONG: &str = "it is too long: devices that are mapped may be missing";
/// Why memory was not read of a process that kept who read it waiting.
pub(in super::super) const SILENT: &str =
    "its memory does not answer (a page of a FUSE file or of userfaultfd)";
/// Why nothing was read of a process whose user's others took too long.
pub(in super::super) const SPENT: &str = "processes of the same user took more than 10 seconds to look into (descriptors, libraries, environments)";
const PTRACE: &str = "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH";

/// Counts of processes by kind.
///
/// Helpers count, and send their [`Counts`] with each answer.
#[derive(Debug, Default)]
pub(in super::super) struct Refusals([Cell<u32>; KINDS.len()]);

/// Counts, in the order of [`Kind`]; empty where there are none.
pub(in super::super) type Counts = Vec<u32>;

impl Refusals {
    /// Counts one process.
    pub(in super::super) fn count(&self, kind: Kind) {
        if let Some(count) = self.0.get(kind as usize) {
            count.set(count.get().saturating_add(1));
        }
    }

    /// The counts so far, which begin again.
    pub(in super::super) fn take(&self) -> Counts {
        let counts: Counts = self.0.iter().map(Cell::take).collect();
        if counts.iter().all(|count| *count == 0) { Counts::new() } else { counts }
    }

    /// Adds counts of a helper.
    pub(in super::super) fn add(&self, counts: &[u32]) {
        for (count, more) in self.0.iter().zip(counts) {
            count.set(count.get().saturating_add(*more));
        }
    }

    /// The reason for an [`Answer::Missing`](crate::observation::Answer), one
    /// clause; a refusal is counted.
    pub(in super::super) fn why(&self, kind: Kind, errno: Errno) -> String {
        match errno {
            Errno::EACCES | Errno::EPERM => {
                self.count(kind);
                let (file, needs) = KINDS[kind as usize];
                format!("not allowed to read {file}: needs {needs}")
            }
            Errno::ENOENT | Errno::ESRCH => "it has ended".to_owned(),
            errno => format!("cannot read {}: {errno}", KINDS[kind as usize].0),
        }
    }

    /// Counts a process that was not looked into for this reason.
    pub(in super::super) fn passed_over(&self, care: Care) {
        match care {
            Care::Inside => {}
            Care::Outside => self.count(Kind::Silent),
            Care::Briefly => self.count(Kind::Spent),
        }
    }

    /// Tells each kind once.
    pub(super) fn report(&self, log: &mut Log) {
        for (which, (count, (file, needs))) in self.0.iter().zip(KINDS).enumerate() {
            let count = count.get();
            let processes = if count == 1 { "process" } else { "processes" };
            match count {
                0 => {}
                _ if needs.is_empty() => {
                    log.add("unreadable", format!("{file} of {count} {processes}"), unasked(which), "")
                }
                _ => {
                    log.add("no-right", format!("{file} of {count} {processes}"), "permission denied", needs)
                }
            }
        }
    }
}

/// Why it was not read what takes no right.
fn unasked(which: usize) -> &'static str {
    match which {
        which if which == Kind::Silent as usize => SILENT,
        which if which == Kind::Spent as usize => SPENT,
        _ => TOO_LONG,
    }
}
