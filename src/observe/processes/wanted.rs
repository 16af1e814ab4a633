//! What is asked of the reader of processes, and why it may not answer.

use serde::{Deserialize, Serialize};

use super::refusals::Refusals;
use crate::observation::Text;
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::sys::dir::Dir;

/// A process to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) pid: u32,
    /// Where the walk found it; `None` if it was asked for by its number.
    pub(super) cgroup: Option<&'a Text>,
    /// Whether it is wanted wherever it is, outside of the root too.
    pub(super) anywhere: bool,
}

/// Why a process was not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Unread {
    Gone,
    /// It exists, but this `/proc` does not show it.
    Hidden,
    /// Its cgroup lies outside the namespace or mount.
    Outside(Text),
    NoCgroup,
    /// It kept who read it waiting.
    Silent,
}

/// What reading a process takes.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) proc: &'a Dir,
    pub(super) hierarchy: &'a Hierarchy,
    pub(super) detail: bool,
    /// Whether pids of this `/proc` are those of system calls.
    pub(super) is_own: bool,
    pub(super) refusals: Refusals,
}
