//! Finds owners that share a GPU on purpose: by MIG, MPS, shards or interception.
//! Two owners that may open one GPU are no fault then.

use crate::model::SharingMode;
use crate::observation::{Environment, Process};
use crate::report::{Gpu, OwnerSets};

/// How an owner shares its GPUs: `mig`, `mps`, `shard`, `interception`.
pub(super) fn of(sets: &OwnerSets, processes: &[&Process], gpus: &[Gpu]) -> Vec<SharingMode> {
    let says = |name: &str| environments(processes).any(|environment| environment.get(name).is_some());
    let all = [
        (SharingMode::Mig, uses_instances(sets, gpus)),
        (
            SharingMode::Mps,
            says("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") || processes.iter().any(|one| is_mps(one)),
        ),
        (SharingMode::Shard, says("SLURM_SHARDS_ON_NODE")),
        (SharingMode::Interception, processes.iter().any(|one| is_intercepted(one))),
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

/// Whether it has root's library of HAMi-core or SoftMig loaded, which is put
/// between processes that share a GPU and the driver.
fn is_intercepted(process: &Process) -> bool {
    let traces = process.detail.as_ref().and_then(|detail| detail.vgpu.as_ref());
    let mut libraries = traces.into_iter().flat_map(|traces| &traces.libraries);
    libraries.any(|library| {
        let is_roots = library.file.known().is_some_and(|file| file.uid == 0 && file.mode & 0o002 == 0);
        library.executable && is_roots
    })
}

/// `nvidia-cuda-mps-server` owns the context of all its clients. A command name has
/// 15 characters.
fn is_mps(process: &Process) -> bool {
    process.comm.as_bytes() == b"nvidia-cuda-mps"
}
