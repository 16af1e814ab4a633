//! Jobs as the subject: their names, as the user writes them and as Slurm gives them to its
//! hooks, and the cgroups of a job or step in an observation.

use std::collections::BTreeSet;
use std::env;

use crate::commands::invocation::{Failure, Invocation};
use crate::model::{CgroupPath, ProblemCode, is_id};
use crate::observation::{Observation, Scope, Text};
use crate::observe::{self, JobHook};
use crate::owner::{AskedJob, AskedName, AskedStep, Directory, JobName};
use crate::render;

/// The jobs and steps named on the command line; with `from_env` and no name,
/// the job of the hook.
pub(crate) fn all(ids: &[String], from_env: bool) -> Result<Vec<AskedJob>, Failure> {
    match ids {
        [] if from_env => Ok(vec![AskedJob { job: AskedName::Own(of_hook()?), step: None }]),
        ids => ids.iter().flat_map(|ids| split(ids)).map(parse).collect(),
    }
}

/// The names between commas; those within brackets are of one name (`7_[3,9]`).
fn split(ids: &str) -> Vec<&str> {
    let mut within = false;
    let is_between = |letter: char| {
        within = letter == '[' || within && letter != ']';
        letter == ',' && !within
    };
    ids.split(is_between).collect()
}

/// The one job that is meant. In a hook no other can be named, because the
/// allocation and the user would still be the hook's.
pub(crate) fn one(invocation: &Invocation<'_>, id: Option<&str>, from_env: bool) -> Result<JobName, Failure> {
    let named = id.map(parse).transpose()?;
    if let Some(AskedJob { step: Some(_), .. }) = &named {
        let what = format!("'{}'", id.unwrap_or_default());
        return Err(Failure::new(ProblemCode::Usage, what, "is a step", "name the whole job"));
    }
    let hook = if from_env { Some(of_hook()?) } else { None };
    match (named.map(|named| named.job), hook) {
        (Some(AskedName::Own(JobName::Number(named))), Some(hook)) if hook != JobName::Number(named) => {
            let why = "names another job than SLURM_JOB_ID, which --from-env takes";
            Err(Failure::new(ProblemCode::Usage, format!("--job {named}"), why, "leave out one of the two"))
        }
        (_, Some(hook)) => Ok(hook),
        (Some(named), None) => live(invocation, &named),
        (None, None) => {
            Err(Failure::new(ProblemCode::Usage, "", "no job was named", "name one with --job ID"))
        }
    }
}

/// A job's or a step's name.
pub(crate) fn parse(id: &str) -> Result<AskedJob, Failure> {
    AskedJob::parse(id).ok_or_else(|| {
        if is_id(id.as_bytes()) {
            let needs = format!("gpumap cgroup {id} finds a container or pod; gpumap job lists the jobs that are here");
            return Failure::new(ProblemCode::Usage, format!("'{id}'"), "not a job", &needs);
        }
        let needs = "write its number, such as 4711, or its SLUID, such as sEKNKTV3WPV500; a step as 4711.0, 4711.batch; an array task as 4711_3, several as 4711_[3-5,9] or 4711_*; gpumap job lists those that are here";
        Failure::new(ProblemCode::Usage, format!("'{id}'"), "not a job", needs)
    })
}

/// A job by its own number or SLUID, as a report has it.
pub(crate) fn own(id: &str) -> Result<JobName, Failure> {
    match parse(id)? {
        AskedJob { job: AskedName::Own(name), step: None } => Ok(name),
        _ => Err(Failure::new(ProblemCode::Usage, format!("'{id}'"), "not a job's own number", "")),
    }
}

/// The number of a job of this node, asking its processes where the name alone
/// does not say it.
pub(crate) fn live(invocation: &Invocation<'_>, name: &AskedName) -> Result<JobName, Failure> {
    match name.own() {
        Some(own) => Ok(own),
        None => in_observation(&observe::job_claims(&invocation.options(), name)?, name),
    }
}

/// All jobs of this node that a name means; see [`live`].
pub(crate) fn all_live(invocation: &Invocation<'_>, name: &AskedName) -> Result<Vec<JobName>, Failure> {
    match name.is_several() {
        true => all_in_observation(&observe::job_claims(&invocation.options(), name)?, name),
        false => live(invocation, name).map(|job| vec![job]),
    }
}

