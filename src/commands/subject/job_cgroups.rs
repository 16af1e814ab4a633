//! Finds the cgroups of a job or step in an observation.

use std::collections::BTreeSet;

use super::job_name;
use crate::commands::invocation::Failure;
use crate::model::{CgroupPath, ProblemCode};
use crate::observation::{Observation, Scope, Text};
use crate::owner::{AskedStep, Directory, JobName};

/// Steps that a message names.
const STEPS_NAMED: usize = 16;

/// A job with the step that is meant, if one is.
pub(crate) struct JobPart {
    /// The job.
    pub job: JobName,
    /// Its step.
    pub step: Option<AskedStep>,
}

/// Narrows the scope to jobs or steps: their cgroups with everything below.
pub(crate) fn narrow(observation: &mut Observation, parts: &[JobPart]) -> Result<(), Failure> {
    let directory = Directory::new(observation);
    let mut scope = Vec::new();
    for part in parts {
        scope.extend(tops(observation, &directory, part)?.into_iter().map(|path| {
            let path = path.clone();
            Scope { path, recursive: true }
        }));
    }
    observation.scope = scope;
    Ok(())
}

/// The one cgroup that is a job's own, or that holds what a step starts.
pub(crate) fn only(observation: &Observation, part: &JobPart) -> Result<Text, Failure> {
    let directory = Directory::new(observation);
    match tops(observation, &directory, part)?.as_slice() {
        [path] => Ok(started_in(observation, path, part)),
        several => {
            let why = format!("has {} cgroups here", several.len());
            let paths: Vec<_> = several.iter().map(|path| path.lossy()).collect();
            let needs = format!("name one with --cgroup: {}", paths.join(", "));
            Err(Failure::new(ProblemCode::WhichCgroup, text(part), why, &needs))
        }
    }
}

/// Slurm's daemon of a step is in `step_N/slurm`, and what the step starts in
/// `step_N/user`, where the step's own rules are.
fn started_in(observation: &Observation, path: &Text, part: &JobPart) -> Text {
    let user = Text::from([path.as_bytes(), b"/user"].concat());
    let is_there = observation.cgroups.iter().any(|cgroup| cgroup.path == user);
    if part.step.is_some() && is_there { user } else { path.clone() }
}

/// The part in words, for messages.
fn text(part: &JobPart) -> String {
    let step = part.step.as_ref().map(|step| format!(".{step}")).unwrap_or_default();
    job_name::text(&part.job) + &step
}

/// The topmost cgroups of a job or step: below them everything is its own.
fn tops<'a>(
    observation: &'a Observation,
    directory: &Directory,
    part: &JobPart,
) -> Result<Vec<&'a Text>, Failure> {
    let paths = observation.cgroups.iter().map(|cgroup| &cgroup.path);
    let is_its = |path: &&Text| {
        directory.of(path).is_some_and(|owner| match &part.step {
            Some(step) => step.is(&part.job, owner),
            None => part.job.is(owner),
        })
    };
    let mut tops: Vec<&Text> = Vec::new();
    for path in paths.filter(is_its) {
        if !tops.iter().any(|top| is_inside(path, top)) {
            tops.retain(|top| !is_inside(top, path));
            tops.push(path);
        }
    }
    if tops.is_empty() {
        let needs = match part.step {
            Some(_) => here(observation, directory, &part.job),
            None => "gpumap job shows which jobs there are".to_owned(),
        };
        return Err(Failure::new(ProblemCode::NoJob, text(part), "has no cgroup here", &needs));
    }
    Ok(tops)
}

/// The steps that a job has here, in words.
fn here(observation: &Observation, directory: &Directory, job: &JobName) -> String {
    let owners = observation.cgroups.iter().filter_map(|cgroup| directory.of(&cgroup.path));
    let steps: BTreeSet<&str> =
        owners.filter(|owner| job.is(owner)).filter_map(|owner| owner.step.as_deref()).collect();
    let steps: Vec<&str> = steps.into_iter().take(STEPS_NAMED).collect();
    match steps.is_empty() {
        true => format!("{} has no step here", job_name::text(job)),
        false => format!("{} has these steps here: {}", job_name::text(job), steps.join(", ")),
    }
}

fn is_inside(path: &Text, top: &Text) -> bool {
    CgroupPath::new(path).is_below(CgroupPath::new(top))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a job that is not there is a failure with its name.
    #[test]
    fn no_such_job() {
        let job = JobPart { job: JobName::Number(4711), step: None };
        let failure = narrow(&mut Observation::default(), std::slice::from_ref(&job)).unwrap_err();
        assert!(failure.to_string().starts_with("job 4711: has no cgroup here"), "{failure}");
        assert!(only(&Observation::default(), &job).is_err());
    }
}
