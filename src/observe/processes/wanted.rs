//! Which process is to be read, and why it was not.

use serde::{Deserialize, Serialize};

use super::refusals::Refusals;
use crate::observation::Text;
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::sys::dir::Dir;

/// A process to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) pid: u32,
    /// The cgroup in which the walk found it; `None` if the caller named its pid.
    pub(super) cgroup: Option<&'a Text>,
    /// Whether it is also read if its cgroup is outside of the root.
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
    /// The path of its cgroup is longer than the kernel shows.
    LongPath,
    /// It kept its reader waiting.
    Silent,
}

/// The options for reading a process.
#[derive(Debug)]
pub(super) struct ReadContext<'a> {
    pub(super) proc: &'a Dir,
    pub(super) hierarchy: &'a Hierarchy,
    pub(super) detail: bool,
    /// Whether this `/proc` has the pids that system calls use.
    pub(super) is_own: bool,
    pub(super) refusals: Refusals,
}
