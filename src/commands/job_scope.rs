//! Jobs in an observation: which of its cgroups are theirs.

use super::{Failure, job_name};
use crate::observation::{Observation, Scope, Text};
use crate::owner::{Directory, JobName};

/// Narrows the scope to jobs: their cgroups with everything below.
pub(super) fn narrow(observation: &mut Observation, jobs: &[JobName]) -> Result<(), Failure> {
    let directory = Directory::new(observation);
    let mut scope = Vec::new();
    for job in jobs {
        scope.extend(tops(observation, &directory, job)?.into_iter().map(|path| {
            let path = path.clone();
            Scope { path, recursive: true }
        }));
    }
    observation.scope = scope;
    Ok(())
}

/// The one cgroup that is a job's own.
pub(super) fn only(observation: &Observation, job: &JobName) -> Result<Text, Failure> {
    let directory = Directory::new(observation);
    match tops(observation, &directory, job)?.as_slice() {
        [path] => Ok((*path).clone()),
        several => {
            let why = format!("has {} cgroups here", several.len());
            let paths: Vec<_> = several.iter().map(|path| path.lossy()).collect();
            let needs = format!("name one with --cgroup: {}", paths.join(", "));
            Err(Failure::new("which-cgroup", job_name::text(job), why, &needs))
        }
    }
}

/// The topmost cgroups of a job: below them everything is the job's.
fn tops<'a>(
    observation: &'a Observation,
    directory: &Directory,
    job: &JobName,
) -> Result<Vec<&'a Text>, Failure> {
    let paths = observation.cgroups.iter().map(|cgroup| &cgroup.path);
    let is_its = |path: &&Text| directory.of(path).is_some_and(|owner| job.is(owner));
    let mut tops: Vec<&Text> = Vec::new();
    for path in paths.filter(is_its) {
        if !tops.iter().any(|top| is_below(path, top)) {
            tops.retain(|top| !is_below(top, path));
            tops.push(path);
        }
    }
    if tops.is_empty() {
        let needs = "gpumap node shows which jobs there are";
        return Err(Failure::new("no-job", job_name::text(job), "has no cgroup here", needs));
    }
    Ok(tops)
}

fn is_below(path: &Text, top: &Text) -> bool {
    let rest = path.as_bytes().strip_prefix(top.as_bytes());
    top.as_bytes() == b"/" || rest.is_some_and(|rest| rest.first() == Some(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a name which only starts alike is not below.
    #[test]
    fn below() {
        let text = |text: &str| Text::from(text);
        assert!(is_below(&text("/job_1/step_0"), &text("/job_1")));
        assert!(!is_below(&text("/job_10"), &text("/job_1")));
        assert!(!is_below(&text("/job_1"), &text("/job_1")));
        assert!(is_below(&text("/job_1"), &text("/")));
    }

    /// Make sure that a job that is not there is a failure with its name.
    #[test]
    fn no_such_job() {
        let job = JobName::Number(4711);
        let failure = narrow(&mut Observation::default(), std::slice::from_ref(&job)).unwrap_err();
        assert!(failure.to_string().starts_with("job 4711: has no cgroup here"), "{failure}");
        assert!(only(&Observation::default(), &job).is_err());
    }
}
