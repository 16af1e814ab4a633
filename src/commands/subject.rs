//! Whose policy is asked about, with the observation that holds it.

use std::path::Path;

use super::job_scope::Part;
use super::programs::gather;
use super::{Failure, Session, job_name, job_scope, saved};
use crate::analyse::Subject;
use crate::cli::{Target, TargetArgs};
use crate::observation::{Observation, Text};
use crate::observe;

/// A policy's source.
pub(super) struct Source {
    /// The facts.
    pub observation: Observation,
    /// The cgroup or programs in it.
    pub subject: Subject,
}

/// Resolves the target options.
pub(super) fn resolve(session: &mut Session<'_>, args: &TargetArgs) -> Result<Source, Failure> {
    if let Target::Programs(sources) = args.target() {
        let gathered = gather(session, sources, args.maps.as_deref())?;
        return Ok(Source { observation: gathered.observation, subject: Subject::Programs(gathered.ids) });
    }
    match saved::from_option(session)? {
        Some(observation) => in_saved(observation, args.target()),
        None => live(session, args.target()),
    }
}

/// A cgroup of the live node.
pub(super) fn cgroup(session: &Session<'_>, path: &Path) -> Result<Source, Failure> {
    let target = observe::Target { path: path.to_owned(), recursive: false };
    let observation = observe::cgroups(&session.options(), &[target])?;
    let path = saved::only_cgroup(&observation, "the observation")?;
    Ok(Source { observation, subject: Subject::Cgroup(path) })
}

pub(super) fn live(session: &Session<'_>, target: Target<'_>) -> Result<Source, Failure> {
    let pid = match target {
        Target::Cgroup(path) => return cgroup(session, path),
        Target::Job(id) => return job(session, id),
        Target::Pid(pid) => pid,
        Target::Own | Target::Programs(_) => std::process::id(),
    };
    let options = session.options();
    let process = observe::Pinned::new(&options, pid)?;
    let path = process.cgroup(&options)?;
    let source = cgroup(session, &path)?;
    process.still_in(&options, &path)?;
    Ok(source)
}

pub(super) fn job(session: &Session<'_>, id: &str) -> Result<Source, Failure> {
    let asked = job_name::parse(id)?;
    let name = job_name::live(session, &asked.job)?;
    let observation = observe::jobs(&session.options(), std::slice::from_ref(&name))?;
    let path = job_scope::only(&observation, &Part { job: name, step: asked.step })?;
    Ok(Source { observation, subject: Subject::Cgroup(path) })
}

fn job_in_saved(observation: &Observation, id: &str) -> Result<Text, Failure> {
    let asked = job_name::parse(id)?;
    let job = job_name::in_observation(observation, &asked.job)?;
    job_scope::only(observation, &Part { job, step: asked.step })
}

pub(super) fn in_saved(observation: Observation, target: Target<'_>) -> Result<Source, Failure> {
    let path = match target {
        Target::Cgroup(path) => saved::find(&observation, path)?,
        Target::Pid(pid) => saved::cgroup_of_pid(&observation, pid)?,
        Target::Job(id) => job_in_saved(&observation, id)?,
        Target::Own | Target::Programs(_) => saved::only_cgroup(&observation, "the saved observation")?,
    };
    Ok(Source { observation, subject: Subject::Cgroup(path) })
}
