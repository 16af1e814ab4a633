//! The kinds of probes.

use crate::model::ProbeEngine;
use crate::sys::bpf::{ManyProbes, has_many};

/// How functions are probed, the cheapest first. No program of either kind
/// sleeps: none makes the kernel wait for a page of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One program for entry and return; the return is seen only of calls that
    /// matter. Since Linux 6.13.
    Session,
    /// A program at entries and one at returns, each in one link for all functions of a
    /// file. Since Linux 6.6.
    Multi,
    /// The same with a link for each function and program. Since Linux 5.8.
    Pair,
}

impl Mode {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::Session, Self::Multi, Self::Pair];

    /// Whether this kernel may have such probes. Asking costs next to nothing; to prepare
    /// programs that it refuses takes seconds on a slow machine.
    pub(super) fn is_had(self) -> bool {
        match self {
            Self::Session => has_many(ManyProbes::Sessions),
            // What is asked is the same for entries and returns.
            Self::Multi => has_many(ManyProbes::Entries),
            Self::Pair => true,
        }
    }

    /// Its name in answers.
    pub fn engine(self) -> ProbeEngine {
        match self {
            Self::Session => ProbeEngine::Session,
            Self::Multi => ProbeEngine::Multi,
            Self::Pair => ProbeEngine::Pair,
        }
    }

    /// The mode of this name: `session`, `multi`, or `pair` (also called `plain`, from
    /// when there were pairs that sleep).
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "session" => Some(Self::Session),
            "multi" => Some(Self::Multi),
            "pair" | "plain" => Some(Self::Pair),
            _ => None,
        }
    }
}
