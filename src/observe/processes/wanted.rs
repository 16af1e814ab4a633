//! Which process is to be read, and why it was not.

use serde::{Deserialize, Serialize};

use super::refusals::Counts;
use crate::observation::{Process, Text};
use crate::observe::pinned::NotRead;

/// A process to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) pid: u32,
    /// The cgroup that listed it, by its place in `ReadContext::cgroups`; `None` if it
    /// was found by its pid.
    pub(super) cgroup: Option<usize>,
}

/// Why a process was not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Unread {
    /// It has ended.
    Gone,
    /// It exists, but this `/proc` does not show it.
    Hidden,
    /// Its cgroup lies outside the namespace or mount.
    Outside(Text),
    NoCgroup,
    /// The path of its cgroup is longer than the kernel shows. With what it shows.
    LongPath(Option<Text>),
    /// It kept its reader waiting.
    Silent,
    /// A file of it could not be read, in one clause.
    Failed(String),
    /// It is none of those that are looked for.
    Other,
    /// It may be one of those that are looked for.
    Unsure(Doubt),
}

/// Why it is not certain whether a process is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Doubt {
    /// Why its environment is not known, in one clause.
    pub(super) why: String,
    /// Whether the kernel refused it.
    pub(super) refused: bool,
    /// Whether it is older than what is looked for, and so none of it.
    pub(super) older: bool,
    pub(super) comm: Text,
}

impl From<NotRead> for Unread {
    fn from(why: NotRead) -> Self {
        match why {
            NotRead::Gone => Self::Gone,
            why @ NotRead::Failed(..) => Self::Failed(why.to_string()),
        }
    }
}

/// What reading one process gave.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) found: Result<Process, Unread>,
    /// Its effective uid, where it was seen alive.
    pub(super) uid: Option<u32>,
    /// Whether it had ended, or was ending: what it held others may hold now.
    pub(super) ended: bool,
    pub(super) refusals: Counts,
}

impl Outcome {
    /// Of a process that kept its reader waiting.
    pub(super) fn silent() -> Self {
        Self { found: Err(Unread::Silent), uid: None, ended: false, refusals: Counts::new() }
    }
}