/// The number of a job of an observation.
pub(crate) fn in_observation(observation: &Observation, name: &AskedName) -> Result<JobName, Failure> {
    let mut jobs = all_in_observation(observation, name)?;
    match (jobs.pop(), jobs.is_empty()) {
        (Some(job), true) => Ok(job),
        _ => {
            let needs = "name one by its own number; gpumap job takes several";
            Err(Failure::new(ProblemCode::WhichJob, format!("job {name}"), "means several jobs here", needs))
        }
    }
}

/// All jobs of an observation that a name means: one at least.
pub(crate) fn all_in_observation(
    observation: &Observation,
    name: &AskedName,
) -> Result<Vec<JobName>, Failure> {
    if let Some(own) = name.own() {
        return Ok(vec![own]);
    }
    let numbers: Vec<u64> = name.numbers(observation).into_iter().collect();
    match numbers.as_slice() {
        [number] => Ok(vec![JobName::Number(*number)]),
        [_, ..] if name.is_several() => Ok(numbers.into_iter().map(JobName::Number).collect()),
        [] => {
            let why = format!("no process here says that its job is called so{}", unread(observation));
            let needs = "name it by its own number, as squeue -o %A prints it";
            Err(Failure::new(ProblemCode::NoJob, format!("job {name}"), why, needs))
        }
        several => {
            let several: Vec<String> = several.iter().map(u64::to_string).collect();
            let why = format!("processes of several jobs say so: {}", several.join(", "));
            Err(Failure::new(ProblemCode::WhichJob, format!("job {name}"), why, "name it by its own number"))
        }
    }
}

/// What was not read, in words: the job may still exist there.
fn unread(observation: &Observation) -> String {
    let Some(first) = observation.errors.first() else { return String::new() };
    let more = match observation.errors.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let help = if observe::is_root() { "" } else { "; run as root" };
    format!("; not everything could be read: {}{more}{help}", render::problem(first))
}

/// The user of the hook's job, if Slurm names one.
pub(crate) fn hook() -> JobHook {
    let uid = || env::var("SLURM_JOB_UID").ok()?.parse().ok();
    let began = || env::var("SLURM_JOB_START_TIME").ok()?.parse().ok();
    JobHook { uid: uid(), began: began().filter(|began| *began > 0) }
}

/// Whether gpumap runs in the hook of this job.
pub(crate) fn is_hooks(job: &JobName) -> bool {
    let named = env::var("SLURM_JOB_ID").ok().and_then(|id| JobName::parse(&id));
    named.as_ref() == Some(job)
}

/// The job's name in messages and headings.
pub(crate) fn text(job: &JobName) -> String {
    match job {
        JobName::Number(number) => format!("job {number}"),
        JobName::Sluid(sluid) => format!("job {sluid}"),
    }
}

fn of_hook() -> Result<JobName, Failure> {
    let id = env::var_os("SLURM_JOB_ID").unwrap_or_default();
    let number = id.to_str().and_then(|id| id.parse().ok());
    number.map(JobName::Number).ok_or_else(|| {
        let why = if id.is_empty() { "SLURM_JOB_ID is not set" } else { "SLURM_JOB_ID is not a job number" };
        Failure::new(
            ProblemCode::Usage,
            "--from-env",
            why,
            "--from-env is for a Prolog or Epilog; elsewhere name the job by its number",
        )
    })
}

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
    let mut missing: Vec<(&JobPart, Failure)> = Vec::new();
    for part in parts {
        match tops(observation, &directory, part) {
            Ok(tops) => scope.extend(tops.into_iter().cloned().map(|path| Scope { path, recursive: true })),
            Err(failure) => missing.push((part, failure)),
        }
    }
    if missing.len() > 1 {
        let names: Vec<String> = missing.iter().map(|(part, _)| part_text(part)).collect();
        return Err(Failure::new(ProblemCode::NoJob, names.join(", "), "have no cgroup here", SHOWS_JOBS));
    }
    missing.pop().map_or(Ok(()), |(_, failure)| Err(failure))?;
    observation.scope = scope;
    Ok(())
}

/// What to do where there is no such job.
const SHOWS_JOBS: &str = "gpumap job shows which jobs there are";

