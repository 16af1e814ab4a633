//! A policy, and what it depends on besides its programs.

use super::diagram::Bdd;
use crate::observation::Map;

/// The inputs of programs besides their arguments.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The maps, with contents.
    pub maps: &'a [Map],
    /// The id of the cgroup asked about; `None` when a program is looked at on
    /// its own.
    pub cgroup_id: Option<u64>,
    /// How this kernel combines several programs.
    pub combination: Combination,
}

/// How the kernel combines the results of several programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combination {
    /// Before Linux 5.18: allowed if every program returns 1.
    AllMustAllow,
    /// Since Linux 5.18: a return of 0 sets `-EPERM` unless an error is
    /// already set, and a program may change the error with `bpf_set_retval`.
    #[default]
    Retval,
}

/// The decisions of one or more programs, for every device and request. Equal
/// policies of one decoder are equal values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Policy {
    /// The questions that are certainly allowed.
    pub(super) allow: Bdd,
    /// The questions that are certainly denied.
    pub(super) deny: Bdd,
    /// What it was made of, if it is not exact.
    pub(super) origin: Origin,
}

impl Combination {
    /// The combination rule of a kernel of release `uname -r`. Kernels whose
    /// distributor ports BPF back to an old version (`.el`) count as new, because
    /// the new rule claims less and only trying would tell.
    pub fn of_kernel(release: &str) -> Self {
        let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
        match (numbers.next(), numbers.next()) {
            (Some(major), Some(minor)) if (major, minor) < (5, 18) && !release.contains(".el") => {
                Self::AllMustAllow
            }
            _ => Self::Retval,
        }
    }
}

/// Number of what a policy was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(pub(super) usize);

impl Origin {
    /// That of a policy whose drawing is all there is to know.
    pub const NONE: Self = Self(0);
}
