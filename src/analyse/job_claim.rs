//! Compares the job that a process's environment names with the job of its cgroup.
//!
//! A user can write any environment. So it is a hint and never a proof: a
//! difference is reported and decides nothing.

use crate::model::{JobIdSource, Owner};
use crate::observation::{Environment, Process};
use crate::owner::inner_job;
use crate::report::Claim;

use super::levels;

/// The claim of a process in the cgroup of `owner`; `None` if it makes none.
pub(super) fn of(process: &Process, owner: Option<&Owner>) -> Option<Claim> {
    let environment = process.detail.as_ref()?.at_exec.known()?;
    let job_id = job_id(environment);
    let sluid = text(environment, "SLURM_JOB_SLUID");
    if job_id.is_none() && sluid.is_none() {
        return None;
    }
    let step = text(environment, "SLURM_STEP_ID");
    let claim = Claim { job_id, step, sluid, ..Claim::default() };
    Some(match (owner.and_then(job), owner.and_then(inner_job)) {
        (Some(job), _) => compare(claim, job, environment),
        (None, Some(inner)) => Claim { inner: true, ..compare(claim, inner, environment) },
        (None, None) => Claim { outside: true, ..claim },
    })
}

/// The job number that an environment claims.
pub(super) fn job_id(environment: &Environment) -> Option<u64> {
    text(environment, "SLURM_JOB_ID")?.parse().ok()
}

/// The array task that a job is, if its processes agree on it. Those of other jobs are
/// left out.
pub(super) fn array_task(owner: &Owner, processes: &[&Process]) -> Option<String> {
    if !levels::is_job(owner) {
        return None;
    }
    let environments = processes.iter().filter_map(|process| process.detail.as_ref()?.at_exec.known());
    let own =
        environments.filter(|environment| owner.job_id.is_some() && job_id(environment) == owner.job_id);
    let mut named = own.map(|environment| {
        let number = |name| text(environment, name)?.parse::<u64>().ok();
        Some(format!("{}_{}", number("SLURM_ARRAY_JOB_ID")?, number("SLURM_ARRAY_TASK_ID")?))
    });
    let first = named.next()??;
    named.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// The innermost Slurm job among an owner and those around it.
pub(super) fn job(owner: &Owner) -> Option<&Owner> {
    let is_slurm = owner.kind.is_slurm();
    if is_slurm && (owner.job_id.is_some() || owner.sluid.is_some()) {
        Some(owner)
    } else {
        owner.outer.as_deref().and_then(job)
    }
}

fn compare(claim: Claim, job: &Owner, environment: &Environment) -> Claim {
    let same_number = claim.job_id.zip(job.job_id).map(|(claimed, own)| claimed == own);
    let same_sluid = claim.sluid.as_ref().zip(job.sluid.as_ref()).map(|(claimed, own)| claimed == own);
    // A number that was read off the same environment proves nothing.
    let circular = job.job_id_source == Some(JobIdSource::Environment);
    let agrees = same_sluid.or(if circular { None } else { same_number });
    let is_heterogeneous = text(environment, "SLURM_HET_SIZE").is_some();
    match agrees {
        Some(false) if is_heterogeneous => {
            let why = "a component of a heterogeneous job: its environment names the leader";
            Claim { agrees: None, why: Some(why.to_owned()), ..claim }
        }
        Some(false) => {
            let why = "its environment names another job than its cgroup";
            Claim { agrees, why: Some(why.to_owned()), ..claim }
        }
        _ => Claim { agrees, ..claim },
    }
}

fn text(environment: &Environment, name: &str) -> Option<String> {
    let variable = environment.get(name).filter(|variable| !variable.cut && !variable.value.is_empty())?;
    Some(variable.value.lossy().into_owned())
}
