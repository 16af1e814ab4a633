//! What changes on a node, while it happens.
//!
//! [`Watch`] is all of it: [`Watch::next`] gives events. Inside, [`FactSource`] loads
//! the programs of `bpf/` and gives facts of processes: their
//! calls of the C library's functions that change the environment, fork, exec
//! and exit, and the initialisation of drivers' libraries. [`Tracker`] keeps
//! what each process asks for, and turns facts into the events of `gpumap/1`.
//! [`policy`] watches the programs in force on cgroups, [`opens`] the devices of
//! GPUs that processes open and close, [`denials`] those that the kernel refuses them.

mod beside;
pub mod denials;
mod event;
mod fact;
#[cfg(fuzzing)]
pub mod fuzzing;
mod looks;
mod node;
pub mod opens;
pub mod policy;
mod running;
mod source;
pub mod state;
mod tracker;

use std::time::Duration;

use crate::loader::LoadError;
use crate::observe::ObserveError;
use crate::observe::scanner::ScanError;
use crate::report::Event;

pub use crate::probing::driver::Driver;
pub use crate::probing::{Mode, ProcessScope};
pub use beside::Beside;
pub use event::not_seen;
pub use fact::{EventSubject, Fact, NewValue};
pub use running::{Step, Watch, Watched};
pub use source::FactSource;
pub use tracker::Tracker;

/// How long decoding may keep other events waiting. Programs that take longer are decoded
/// beside, within [`LONG`]; their policy is reported when it is known.
const SOON: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(20);
/// Said of a policy that takes long, and when that is done.
const NOT_YET: &str = "not known yet: its programs take long to decode, and it is told when that is done";
const KNOWN: &str = "known now: its programs are decoded";

/// A further source of events: what changes policies, for instance.
pub trait EventSource {
    /// What serves it.
    fn engine(&self) -> String;
    /// The events since the last call; called at least once a second, and must
    /// not wait for longer than half a second.
    fn events(&mut self) -> Vec<Event>;
}

impl From<LoadError> for WatchError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::NoTypes(why) => Self::NoBtf(why),
            LoadError::Missing(part) => Self::Object(part),
            LoadError::Scope(_) => Self::Scope(error.to_string()),
            LoadError::Refused(_) | LoadError::Forbidden(_) | LoadError::NoEngine => {
                Self::Load(error.to_string())
            }
        }
    }
}

/// Why a part of a watch cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Processes cannot be listed.
    #[error(transparent)]
    Processes(#[from] ScanError),
    /// Their calls cannot be followed.
    #[error(transparent)]
    Calls(#[from] WatchError),
    /// The programs of cgroups cannot be listed.
    #[error(transparent)]
    Programs(#[from] ObserveError),
}

/// Why nothing can be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The kernel does not describe its types.
    #[error("the kernel has no BTF ({0})")]
    NoBtf(String),
    /// The kernel refuses the programs.
    #[error("the kernel refuses to load the programs: {0}")]
    Load(String),
    /// A cgroup in scope cannot be looked at.
    #[error("{0}")]
    Scope(String),
    /// A program cannot be attached.
    #[error("{0} cannot be watched ({1})")]
    Attach(String, String),
    /// The object lacks a part: a fault of the build.
    #[error("the program object has no {0}")]
    Object(&'static str),
    /// Waiting failed.
    #[error("waiting for events failed ({0})")]
    Wait(nix::errno::Errno),
}
