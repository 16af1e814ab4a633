//! Reads allocations from environments: those of Slurm's hooks and those of a job's
//! processes.
//!
//! Prolog and Epilog run outside of the job's cgroup and get the node's own numbers
//! (prolog_epilog guide; `gres_common_prep_set_env`), since 25.11 UUIDs for NVIDIA.
//! In TaskProlog and in the job itself `CUDA_VISIBLE_DEVICES` is relative to the
//! cgroup, so it does not name GPUs of the node. srun inherits `SLURM_JOB_GPUS`, so
//! in a step on another node the variable holds the numbers of the batch node.

use super::resolve::{self, Numbering, is_uuid};
use crate::model::{AllocationSource, InOrder as _};
use crate::observation::{Environment, Variable};
use crate::report::{Gpu, GpuSet};
use crate::slurm_conf::short;

/// Variables with the job's GPUs in Prolog and Epilog, best first.
const GLOBAL: [&str; 3] = ["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "SLURM_JOB_GPUS"];

/// Which kind of process an environment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The job's on this node: certain in its batch script and where the job
    /// has one node; in a step elsewhere the value is the batch node's.
    Job,
    /// A batch or interactive step. Its variable is the job's, set on its own node.
    FirstStep,
    /// Any other step.
    Step,
}

/// What the hook environment says was allocated; `None` if it says nothing.
///
/// In Prolog and Epilog (`SLURM_SCRIPT_CONTEXT`) the visible devices are the
/// node's; a job without any GPU variable has none. Variables that contradict
/// each other make the set unknown.
pub fn of_hook(hook: &Environment, numbering: &Numbering, gpus: &[Gpu]) -> Option<GpuSet> {
    let set =
        match hook.get("SLURM_SCRIPT_CONTEXT").map(|variable| variable.value.lossy().into_owned()).as_deref()
        {
            Some("prolog_slurmd" | "epilog_slurmd") => node(hook, numbering, gpus),
            Some("prolog_task" | "epilog_task") => job(hook, numbering, gpus),
            Some(_) => None,
            None => hook.get("SLURM_JOB_GPUS").map(|variable| value(variable, numbering, gpus)),
        };
    set.map(|set| GpuSet { source: Some(AllocationSource::Hook), ..set })
}

/// The GPUs that a process's environment claims; `None` if it claims nothing.
pub fn of_claim(env: &Environment, of: Of, numbering: &Numbering, gpus: &[Gpu]) -> Option<GpuSet> {
    let set = match of {
        Of::Job => job(env, numbering, gpus),
        Of::FirstStep => own(env, "SLURM_JOB_GPUS", numbering, gpus),
        Of::Step => own(env, "SLURM_STEP_GPUS", numbering, gpus),
    };
    set.map(|set| GpuSet { source: Some(AllocationSource::Claimed), ..set })
}

fn value(variable: &Variable, numbering: &Numbering, gpus: &[Gpu]) -> GpuSet {
    if variable.cut {
        return resolve::unknown(format!("{} is longer than what was kept of it", variable.name), gpus);
    }
    resolve::list(&variable.value.lossy(), numbering, gpus)
}

/// Whether a set is known to the last GPU and instance.
fn exact(set: &GpuSet) -> bool {
    set.gpus.is_some() && set.why.is_empty()
}

/// Prolog and Epilog on the node.
fn node(hook: &Environment, numbering: &Numbering, gpus: &[Gpu]) -> Option<GpuSet> {
    if let Some(foreign) = foreign(hook, numbering, gpus) {
        return Some(foreign);
    }
    let mut said: Vec<(&Variable, GpuSet)> = GLOBAL
        .iter()
        .filter_map(|name| hook.get(name))
        .map(|one| (one, value(one, numbering, gpus)))
        .collect();
    // Slurm writes one form into each variable; UUIDs need no numbering.
    said.order_by_key(|(variable, _)| !is_uuid(&variable.value.lossy()));
    let known: Vec<_> = said.iter().filter(|(_, set)| exact(set)).collect();
    if let Some(pair) = known.windows(2).find(|pair| pair[0].1 != pair[1].1) {
        let why = format!("{} and {} do not name the same GPUs", pair[0].0.name, pair[1].0.name);
        return Some(resolve::unknown(why, gpus));
    }
    let best = known.first().map(|(_, set)| set.clone()).or_else(|| said.last().map(|(_, set)| set.clone()));
    best.or_else(|| none(hook, gpus))
}

/// No variable at all: Slurm (since about 20.11) removes them for a job
/// without GPUs. Certain only of a whole environment of a job's Prolog or
/// Epilog, and not for a job that shares GPUs by MPS or shards.
fn none(hook: &Environment, gpus: &[Gpu]) -> Option<GpuSet> {
    hook.get("SLURM_JOB_ID")?;
    let sharing = ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "SLURM_SHARDS_ON_NODE", "GPU_DEVICE_ORDINAL"];
    if let Some(name) = sharing.iter().find(|name| hook.get(name).is_some()) {
        return Some(resolve::unknown(format!("{name} is set, but nothing tells which GPUs"), gpus));
    }
    if let Some(why) = &hook.cut {
        return Some(resolve::unknown(why.clone(), gpus));
    }
    Some(GpuSet { gpus: Some(Vec::new()), ..GpuSet::default() })
}

/// A set of which nothing is known because Slurm's name of the environment's
/// node is not this node's.
fn foreign(env: &Environment, numbering: &Numbering, gpus: &[Gpu]) -> Option<GpuSet> {
    let node = env.get("SLURMD_NODENAME")?.value.lossy().into_owned();
    let known = &numbering.names;
    if known.is_empty() || known.contains(&node) {
        return None;
    }
    let why = format!("the environment is of node {}, this is {}", short(&node), known.join(" or "));
    Some(resolve::unknown(why, gpus))
}

/// The GPUs that a variable names which was set on the node of its process.
fn own(env: &Environment, name: &str, numbering: &Numbering, gpus: &[Gpu]) -> Option<GpuSet> {
    let variable = env.get(name)?;
    Some(foreign(env, numbering, gpus).unwrap_or_else(|| value(variable, numbering, gpus)))
}

/// The job's GPUs by its own environment: certain outside of steps (the batch
/// script), and where the job has one node. Else at least the step's GPUs are.
fn job(env: &Environment, numbering: &Numbering, gpus: &[Gpu]) -> Option<GpuSet> {
    let variable = env.get("SLURM_JOB_GPUS")?;
    if let Some(foreign) = foreign(env, numbering, gpus) {
        return Some(foreign);
    }
    let hook = env.get("SLURM_SCRIPT_CONTEXT").is_some();
    let in_step = hook || env.get("SLURM_STEP_ID").is_some() || env.get("SLURM_STEP_GPUS").is_some();
    let nodes = env.get("SLURM_JOB_NUM_NODES").map(|nodes| nodes.value.lossy().into_owned());
    let one_node = nodes.as_deref() == Some("1") && env.get("SLURM_HET_SIZE").is_none();
    if one_node || !in_step && env.cut.is_none() {
        return Some(value(variable, numbering, gpus));
    }
    let why = "srun hands on SLURM_JOB_GPUS from the node of the batch script, which may be another";
    let step = own(env, "SLURM_STEP_GPUS", numbering, gpus).and_then(|set| set.gpus).unwrap_or_default();
    let all = resolve::unknown(why.to_owned(), gpus);
    if step.is_empty() {
        return Some(all);
    }
    let unknown = all.unknown.into_iter().filter(|key| !step.contains(key)).collect();
    Some(GpuSet { gpus: Some(step), unknown, ..all })
}
