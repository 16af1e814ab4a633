//! `gpumap job`: what jobs were allocated, may open, ask for and hold.

use super::files::{self, activity_state, saved};
use super::invocation::{Failure, Invocation};
use super::subject::allocation;
use super::subject::job::{self, JobPart};
use super::{node, own_access};
use crate::analyse::{self, CallerAllocation, CommandAnswer};
use crate::cli::{Exit, JobArgs};
use crate::model::{FailOn, Owner};
use crate::observation::Observation;
use crate::observe::{self, CgroupTarget};
use crate::owner::{AskedJob, AskedName, JobName};
use crate::report::{AuditAnswer, Finding, JobsAnswer, NodeAnswer};
use crate::{audit, render};

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &JobArgs) -> Result<Exit, Failure> {
    allocation::request(invocation, &args.allocation.slurm)?;
    if args.ids.is_empty() && !args.allocation.slurm.from_env {
        return list(invocation, args);
    }
    let jobs = job::all(&args.ids, args.allocation.slurm.from_env)?;
    let (mut whole, is_for_people) = (None, !invocation.global.json);
    let (mut observation, parts) = match saved::from_option(invocation)? {
        Some(mut observation) => {
            whole = is_for_people.then(|| observation.clone());
            let parts = parts(&jobs, |name| job::all_in_observation(&observation, name))?;
            job::narrow(&mut observation, &parts)?;
            (observation, parts)
        }
        None => {
            let parts = parts(&jobs, |name| job::all_live(invocation, name))?;
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
    own_access::add(invocation, &mut payload, |job, own| own.is_at_or_below(job));
    let found = if is_for_people { findings(invocation, whole, &parts)? } else { None };
    invocation.answer(&observation, payload, |out, style, payload| {
        render::jobs(out, style, payload)?;
        found.iter().try_for_each(|found| render::findings_in_short(out, style, found))
    })
}

/// What an audit of the whole node finds about these jobs; `None` where the node cannot be
/// observed: the answer about the jobs stands without it.
fn findings(
    invocation: &mut Invocation<'_>,
    saved: Option<Observation>,
    jobs: &[JobPart],
) -> Result<Option<AuditAnswer>, Failure> {
    invocation.wanted_facts.units = true;
    let whole = match saved {
        Some(whole) => whole,
        None => match observe::cgroups(&invocation.options(), &[CgroupTarget::all()]) {
            Ok(whole) => whole,
            Err(_) => return Ok(None),
        },
    };
    // A configuration that is malformed was told already.
    let config = files::config(invocation, None, None).map(|(config, _)| config).unwrap_or_default();
    let granted = CallerAllocation::default();
    let (mut found, _) = audit::audit_and_node(&whole, &granted, &config, &invocation.decoding)?;
    let is_about = |one: &Finding| {
        let mut owners = one.owner.iter().chain(&one.others);
        owners.any(|owner| jobs.iter().any(|part| part.job.is(owner)))
    };
    found.findings.retain(is_about);
    audit::judge(&mut found, FailOn::Never);
    Ok(Some(found))
}

/// The jobs that are here, where none was named.
fn list(invocation: &mut Invocation<'_>, args: &JobArgs) -> Result<Exit, Failure> {
    let observation = node::whole(invocation, args.state.as_deref())?;
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
    numbers: impl Fn(&AskedName) -> Result<Vec<JobName>, Failure>,
) -> Result<Vec<JobPart>, Failure> {
    let mut parts = Vec::new();
    for asked in jobs {
        let part = |job| JobPart { job, step: asked.step.clone() };
        parts.extend(numbers(&asked.job)?.into_iter().map(part));
    }
    Ok(parts)
}

fn live(invocation: &Invocation<'_>, parts: &[JobPart]) -> Result<Observation, Failure> {
    let names: Vec<JobName> = parts.iter().map(|part| part.job.clone()).collect();
    let mut observation = observe::jobs(&invocation.options(), &names)?;
    if parts.iter().any(|part| part.step.is_some()) {
        job::narrow(&mut observation, parts)?;
    }
    Ok(observation)
}
