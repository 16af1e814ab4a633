//! Finds the GPUs that an owner was allocated, as a Slurm hook, the caller or the
//! job's own processes say. They are never inferred from what is allowed.

use super::joined_node::JoinedNode;
use super::levels::{is_job, is_step, is_task};
use super::processes::job_id;
use super::subject::AnalyseError;
use crate::allocation::{Numbering, Of, caller_list, of_claim, of_hook};
use crate::model::Owner;
use crate::observation::{Environment, Observation, Process};
use crate::report::GpuSet;

/// The allocation that the caller names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerAllocation {
    /// `--allocated`: a list of GPUs.
    pub list: Option<String>,
}

/// The sources of an allocation besides processes: the caller and a hook.
#[derive(Debug, Default)]
pub(super) struct KnownAllocation<'a> {
    /// `--allocated`, resolved; it is the one job's that was asked about.
    pub(super) given: Option<GpuSet>,
    /// The environment of the hook that gpumap runs in.
    pub(super) hook: Option<&'a Environment>,
}

/// The source of the allocation, if it is better than claims of processes.
pub(super) fn source<'a>(
    observation: &'a Observation,
    granted: &CallerAllocation,
    numbering: &Numbering,
    join: &JoinedNode<'_>,
) -> Result<KnownAllocation<'a>, AnalyseError> {
    let list = granted.list.as_deref();
    let given = list.map(|list| caller_list(list, numbering, &join.gpus)).transpose();
    Ok(KnownAllocation {
        given: given.map_err(AnalyseError::Allocated)?,
        hook: observation.slurm.hook.as_ref(),
    })
}

/// The GPUs that were allocated to an owner with these processes.
pub(super) fn of(
    owner: &Owner,
    processes: &[&Process],
    join: &JoinedNode<'_>,
    numbering: &Numbering,
    source: &KnownAllocation<'_>,
) -> GpuSet {
    let mut set = told(owner, processes, join, numbering, source);
    if set.gpus.is_some() {
        set.why.extend(numbering.assumes().map(str::to_owned));
    }
    set
}

fn told(
    owner: &Owner,
    processes: &[&Process],
    join: &JoinedNode<'_>,
    numbering: &Numbering,
    source: &KnownAllocation<'_>,
) -> GpuSet {
    if is_job(owner) {
        if let Some(given) = &source.given {
            return given.clone();
        }
        let hook = source.hook.filter(|hook| is_of(hook, owner));
        if let Some(set) = hook.and_then(|hook| of_hook(hook, numbering, &join.gpus)) {
            return set;
        }
        claimed(owner, processes, Of::Job, join, numbering)
    } else if is_step(owner) {
        claimed(owner, processes, of_step(owner), join, numbering)
    } else if is_task(owner) {
        unknown("Slurm tells the GPUs of a job and of a step, not those of a task")
    } else {
        unknown("no scheduler that gpumap can ask allocates to it")
    }
}

/// Whether a hook's environment is about this job.
fn is_of(hook: &Environment, owner: &Owner) -> bool {
    let sluid = hook.get("SLURM_JOB_SLUID").map(|variable| variable.value.lossy().into_owned());
    let same_sluid = sluid.is_some() && sluid == owner.sluid;
    same_sluid || (owner.job_id.is_some() && job_id(hook) == owner.job_id)
}

/// Where the environment of a step names the step's GPUs: the batch script and
/// salloc's interactive step have the job's own variable and no other.
fn of_step(owner: &Owner) -> Of {
    match owner.step.as_deref() {
        Some("batch" | "interactive") => Of::FirstStep,
        _ => Of::Step,
    }
}

/// Whether the environment belongs to a component of a heterogeneous job. It names
/// the leader's job, but the GPUs of its step are its own.
fn is_component(environment: &Environment, owner: &Owner) -> bool {
    let step = environment.get("SLURM_STEP_ID").map(|variable| variable.value.lossy().into_owned());
    is_step(owner) && environment.get("SLURM_HET_SIZE").is_some() && step.is_some() && step == owner.step
}

/// The allocation that the processes claim for their own job, if they agree.
fn claimed(
    owner: &Owner,
    processes: &[&Process],
    of: Of,
    join: &JoinedNode<'_>,
    numbering: &Numbering,
) -> GpuSet {
    let environments = processes.iter().filter_map(|process| process.detail.as_ref()?.at_exec.known());
    let own =
        environments.filter(|environment| is_of(environment, owner) || is_component(environment, owner));
    let mut claims: Vec<GpuSet> =
        own.filter_map(|environment| of_claim(environment, of, numbering, &join.gpus)).collect();
    claims.dedup();
    match claims.as_slice() {
        [] => unknown(silence(processes)),
        [one] => one.clone(),
        _ => unknown("its processes name different GPUs as allocated"),
    }
}

/// Why no process says it.
fn silence(processes: &[&Process]) -> &'static str {
    let details = || processes.iter().map(|process| process.detail.as_ref());
    if processes.is_empty() {
        "it has no process whose environment could say it"
    } else if details().all(|detail| detail.is_none()) {
        "nobody looked into its processes"
    } else if details().flatten().all(|detail| detail.at_exec.known().is_none()) {
        "the environments of its processes, which say it, could not be read"
    } else {
        "no environment of its processes says it (SLURM_JOB_GPUS, SLURM_STEP_GPUS)"
    }
}

fn unknown(why: &str) -> GpuSet {
    GpuSet { why: vec![why.to_owned()], ..GpuSet::default() }
}
