//! The subject of a question: from what the user named (a cgroup, a process, a
//! job, programs, devices) to the observation that holds it.

pub(crate) mod allocation;
pub(crate) mod devices;
pub(crate) mod job;
pub(crate) mod programs;

use std::path::Path;

use job::JobPart;
use programs::gather;

use crate::analyse::Subject;
use crate::cli::{PolicyTarget, TargetArgs};
use crate::commands::files::saved;
use crate::commands::invocation::{Failure, Invocation, cgroup_paths};
use crate::observation::{Observation, Text};
use crate::observe::{self, CgroupTarget};

/// A policy's source.
pub(crate) struct Resolved {
    /// The facts.
    pub observation: Observation,
    /// The cgroup or programs in it.
    pub subject: Subject,
}

/// Resolves the target options.
pub(crate) fn resolve(invocation: &mut Invocation<'_>, args: &TargetArgs) -> Result<Resolved, Failure> {
    if let PolicyTarget::Programs(sources) = args.target() {
        let gathered = gather(invocation, sources, args.maps.as_deref())?;
        return Ok(Resolved { observation: gathered.observation, subject: Subject::Programs(gathered.ids) });
    }
    match saved::from_option(invocation)? {
        Some(observation) => in_saved(observation, args.target()),
        None => live(invocation, args.target()),
    }
}

/// A cgroup of the live node.
pub(crate) fn cgroup(invocation: &Invocation<'_>, path: &Path) -> Result<Resolved, Failure> {
    let observation = cgroup_paths::observe(invocation, &[path], false)?;
    let path = saved::only_cgroup(&observation, "the observation")?;
    Ok(Resolved { observation, subject: Subject::Cgroup(path) })
}

pub(crate) fn live(invocation: &Invocation<'_>, target: PolicyTarget<'_>) -> Result<Resolved, Failure> {
    let pid = match target {
        PolicyTarget::Cgroup(path) => return cgroup(invocation, path),
        PolicyTarget::Job(id) => return job(invocation, id),
        PolicyTarget::Pid(pid) => pid,
        PolicyTarget::Own | PolicyTarget::Programs(_) => std::process::id(),
    };
    let options = invocation.options();
    let process = observe::LocatedProcess::new(&options, pid)?;
    let path = process.cgroup(&options)?;
    let observation = observe::cgroups(&options, &[CgroupTarget::observed(&path, false)])?;
    process.still_in(&options, &path)?;
    process.has_one_policy(&options)?;
    Ok(Resolved { observation, subject: Subject::Cgroup(path.into()) })
}

pub(crate) fn job(invocation: &Invocation<'_>, id: &str) -> Result<Resolved, Failure> {
    let asked = job::parse(id)?;
    let name = job::live(invocation, &asked.job)?;
    let observation = observe::jobs(&invocation.options(), std::slice::from_ref(&name))?;
    let path = job::only(&observation, &JobPart { job: name, step: asked.step })?;
    Ok(Resolved { observation, subject: Subject::Cgroup(path) })
}

fn job_in_saved(observation: &Observation, id: &str) -> Result<Text, Failure> {
    let asked = job::parse(id)?;
    let job = job::in_observation(observation, &asked.job)?;
    job::only(observation, &JobPart { job, step: asked.step })
}

pub(crate) fn in_saved(observation: Observation, target: PolicyTarget<'_>) -> Result<Resolved, Failure> {
    let path = match target {
        PolicyTarget::Cgroup(path) => saved::find(&observation, path)?,
        PolicyTarget::Pid(pid) => saved::cgroup_of_pid(&observation, pid)?,
        PolicyTarget::Job(id) => job_in_saved(&observation, id)?,
        PolicyTarget::Own | PolicyTarget::Programs(_) => {
            saved::only_cgroup(&observation, "the saved observation")?
        }
    };
    Ok(Resolved { observation, subject: Subject::Cgroup(path) })
}
