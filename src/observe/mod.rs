//! Facts from the live node. This is the first of the three stages, and the only
//! one that reads the system.
//!
//! Each room answers one question: [`cgroups`](self::cgroups()) which cgroups there are and which
//! programs are attached to them, `programs` what these programs and their maps
//! hold, `processes` what a process is, asks for and holds, `jobs` which cgroups
//! belong to a job, `units` what systemd is configured to do, [`gpu`] which GPUs
//! there are. [`scanner`] lists every process of the node, [`monitor`] keeps facts
//! up to date, [`verify`] asks the kernel itself.
//!
//! Everything here reads only, stays within bounds of size and time, and accepts
//! that cgroups, processes and programs vanish while they are read. What cannot be
//! read is left out, with a [`Problem`](crate::observation::Problem) that names the missing right. Only a question
//! that makes no sense on this node is an [`ObserveError`].

mod assemble;
mod cgroups;
mod clock;
mod containers;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod gpu;
mod host;
mod jobs;
pub mod monitor;
pub(crate) mod mountinfo;
mod options;
mod own_process;
pub(crate) mod pinned;
mod problems;
pub(crate) mod processes;
pub(crate) mod procfile;
pub(crate) mod programs;
mod rights;
pub mod scanner;
mod setup;
mod site_config;
mod slurm_config;
mod slurm_daemon;
mod slurm_places;
mod units;
pub mod verify;
mod view;

pub use crate::sys::access as own_access;
pub use assemble::{add_places, cgroups, gpus, processes, processes_and, program};
pub use cgroups::lookup::{
    LocatedProcess, cgroups_named, id_cgroup, open_cgroup, path_cgroup, pid_cgroup, process_cgroup,
    trusted_names,
};
pub use clock::now;
pub use error::ObserveError;
pub use host::this_boot;
pub use jobs::{JobHook, job_claims, jobs, leftovers};
pub use options::{CgroupTarget, Options};
pub use own_process::own_process;
pub use processes::ancestors::ancestors;
pub use processes::users::user_names;
pub use rights::{is_in_user_namespace, is_root};
pub use setup::setup;
