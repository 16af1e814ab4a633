//! Facts from the live node: the first of the three stages, and the only one
//! that asks the system.
//!
//! Everything is read-only, bounded in size and time, and survives cgroups,
//! processes and programs that vanish on the way. What cannot be read is left
//! out with a [`Problem`] that names the missing right; only a question that
//! makes no sense on this node is an [`ObserveError`].

mod assemble;
mod cgroups;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod gpu;
mod host;
mod jobs;
pub mod monitor;
mod options;
mod problems;
pub(crate) mod processes;
pub(crate) mod programs;
mod rights;
pub mod scanner;
mod slurm;
mod units;
pub mod verify;

pub use crate::sys::access as own_access;
pub use assemble::{cgroups, gpus, processes, processes_and, program};
pub use cgroups::lookup::{PinnedProcess, ground, id_cgroup, path_cgroup, pid_cgroup, process_cgroup};
pub use error::ObserveError;
pub use jobs::claims::job_claims;
pub use jobs::leftovers::{JobHook, leftovers};
pub use jobs::search::jobs;
pub use options::{Options, Target};
pub use processes::ancestors::ancestors;
pub use processes::users::user_names;
pub use rights::{is_in_user_namespace, is_root};
