//! Finds owners that share a GPU on purpose: by MIG, MPS or shards. Two owners that
//! may open one GPU are no fault then.

use crate::model::SharingMode;
use crate::observation::{Environment, Process};
use crate::report::{Gpu, OwnerSets};

/// How an owner shares its GPUs: `mig`, `mps`, `shard`.
pub(super) fn of(sets: &OwnerSets, processes: &[&Process], gpus: &[Gpu]) -> Vec<SharingMode> {
    let says = |name: &str| environments(processes).any(|environment| environment.get(name).is_some());
    let all = [
        (SharingMode::Mig, uses_instances(sets, gpus)),
        (
            SharingMode::Mps,
            says("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") || processes.iter().any(|one| is_mps(one)),
        ),
        (SharingMode::Shard, says("SLURM_SHARDS_ON_NODE")),
    ];
    all.into_iter().filter(|(_, shares)| *shares).map(|(mode, _)| mode).collect()
}

fn environments<'a>(processes: &[&'a Process]) -> impl Iterator<Item = &'a Environment> {
    let details = processes.iter().filter_map(|process| process.detail.as_ref());
    details.filter_map(|detail| detail.at_exec.known())
}

/// Whether it may open some of the instances of a GPU and not all of them, or
/// was allocated or holds instances.
fn uses_instances(sets: &OwnerSets, gpus: &[Gpu]) -> bool {
    let total: usize = gpus.iter().map(|gpu| gpu.mig.len()).sum();
    let allowed = sets.allowed.instances.len();
    let named = [&sets.allocated, &sets.visible, &sets.held];
    (allowed > 0 && allowed < total) || named.iter().any(|set| !set.instances.is_empty())
}

/// `nvidia-cuda-mps-server` owns the context of all its clients. A command name has
/// 15 characters.
fn is_mps(process: &Process) -> bool {
    process.comm.as_bytes() == b"nvidia-cuda-mps"
}
