//! `gpumap job`: what jobs were allocated, may open, ask for and hold.

use super::job_scope::Part;
use super::{Failure, Session, job_name, job_scope, saved, slurm};
use crate::cli::{Exit, JobArgs};
use crate::observation::Observation;
use crate::owner::{AskedJob, AskedName, JobName};
use crate::{analyse, observe, render};

/// Runs the command.
pub(super) fn run(session: &mut Session<'_>, args: &JobArgs) -> Result<Exit, Failure> {
    slurm::look(session, &args.allocation.slurm)?;
    let jobs = job_name::all(&args.ids, args.allocation.slurm.from_env)?;
    let (observation, parts) = match saved::from_option(session)? {
        Some(mut observation) => {
            slurm::add(session, &args.allocation.slurm, &mut observation)?;
            let parts = parts(&jobs, |name| job_name::in_observation(&observation, name))?;
            job_scope::narrow(&mut observation, &parts)?;
            (observation, parts)
        }
        None => {
            let parts = parts(&jobs, |name| job_name::live(session, name))?;
            (live(session, &parts)?, parts)
        }
    };
    let mut payload = analyse::node(&observation, &slurm::granted(&args.allocation))?;
    analyse::without_partial_jobs(&mut payload, |owner| {
        parts.iter().any(|part| part.step.is_none() && part.job.is(owner))
    });
    session.answer(&observation, payload, render::jobs)
}

fn parts(
    jobs: &[AskedJob],
    number: impl Fn(&AskedName) -> Result<JobName, Failure>,
) -> Result<Vec<Part>, Failure> {
    jobs.iter().map(|asked| Ok(Part { job: number(&asked.job)?, step: asked.step.clone() })).collect()
}

fn live(session: &Session<'_>, parts: &[Part]) -> Result<Observation, Failure> {
    let names: Vec<JobName> = parts.iter().map(|part| part.job.clone()).collect();
    let mut observation = observe::jobs(&session.options(), &names)?;
    if parts.iter().any(|part| part.step.is_some()) {
        job_scope::narrow(&mut observation, parts)?;
    }
    Ok(observation)
}