/// The one cgroup that is a job's own, or that holds what a step starts.
pub(crate) fn only(observation: &Observation, part: &JobPart) -> Result<Text, Failure> {
    let directory = Directory::new(observation);
    match tops(observation, &directory, part)?.as_slice() {
        [path] => Ok(started_in(observation, path, part)),
        several => {
            let why = format!("has {} cgroups here", several.len());
            let paths: Vec<_> = several.iter().map(|path| path.lossy()).collect();
            let needs = format!("name one with --cgroup: {}", paths.join(", "));
            Err(Failure::new(ProblemCode::WhichCgroup, part_text(part), why, &needs))
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
fn part_text(part: &JobPart) -> String {
    let step = part.step.as_ref().map(|step| format!(".{step}")).unwrap_or_default();
    text(&part.job) + &step
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
    if let (true, Some(path)) = (tops.is_empty(), claimed(observation, directory, &part.job)) {
        let why = "is a job of a Slurm inside a container, whose root names its cgroups";
        let needs = format!("gpumap cgroup -r {} shows them", path.lossy());
        return Err(Failure::new(ProblemCode::NoJob, part_text(part), why, &needs));
    }
    if tops.is_empty() {
        let needs = match part.step {
            Some(_) => here(observation, directory, &part.job),
            // An array has the number of its last task.
            None => match part.job.number() {
                Some(number) => format!("{SHOWS_JOBS}, gpumap job {number}_* the tasks of an array"),
                None => SHOWS_JOBS.to_owned(),
            },
        };
        return Err(Failure::new(ProblemCode::NoJob, part_text(part), "has no cgroup here", &needs));
    }
    Ok(tops)
}

/// The outermost cgroup inside a container or pod that is called as one of this job.
fn claimed<'a>(observation: &'a Observation, directory: &Directory, job: &JobName) -> Option<&'a Text> {
    let paths = observation.cgroups.iter().map(|cgroup| &cgroup.path);
    let is_claimed =
        |path: &&Text| directory.of(path).is_some_and(|owner| owner.claims.iter().any(|claim| job.is(claim)));
    paths.filter(is_claimed).min_by_key(|path| path.as_bytes().len())
}

/// The steps that a job has here, in words.
fn here(observation: &Observation, directory: &Directory, job: &JobName) -> String {
    let owners = observation.cgroups.iter().filter_map(|cgroup| directory.of(&cgroup.path));
    let steps: BTreeSet<&str> =
        owners.filter(|owner| job.is(owner)).filter_map(|owner| owner.step.as_deref()).collect();
    let steps: Vec<&str> = steps.into_iter().take(STEPS_NAMED).collect();
    match steps.is_empty() {
        true => format!("{} has no step here", text(job)),
        false => format!("{} has these steps here: {}", text(job), steps.join(", ")),
    }
}

fn is_inside(path: &Text, top: &Text) -> bool {
    CgroupPath::new(path).is_below(CgroupPath::new(top))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a text that is no job is refused with both forms of a job's
    /// name.
    #[test]
    fn refusal_names_both_forms() {
        for bad in ["", "x", "4711_x", "4711.x", "4711.", "-1", "99999999999999999999", "\x1b[2J"] {
            let text = parse(bad).unwrap_err().to_string();
            assert!(text.contains("4711") && text.contains("sEKNKTV3WPV500"), "{text}");
            assert!(!text.contains('\x1b'), "{text:?}");
        }
        assert_eq!(all(&["7".to_owned(), "8".to_owned()], false).unwrap().len(), 2);
        assert_eq!(all(&["7_[1,3],8,9_*".to_owned()], false).unwrap().len(), 3);
    }

    /// Make sure that a job that is not there is a failure with its name.
    #[test]
    fn no_such_job() {
        let job = JobPart { job: JobName::Number(4711), step: None };
        let failure = narrow(&mut Observation::default(), std::slice::from_ref(&job)).unwrap_err();
        assert!(failure.to_string().starts_with("job 4711: has no cgroup here"), "{failure}");
        assert!(only(&Observation::default(), &job).is_err());
        let other = JobPart { job: JobName::Number(4712), step: None };
        let failure = narrow(&mut Observation::default(), &[job, other]).unwrap_err();
        assert!(failure.to_string().starts_with("job 4711, job 4712: have no cgroup here"), "{failure}");
    }
}
