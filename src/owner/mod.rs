//! From cgroup paths to owners: Slurm jobs, pods, containers, units.
//!
//! Paths are hostile text: anyone who may make a cgroup may call it anything.
//! A path says who is meant to own a cgroup, which is why an owner is always
//! shown beside the path it was read from. One forgery is ruled out: below a
//! user's own systemd manager, where every name is the user's choice, no
//! scheduler of the node is recognised.

mod container;
mod directory;
mod engine;
mod job;
mod machine;
mod place;
mod pod;
mod scan;
mod schedulers;
mod sluid;
mod slurm;
mod stepd;
mod unit;

use crate::report::Owner;

pub use directory::Directory;
pub use job::JobName;

pub(crate) use stepd::{job_of_socket, job_of_title};

/// The job that a path is in, if that is its innermost owner and has a number
/// or a SLUID.
pub(crate) fn numbered_job(path: &[u8]) -> Option<Owner> {
    let innermost = scan::scan(path).pop()?.owner;
    (innermost.job_id.is_some() || innermost.sluid.is_some()).then_some(innermost)
}

/// The owner that a cgroup path names, relative to the cgroup root: the
/// innermost one that is recognised, with those around it in `outer`. `None`
/// where nothing is recognised.
///
/// What is below an owner's directory is its too, until a more inner owner is
/// recognised: a container that plain runc makes, whose name can be anything,
/// belongs to the job it was started in.
pub fn of_path(path: &[u8]) -> Option<Owner> {
    scan::nested(scan::scan(path).into_iter().map(|found| found.owner))
}
