//! `gpumap job`: what jobs were allocated, may open, ask for and hold.

use super::{Failure, Session, job_name, job_scope, saved, slurm};
use crate::cli::{Exit, JobArgs};
use crate::{analyse, observe, render};

/// Runs the command.
pub(super) fn run(session: &mut Session<'_>, args: &JobArgs) -> Result<Exit, Failure> {
    slurm::look(session, &args.allocation.slurm)?;
    let jobs = job_name::all(&args.ids, args.allocation.slurm.from_env)?;
    let observation = match saved::from_option(session)? {
        Some(mut observation) => {
            slurm::add(session, &args.allocation.slurm, &mut observation)?;
            job_scope::narrow(&mut observation, &jobs)?;
            observation
        }
        None => observe::jobs(&session.options(), &jobs)?,
    };
    let payload = analyse::node(&observation, &slurm::granted(&args.allocation))?;
    session.answer(&observation, payload, render::jobs)
}
