//! `gpumap job`: what jobs were allocated, may open, ask for and hold.

use super::files::{activity_state, saved};
use super::invocation::{Failure, Invocation};
use super::node;
use super::subject::job_cgroups::JobPart;
use super::subject::{allocation, job_cgroups, job_name};
use crate::analyse::CommandAnswer;
use crate::cli::{Exit, JobArgs};
use crate::model::Owner;
use crate::observation::Observation;
use crate::owner::{AskedJob, AskedName, JobName};
use crate::report::{JobsAnswer, NodeAnswer};
use crate::{analyse, observe, render};

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &JobArgs) -> Result<Exit, Failure> {
    allocation::request(invocation, &args.allocation.slurm)?;
    if args.ids.is_empty() && !args.allocation.slurm.from_env {
        return list(invocation, args);
    }
    let jobs = job_name::all(&args.ids, args.allocation.slurm.from_env)?;
    let (mut observation, parts) = match saved::from_option(invocation)? {
        Some(mut observation) => {
            allocation::add(invocation, &args.allocation.slurm, &mut observation)?;
            let parts = parts(&jobs, |name| job_name::in_observation(&observation, name))?;
            job_cgroups::narrow(&mut observation, &parts)?;
            (observation, parts)
        }
        None => {
            let parts = parts(&jobs, |name| job_name::live(invocation, name))?;
            (live(invocation, &parts)?, parts)
        }
    };
    activity_state::add(invocation, args.state.as_deref(), &mut observation)?;
    let mut payload =
        analyse::node(&observation, &allocation::granted(&args.allocation), &invocation.decoding)?;
    analyse::without_partial_jobs(&mut payload, |owner| {
        parts.iter().any(|part| part.step.is_none() && part.job.is(owner))
    });
    if let Some(activity) = payload.activity.as_deref_mut() {
        let is_its = |owner: &Owner| parts.iter().any(|part| part.job.is(owner));
        activity.totals.retain(|one| one.owner.as_ref().is_some_and(is_its));
    }
    invocation.answer(&observation, payload, render::jobs)
}

/// The jobs that are here, where none was named.
fn list(invocation: &mut Invocation<'_>, args: &JobArgs) -> Result<Exit, Failure> {
    let observation = node::whole(invocation, &args.allocation, args.state.as_deref())?;
    let node = analyse::node(&observation, &allocation::granted(&args.allocation), &invocation.decoding)?;
    let is_unknown = node.has_unknown();
    let NodeAnswer { gpus, gpus_unread, owners, activity, .. } = node;
    let mut owners = owners.unwrap_or_default();
    owners.retain(|row| row.owner.kind.is_job() && row.owner.is_workload());
    let answer = JobsAnswer { gpus, gpus_unread, owners, activity };
    invocation.answer_about(&observation, answer, is_unknown, render::jobs_here)
}

fn parts(
    jobs: &[AskedJob],
    number: impl Fn(&AskedName) -> Result<JobName, Failure>,
) -> Result<Vec<JobPart>, Failure> {
    jobs.iter().map(|asked| Ok(JobPart { job: number(&asked.job)?, step: asked.step.clone() })).collect()
}

fn live(invocation: &Invocation<'_>, parts: &[JobPart]) -> Result<Observation, Failure> {
    let names: Vec<JobName> = parts.iter().map(|part| part.job.clone()).collect();
    let mut observation = observe::jobs(&invocation.options(), &names)?;
    if parts.iter().any(|part| part.step.is_some()) {
        job_cgroups::narrow(&mut observation, parts)?;
    }
    Ok(observation)
}
