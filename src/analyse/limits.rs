//! The answer of `gpumap vgpu`: limits of HAMi-core and SoftMig.

use super::joined_node::{JoinedNode, by_cgroup, in_scope};
use super::processes::{self, Processes};
use super::scope;
use super::subject::AnalyseError;
use crate::observation::{self, Observation};
use crate::policy::TimeLimit;
use crate::report::{Cgroup, Gpu, MappedRegion, Process, VgpuAnswer};
use crate::vgpu::Survey;

/// The answer of `gpumap vgpu` for everything in the observation's scope: the
/// processes that have or were meant to have limits, and the regions that they
/// map.
///
/// # Errors
///
/// As [`super::node()`].
pub fn limits(observation: &Observation, limit: &TimeLimit) -> Result<VgpuAnswer, AnalyseError> {
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
    let regions = regions.collect();
    Ok(VgpuAnswer { gpus, processes, regions })
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
            processes::limits_of(process, &processes::holding(process, &join), None, &join).is_some()
        };
        let concerned: Vec<_> = inside.iter().filter(is_concerned).copied().collect();
        let processes: Vec<Process> =
            concerned.into_iter().map(|process| processes.report(process, &mut join)).collect();
        if !processes.is_empty() {
            cgroups.push(Cgroup { processes, ..Cgroup::default() });
        }
    }
    scope::sort_cgroups(observation, &mut cgroups);
    Ok((cgroups.into_iter().flat_map(|cgroup| cgroup.processes).collect(), join.gpus))
}
