//! Limits of HAMi-core and SoftMig: those of one process, and the answer of
//! `gpumap vgpu`.

use crate::model::{DeviceType, Owner};
use crate::observation::{self, Observation};
use crate::report::{MappedRegion, Payload, Process, Vgpu};
use crate::vgpu::{Place, Survey, memory_of};

use super::joined_node::JoinedNode;
use super::{AnalyseError, CallerAllocation, node};

/// Major number of NVIDIA's devices.
const NVIDIA: u32 = 195;

/// What the libraries do for a process, of which `answer` says what it holds.
pub(super) fn of(process: &observation::Process, answer: &Process, join: &JoinedNode<'_>) -> Option<Vgpu> {
    let owner = join.owners.of(&process.cgroup);
    let mut around = std::iter::successors(owner, |owner: &&Owner| owner.outer.as_deref());
    let gpu_of = |uuid: &str| {
        let gpu = join.gpus.iter().find(|gpu| gpu.uuid.as_deref() == Some(uuid))?;
        Some((gpu.key.clone(), gpu.model.as_deref().and_then(memory_of)))
    };
    let place = Place {
        in_slurm_job: around.clone().any(|owner| owner.kind.is_slurm()),
        in_container: around.any(|owner| owner.kind.is_container()),
        uses_gpu: uses_gpu(process, answer),
        gpu_of: &gpu_of,
    };
    join.survey.of(process, place)
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

/// The answer of `gpumap vgpu` for everything in the observation's scope: the
/// processes that have or were meant to have limits, and the regions that they
/// map.
///
/// # Errors
///
/// As [`super::node()`].
pub fn limits(observation: &Observation) -> Result<Payload, AnalyseError> {
    let payload = node(observation, &CallerAllocation::default())?;
    let cgroups = payload.cgroups.into_iter().flatten();
    let processes: Vec<Process> =
        cgroups.flat_map(|cgroup| cgroup.processes).filter(|process| process.vgpu.is_some()).collect();
    let mapped = |dev, inode| {
        let regions = processes.iter().filter_map(|process| process.vgpu.as_ref()?.region.as_ref());
        regions.into_iter().any(|region| (region.dev, region.inode) == (dev, inode))
    };
    let survey = Survey::new(observation);
    let regions =
        observation.regions.iter().filter(|shared| mapped(shared.dev, shared.inode)).map(|shared| {
            let read = survey.region(shared.dev, shared.inode).unwrap_or(Err("it was not read"));
            MappedRegion {
                dev: shared.dev,
                inode: shared.inode,
                uid: shared.file.uid,
                mode: shared.file.mode,
                unread: read.err().map(str::to_owned),
                region: read.ok().cloned(),
            }
        });
    let regions = Some(regions.collect());
    Ok(Payload { regions, processes: Some(processes), gpus: payload.gpus, ..Payload::default() })
}
