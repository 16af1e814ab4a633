//! `gpumap vgpu`: limits of libvgpu.so and SoftMig, and whether they are in
//! force.

use std::path::Path;

use super::files::{self, saved};
use super::invocation::{Failure, Invocation, cgroup_paths, envelope};
use super::subject::job::{self, JobPart};
use crate::cli::{Exit, VgpuArgs};
use crate::model::{ProblemCode, RegionLayout};
use crate::observation::{Observation, Problem, Scope, SharedRegion};
use crate::observe::{self, CgroupTarget};
use crate::report::RegionAnswer;
use crate::{analyse, render, vgpu};

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &VgpuArgs) -> Result<Exit, Failure> {
    if let Some(region) = &args.region {
        return one_region(invocation, region);
    }
    invocation.wanted_facts.detail = true;
    let observation = match saved::from_option(invocation)? {
        Some(observation) => narrow(observation, args)?,
        None => live(invocation, args)?,
    };
    let payload = analyse::limits(&observation, &invocation.decoding)?;
    let counted = payload.processes.iter().filter_map(|process| process.vgpu.as_ref());
    // A process that was named counts, whether or not it uses a GPU.
    let counted = counted.filter(|limits| args.pid.is_some() || limits.may_use_gpu());
    let (broken, unknown) = counted.fold((false, false), |(broken, unknown), limits| {
        (broken || limits.is_broken(), unknown || limits.is_unknown())
    });
    let exit = invocation.answer(&observation, payload, render::limits)?;
    Ok(match (broken, unknown) {
        (true, _) => Exit::No,
        (false, true) => Exit::Incomplete,
        (false, false) => exit,
    })
}

/// Observes what was asked about.
fn live(invocation: &Invocation<'_>, args: &VgpuArgs) -> Result<Observation, Failure> {
    let options = invocation.options();
    if let Some(pid) = args.pid {
        return one_process(&options, pid);
    }
    if let Some(job) = &args.job {
        let asked = job::parse(job)?;
        let part = JobPart { job: job::live(invocation, &asked.job)?, step: asked.step };
        let mut observation = observe::jobs(&options, std::slice::from_ref(&part.job))?;
        job::narrow(&mut observation, &[part])?;
        return Ok(observation);
    }
    let path = args.cgroup.as_deref().unwrap_or_else(|| Path::new("/"));
    cgroup_paths::observe(invocation, &[path], true)
}

/// Observes a process, and those of its cgroup: who shares its region matters
/// too. What cannot be seen of the others is no fault of this answer.
fn one_process(options: &observe::Options, pid: u32) -> Result<Observation, Failure> {
    let mut observation = observe::processes(options, &[pid])?;
    let targets = observation.processes.iter().map(|process| CgroupTarget::observed(&process.cgroup, false));
    let Ok(around) = observe::cgroups(options, &targets.collect::<Vec<_>>()) else { return Ok(observation) };
    observation.processes.extend(around.processes.into_iter().filter(|process| process.pid != pid));
    for region in around.regions {
        let is_same = |known: &SharedRegion| (known.dev, known.inode) == (region.dev, region.inode);
        if !observation.regions.iter().any(is_same) {
            observation.regions.push(region);
        }
    }
    Ok(observation)
}

/// Narrows a saved observation to what was asked about.
fn narrow(mut observation: Observation, args: &VgpuArgs) -> Result<Observation, Failure> {
    if let Some(job) = &args.job {
        let asked = job::parse(job)?;
        let part = JobPart { job: job::in_observation(&observation, &asked.job)?, step: asked.step };
        job::narrow(&mut observation, &[part])?;
    } else if let Some(pid) = args.pid {
        let path = saved::cgroup_of_pid(&observation, pid)?;
        observation.scope = vec![Scope { path, recursive: false }];
        observation.pids = vec![pid];
    } else if let Some(path) = &args.cgroup {
        let path = saved::find(&observation, path)?;
        observation.scope = vec![Scope { path, recursive: true }];
    }
    Ok(observation)
}

/// Reads a shared region by itself.
fn one_region(invocation: &mut Invocation<'_>, path: &Path) -> Result<Exit, Failure> {
    let file = files::read(invocation, path)?;
    let region = vgpu::read(&file);
    let mut observation = envelope::blank();
    let needs = match region.layout {
        RegionLayout::Mixed => "end the container's processes and remove the file: they make it anew",
        RegionLayout::Unknown => "name a shared region that HAMi-core or SoftMig has written",
        _ => "",
    };
    if !needs.is_empty() {
        observation.errors.push(Problem {
            code: ProblemCode::Layout,
            what: files::name(path),
            why: region.why.clone().unwrap_or_default(),
            needs: needs.to_owned(),
        });
    }
    invocation.answer(&observation, RegionAnswer { region }, render::region)
}
