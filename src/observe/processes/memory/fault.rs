//! Why memory of a process could not be read.

use nix::errno::Errno;

/// Why there are no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::observe) enum Fault {
    /// Nothing is there that can be read without waiting for it.
    Absent,
    /// The address space is gone.
    Gone,
    /// Enough has been read.
    Spent,
    /// A call failed, which says nothing of what is there.
    Failed(Errno),
}

impl Fault {
    /// In words.
    pub(in crate::observe::processes) fn why(self) -> &'static str {
        match self {
            Self::Absent => "its memory cannot be read there: the page is not mapped or not resident",
            Self::Gone => "it has ended",
            Self::Spent => "it takes too long to read",
            Self::Failed(_) => "its memory could not be read: a call failed",
        }
    }
}
