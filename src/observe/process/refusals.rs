//! What could not be read of processes, counted: a node of other people's
//! processes gives one problem of a kind, not thousands.

use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;

use super::super::log::Log;

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
}

/// The file and right of each kind, in the order of [`Kind`].
const KINDS: [(&str, &str); 7] = [
    ("/proc/PID/environ", PTRACE),
    ("/proc/PID/mem or maps", PTRACE),
    ("/proc/PID/fd", PTRACE),
    ("/proc/PID/map_files", "CAP_CHECKPOINT_RESTORE (CAP_SYS_ADMIN before Linux 5.9)"),
    ("/proc/PID/exe", PTRACE),
    ("the C libraries", "CAP_CHECKPOINT_RESTORE (CAP_SYS_ADMIN before Linux 5.9)"),
    ("/proc/PID/maps", ""),
];
const PTRACE: &str = "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH";

/// Counts of processes by kind.
#[derive(Debug, Default)]
pub(in super::super) struct Refusals([AtomicU32; KINDS.len()]);

impl Refusals {
    /// Counts one process.
    pub(super) fn count(&self, kind: Kind) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
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

    /// Tells each kind once.
    pub(super) fn report(&self, log: &mut Log) {
        for (count, (file, needs)) in self.0.iter().zip(KINDS) {
            let count = count.load(Ordering::Relaxed);
            let processes = if count == 1 { "process" } else { "processes" };
            match count {
                0 => {}
                _ if needs.is_empty() => log.add(
                    "unreadable",
                    format!("{file} of {count} {processes}"),
                    "it is too long: devices that are mapped may be missing",
                    "",
                ),
                _ => {
                    log.add("no-right", format!("{file} of {count} {processes}"), "permission denied", needs)
                }
            }
        }
    }
}
