//! How far a helper may look into a process.

use serde::{Deserialize, Serialize};

/// Why memory was not read of a process that kept who read it waiting.
pub(in crate::observe) const SILENT: &str =
    "its memory does not answer (a page of a FUSE file or of userfaultfd)";
/// Why nothing was read of a process whose user's others took too long.
pub(in crate::observe) const SPENT: &str = "processes of the same user took more than 10 seconds to look into (descriptors, libraries, environments)";

/// How far a process may be looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Depth {
    /// Into its memory as well.
    Full,
    /// Not into its memory, nor into what takes the lock of it: reading that
    /// did not end before.
    WithoutMemory,
    /// Into nothing whose length is the process's choice: its user's processes
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
