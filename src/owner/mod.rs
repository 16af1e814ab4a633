//! From cgroup paths to owners: Slurm jobs, pods, containers, units.
//!
//! Paths are hostile text: anyone who may make a cgroup may call it anything.
//! A name is an identity only where root's daemons put such names, which
//! [`TrustedNames`] tells; below the first owner from the top on it is a claim
//! ([`Owner::claims`]), and no job is ever found by it. An owner is always shown
//! beside the path it was read from.

mod asked;
mod container;
mod directory;
mod engine;
mod path_name;
mod pattern;
mod scan;
mod schedulers;
mod slurm;
mod trusted_names;
mod unit;

use crate::model::{Owner, OwnerPart};
pub use asked::{AskedJob, AskedName, AskedStep, JobName};
pub use directory::Directory;
pub use pattern::mistake as pattern_mistake;
pub use scan::{inner_job, runs_slurm};
pub(crate) use slurm::{job_of_socket, job_of_title};
pub use trusted_names::TrustedNames;

impl TrustedNames {
    /// The owner that a cgroup path names, relative to the cgroup root: the
    /// innermost one that root's daemons named, with those around it in `outer` and
    /// those that are named inside it in `claims`. `None` if nothing is recognised.
    ///
    /// Everything below an owner's directory belongs to it: a container that plain
    /// runc makes, whose name can be anything, belongs to the job it was started in.
    pub fn owner(&self, path: &[u8]) -> Option<Owner> {
        scan::scan(path, self).owner()
    }

    /// The job that a path is in, if that is its innermost owner and has a
    /// number or a SLUID.
    pub(crate) fn numbered_job(&self, path: &[u8]) -> Option<Owner> {
        let innermost = scan::scan(path, self).owners.pop()?.owner;
        (innermost.job_id.is_some() || innermost.sluid.is_some()).then_some(innermost)
    }
}

/// The owner that a cgroup path names, for a gpumap that is not in the same
/// hierarchy: see [`TrustedNames::owner`].
pub fn of_path(path: &[u8]) -> Option<Owner> {
    TrustedNames::default().owner(path)
}

/// Whether a path looks as if the step daemon of a job with a SLUID were there,
/// be that true or claimed.
pub(crate) fn may_serve_sluid(path: &[u8]) -> bool {
    let scan = scan::scan(path, &TrustedNames::default());
    let mut named = scan.owners.iter().map(|found| &found.owner).chain(&scan.claims);
    named.any(|owner| owner.sluid.is_some() && owner.part == Some(OwnerPart::Slurm))
}
