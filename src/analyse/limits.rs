//! The answer of `gpumap vgpu`: limits of HAMi-core and SoftMig, and those on one process.

use super::error::AnalyseError;
use super::gpu_verdicts::GpuVerdicts;
use super::joined_node::{JoinedNode, by_cgroup, in_scope};
use super::processes::Processes;
use super::{processes, scope};
use crate::model::{DeviceType, InstanceKey, Owner, Verdict};
use crate::observation;
use crate::observation::Observation;
use crate::policy::TimeLimit;
use crate::report::{Cgroup, Gpu, MappedRegion, Payload, Process, Vgpu};
use crate::vgpu::{ProcessContext, Survey, memory_of};

/// The answer of `gpumap vgpu` for everything in the observation's scope: the
/// processes that have or were meant to have limits, and the regions that they
/// map.
///
/// # Errors
///
/// As [`super::node()`].
pub fn limits(observation: &Observation, limit: &TimeLimit) -> Result<Payload, AnalyseError> {
    let (processes, gpus) = concerned(observation, limit)?;
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
    Ok(Payload { regions, processes: Some(processes), gpus: Some(gpus), ..Payload::default() })
}

/// The processes that have to do with the libraries, and the GPUs. Policies are
/// decoded for these alone: on a node of many programs that takes seconds.
fn concerned(observation: &Observation, limit: &TimeLimit) -> Result<(Vec<Process>, Vec<Gpu>), AnalyseError> {
    let mut join = JoinedNode::new(observation, limit);
    scope::number(&mut join);
    let mut processes = Processes::default();
    let inside = by_cgroup(observation);
    let mut cgroups = Vec::new();
    for cgroup in in_scope(observation)? {
        let inside = inside.get(&cgroup.path).map(Vec::as_slice).unwrap_or_default();
        let is_concerned = |process: &&&observation::Process| {
            of(process, &processes::holding(process, &join), None, &join).is_some()
        };
        let concerned: Vec<_> = inside.iter().filter(is_concerned).copied().collect();
        let processes: Vec<Process> =
            concerned.into_iter().map(|process| processes.report(process, &mut join)).collect();
        if !processes.is_empty() {
            cgroups.push(Cgroup { processes, ..Cgroup::default() });
        }
    }
    scope::asked_cgroups(observation, &mut cgroups);
    Ok((cgroups.into_iter().flat_map(|cgroup| cgroup.processes).collect(), join.gpus))
}

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
    let mut verdicts = view.verdicts.iter().filter(|verdict| verdict.gpu == gpu);
    verdicts.any(|verdict| {
        let instances = verdict.instances.iter().map(|instance| instance.verdict);
        instances.chain([verdict.verdict]).all(|verdict| verdict == Verdict::Deny)
    })
}

/// Whether it has a GPU or an instance of it open.
fn holds(process: &Process, gpu: &str) -> bool {
    let is_part = |instance: &String| InstanceKey::is_on(instance, gpu);
    process.held.iter().flatten().any(|held| held == gpu) || process.held_instances.iter().any(is_part)
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
