//! Limits of HAMi-core and SoftMig on one process.

use crate::model::{DeviceType, Owner, Verdict};
use crate::observation;
use crate::report::{Process, Vgpu};
use crate::vgpu::{ProcessContext, memory_of};

use super::gpu_verdicts::GpuVerdicts;
use super::joined_node::JoinedNode;

/// Major number of NVIDIA's devices.
const NVIDIA: u32 = 195;

/// What the libraries do for a process, of which `answer` says what it holds and `view`
/// which GPUs it may open, where that is known. The process itself can write UUIDs into
/// its region: one of a GPU that it may not open is taken for no GPU of the node.
pub(super) fn of(
    process: &observation::Process,
    answer: &Process,
    view: Option<&GpuVerdicts>,
    join: &JoinedNode<'_>,
) -> Option<Vgpu> {
    let owner = join.owners.of(&process.cgroup);
    let mut around = std::iter::successors(owner, |owner: &&Owner| owner.outer.as_deref());
    let gpu_of = |uuid: &str| {
        let gpu = join.gpus.iter().find(|gpu| gpu.uuid.as_deref() == Some(uuid))?;
        if view.is_some_and(|view| is_denied(&gpu.key, view)) && !holds(answer, &gpu.key) {
            return None;
        }
        Some((gpu.key.clone(), gpu.model.as_deref().and_then(memory_of)))
    };
    let place = ProcessContext {
        in_slurm_job: around.clone().any(|owner| owner.kind.is_slurm()),
        in_container: around.any(|owner| owner.kind.is_container()),
        uses_gpu: uses_gpu(process, answer),
        gpu_of: &gpu_of,
    };
    join.survey.of(process, place)
}

/// Whether neither a GPU nor any instance of it may be opened.
fn is_denied(gpu: &str, view: &GpuVerdicts) -> bool {
    let mut verdicts = view.verdicts.iter().filter(|verdict| *verdict.gpu == *gpu);
    verdicts.any(|verdict| {
        let instances = verdict.instances.iter().map(|instance| instance.verdict);
        instances.chain([verdict.verdict]).all(|verdict| verdict == Verdict::Deny)
    })
}

/// Whether it has a GPU or an instance of it open.
fn holds(process: &Process, gpu: &str) -> bool {
    process.held.iter().flatten().chain(&process.held_instances).any(|held| held.is_of(gpu))
}

/// Whether it has a GPU open, one that the inventory lacks too.
fn uses_gpu(process: &observation::Process, answer: &Process) -> Option<bool> {
    let devices = process.detail.as_ref()?.devices.known();
    let is_gpu = |device: &observation::HeldDevice| device.kind == DeviceType::Char && device.major == NVIDIA;
    if answer.held.as_ref().is_some_and(|held| !held.is_empty()) || devices?.iter().any(is_gpu) {
        return Some(true);
    }
    answer.held_unknown.is_none().then_some(false)
}
