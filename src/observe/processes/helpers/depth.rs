//! How far a helper may look into a process.

use serde::{Deserialize, Serialize};

/// Why the memory of a process was not read that kept its reader waiting.
pub(in crate::observe) const SILENT: &str =
    "its memory does not answer (a page of a FUSE file or of userfaultfd)";
/// The reason for a process that was not read because its user's other processes
/// took too long.
pub(in crate::observe) const SPENT: &str = "processes of the same user took more than 10 seconds to look into (descriptors, libraries, environments)";

/// How much of a process may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Depth {
    /// Everything, its memory included.
    Full,
    /// Nothing of its memory, nor what takes the lock of its memory: reading that
    /// did not end before.
    WithoutMemory,
    /// Nothing whose length the process chooses, because the processes of its user
    /// took too long already.
    Minimal,
}

impl Depth {
    /// Why memory is not read.
    pub(crate) fn refusal(self) -> Option<&'static str> {
        match self {
            Self::Full => None,
            Self::WithoutMemory => Some(SILENT),
            Self::Minimal => Some(SPENT),
        }
    }
}
