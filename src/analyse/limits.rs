//! The answer of `gpumap vgpu`: limits of HAMi-core and SoftMig.

use crate::observation::Observation;
use crate::report::{MappedRegion, Payload, Process};
use crate::vgpu::Survey;

use super::allocated::CallerAllocation;
use super::error::AnalyseError;
use super::node::node;

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
