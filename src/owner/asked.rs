//! Jobs as people name them: by number or SLUID, or with a step as Slurm's tools print it
//! (`4711`, `4711.0`, `4711.batch`, `4711_3`, `4711_[3,7-9]`, `4711_*`, `4711+1`).
//!
//! Cgroups are named by the job's number alone. Only the environments of its
//! processes say which number an array task or a component of a heterogeneous job
//! has. A process is believed only for the job of its own cgroup, so nobody can
//! make another's job look like an array task of his own.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use super::Directory;
use super::path_name::number;
use super::slurm::{self, STEPS};
use crate::model::Owner;
use crate::observation::{Environment, Observation, Process};

/// A job's number or SLUID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobName {
    /// Slurm's (or ParaStation's, or CraneSched's) job number.
    Number(u64),
    /// A SLUID, upper-case but for its leading `s`.
    Sluid(String),
}

impl JobName {
    /// Reads `4711` or `sEKNKTV3WPV500`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().ok().map(Self::Number);
        }
        let digits = text.strip_prefix(['s', 'S'])?;
        let sluid = format!("s{}", digits.to_ascii_uppercase());
        slurm::submitted_at(sluid.as_bytes()).map(|_| Self::Sluid(sluid))
    }

    /// Its number; `None` for a SLUID.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Sluid(_) => None,
        }
    }

    /// Whether an owner, or one around it, is this job.
    pub fn is(&self, owner: &Owner) -> bool {
        let here = match self {
            Self::Number(number) => owner.job_id == Some(*number),
            Self::Sluid(sluid) => owner.sluid.as_ref() == Some(sluid),
        };
        here || owner.outer.as_deref().is_some_and(|outer| self.is(outer))
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Sluid(sluid) => sluid.fmt(f),
        }
    }
}

/// A job, or one step of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedJob {
    /// The job.
    pub job: AskedName,
    /// The step, if one was named.
    pub step: Option<AskedStep>,
}

/// A name of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedName {
    /// Its own number or SLUID.
    Own(JobName),
    /// `ARRAY_TASK`.
    ArrayTask(u64, u64),
    /// `ARRAY_[TASK,FIRST-LAST]`: the tasks of these ranges that are here. `ARRAY_*`: all
    /// that are here.
    ArrayTasks(u64, Vec<RangeInclusive<u64>>),
    /// `LEADER+COMPONENT` of a heterogeneous job.
    Component(u64, u64),
}

/// A step's name, `0`, `batch`, `extern`, with its component of a heterogeneous job
/// if the user named one (`0+1`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedStep {
    name: String,
    component: Option<u32>,
}

impl AskedJob {
    /// Reads a job's or a step's name; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (job, step) = match text.split_once('.') {
            Some((job, step)) => (job, Some(AskedStep::parse(step)?)),
            None => (text, None),
        };
        Some(Self { job: AskedName::parse(job)?, step })
    }
}

impl AskedName {
    fn parse(text: &str) -> Option<Self> {
        let numbers = |(a, b): (&str, &str)| Some((number(a.as_bytes())?, number(b.as_bytes())?));
        if let Some((array, tasks)) = text.split_once('_') {
            return match ranges(tasks) {
                Some(tasks) => Some(Self::ArrayTasks(number(array.as_bytes())?, tasks)),
                None => numbers((array, tasks)).map(|(array, task)| Self::ArrayTask(array, task)),
            };
        }
        if let Some(parts) = text.split_once('+') {
            return numbers(parts).map(|(leader, component)| Self::Component(leader, component));
        }
        JobName::parse(text).map(Self::Own)
    }

    /// Whether it may mean several jobs.
    pub fn is_several(&self) -> bool {
        matches!(self, Self::ArrayTasks(..))
    }

    /// The job's own name, where the name says it.
    pub fn own(&self) -> Option<JobName> {
        match self {
            Self::Own(name) => Some(name.clone()),
            Self::Component(leader, 0) => Some(JobName::Number(*leader)),
            _ => None,
        }
    }

    /// Whether a process that was started with this environment may confirm this
    /// name for its job. All components have the number of the first in their
    /// environment: which one it is says the step's name in its cgroup, or another variable.
    pub fn may_be_said_by(&self, environment: &Environment) -> bool {
        let value = |name: &str| {
            let variable = environment.get(name).filter(|variable| !variable.cut)?;
            number(variable.value.as_bytes())
        };
        match self {
            Self::Own(_) => false,
            Self::ArrayTask(array, task) => {
                value("SLURM_ARRAY_JOB_ID") == Some(*array) && value("SLURM_ARRAY_TASK_ID") == Some(*task)
            }
            Self::ArrayTasks(array, tasks) => {
                let is_meant = |task| tasks.iter().any(|range| range.contains(&task));
                value("SLURM_ARRAY_JOB_ID") == Some(*array)
                    && value("SLURM_ARRAY_TASK_ID").is_some_and(is_meant)
            }
            Self::Component(leader, _) => value("SLURM_JOB_ID") == Some(*leader),
        }
    }

    /// The numbers of the jobs that have this name, as their processes say: one,
    /// unless no process says it, a process lies, or the name means several.
    pub fn numbers(&self, observation: &Observation) -> BTreeSet<u64> {
        let directory = Directory::new(observation);
        let number = |process: &Process| {
            let job = job(directory.of(&process.cgroup)?)?;
            let environment = process.detail.as_ref()?.at_exec.known()?;
            let is_component = match self {
                Self::Component(_, component) => is_component(job, environment, *component),
                _ => true,
            };
            (is_component && self.may_be_said_by(environment)).then_some(job.job_id)?
        };
        observation.processes.iter().filter_map(number).collect()
    }
}

/// The tasks of an array that `*` or `[3,7-9]` means. squeue and sbatch put the number of
/// tasks that run at a time behind them (`%2`), which names none.
fn ranges(text: &str) -> Option<Vec<RangeInclusive<u64>>> {
    if text == "*" {
        return Some(vec![0..=u64::MAX]);
    }
    let list = text.strip_prefix('[')?.strip_suffix(']')?;
    let list = match list.split_once('%') {
        Some((list, limit)) => number(limit.as_bytes()).map(|_| list)?,
        None => list,
    };
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some(number(first.as_bytes())?..=number(last.as_bytes())?)
    };
    list.split(',').map(range).collect()
}

impl AskedStep {
    fn parse(text: &str) -> Option<Self> {
        let (name, component) = match text.split_once('+') {
            Some((name, component)) => (name, Some(u32::try_from(number(component.as_bytes())?).ok()?)),
            None => (text, None),
        };
        let is_step = STEPS.contains(&name) || number(name.as_bytes()).is_some();
        is_step.then(|| Self { name: name.to_owned(), component })
    }

    /// Whether an owner, or one around it, is this step of `job`.
    pub fn is(&self, job: &JobName, owner: &Owner) -> bool {
        let is_step = owner.step.as_deref() == Some(&self.name)
            && self.component.is_none_or(|component| owner.het_component == Some(component));
        let here = is_step && job.is(&Owner { outer: None, ..owner.clone() });
        here || owner.outer.as_deref().is_some_and(|outer| self.is(job, outer))
    }
}

/// Whether a job is this component of a heterogeneous one: its step's name says so, or the
/// environment has its number in the component's place.
fn is_component(job: &Owner, environment: &Environment, component: u64) -> bool {
    let place = environment.get(&format!("SLURM_JOB_ID_HET_GROUP_{component}"));
    let says = place.filter(|variable| !variable.cut).and_then(|place| number(place.value.as_bytes()));
    job.het_component.map(u64::from) == Some(component) || (says.is_some() && says == job.job_id)
}

/// The innermost job around a process.
fn job(owner: &Owner) -> Option<&Owner> {
    if owner.job_id.is_some() { Some(owner) } else { job(owner.outer.as_deref()?) }
}

impl fmt::Display for AskedJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.job.fmt(f)?;
        self.step.as_ref().map_or(Ok(()), |step| write!(f, ".{step}"))
    }
}

impl fmt::Display for AskedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(name) => name.fmt(f),
            Self::ArrayTask(array, task) => write!(f, "{array}_{task}"),
            Self::ArrayTasks(array, tasks) if *tasks == [0..=u64::MAX] => write!(f, "{array}_*"),
            Self::ArrayTasks(array, tasks) => {
                let range = |range: &RangeInclusive<u64>| match (range.start(), range.end()) {
                    (first, last) if first == last => first.to_string(),
                    (first, last) => format!("{first}-{last}"),
                };
                let tasks: Vec<String> = tasks.iter().map(range).collect();
                write!(f, "{array}_[{}]", tasks.join(","))
            }
            Self::Component(leader, component) => write!(f, "{leader}+{component}"),
        }
    }
}

impl fmt::Display for AskedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.component.map_or(Ok(()), |component| write!(f, "+{component}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Answer, Detail, Variable};

    /// Make sure that only numbers and SLUIDs are names of jobs.
    #[test]
    fn names() {
        assert_eq!(JobName::parse("4711"), Some(JobName::Number(4711)));
        let sluid = JobName::Sluid("sEKNKTV3WPV500".to_owned());
        for text in ["sEKNKTV3WPV500", "SEKNKTV3WPV500", "seknktv3wpv500"] {
            assert_eq!(JobName::parse(text), Some(sluid.clone()));
        }
        for bad in ["", "+1", "-1", "1.0", "1_2", "99999999999999999999", "sG000000000000", "s", "ß", " 1"] {
            assert_eq!(JobName::parse(bad), None, "{bad}");
        }
        assert_eq!(sluid.to_string(), "sEKNKTV3WPV500");
    }

    /// Make sure that a container in a job is the job's.
    #[test]
    fn around() {
        let job = Owner { job_id: Some(7), ..Owner::default() };
        let inner = Owner { outer: Some(Box::new(job)), ..Owner::default() };
        assert!(JobName::Number(7).is(&inner) && !JobName::Number(8).is(&inner));
    }

    /// Make sure that every form is read, written back alike, and that nothing
    /// else is taken for one.
    #[test]
    fn grammar() {
        for text in [
            "4711",
            "4711.0",
            "4711.batch",
            "4711.extern",
            "4711.0+1",
            "4711_3",
            "4711_3.batch",
            "4711_*",
            "4711_[3,7-9]",
            "4711_[3].0",
            "4711+1",
            "4711+1.0",
        ] {
            assert_eq!(AskedJob::parse(text).map(|asked| asked.to_string()).as_deref(), Some(text));
        }
        for bad in [
            "", ".", "4711.", ".0", "4711_", "_3", "4711_x", "4711_1_2", "4711.0.1", "4711+", "1_2+3",
            "1.-1", "1_[", "1_[]", "1_[3,]", "1_[*]", "1_3-5", "1_**", "_*",
        ] {
            assert_eq!(AskedJob::parse(bad), None, "{bad}");
        }
        let limited = AskedJob::parse("4711_[3-5%2]").map(|asked| asked.to_string());
        assert_eq!(limited.as_deref(), Some("4711_[3-5]"));
    }

    fn process(job: u64, step: &str, variables: &[(&str, &str)]) -> Process {
        let variable = |(name, value): &(&str, &str)| Variable {
            name: (*name).to_owned(),
            value: (*value).into(),
            cut: false,
        };
        let environment = Environment { variables: variables.iter().map(variable).collect(), cut: None };
        let detail = Detail {
            title: "".into(),
            exe: Answer::default(),
            stepd_sockets: Vec::new(),
            at_exec: Answer::Known(environment),
            live: Answer::default(),
            devices: Answer::default(),
            devices_cut: None,
            vgpu: None,
        };
        let cgroup = format!("/system.slice/slurmstepd.scope/job_{job}/step_{step}/user").into();
        Process { cgroup, detail: Some(detail), ..Process::default() }
    }

    /// Make sure that a process can name only its own job.
    #[test]
    fn whose_word() {
        let task = [("SLURM_ARRAY_JOB_ID", "70"), ("SLURM_ARRAY_TASK_ID", "3")];
        let het = [("SLURM_JOB_ID", "80")];
        let groups = [
            ("SLURM_JOB_ID", "80"),
            ("SLURM_JOB_ID_HET_GROUP_0", "80"),
            ("SLURM_JOB_ID_HET_GROUP_2", "82"),
            ("SLURM_JOB_ID_HET_GROUP_3", "99"),
        ];
        let processes = vec![
            process(72, "0", &task),
            process(72, "batch", &task),
            process(81, "0+1", &het),
            process(99, "0", &het),
            process(80, "batch", &groups),
            process(82, "0", &groups),
        ];
        let observation = Observation { processes, ..Observation::default() };
        let numbers = |text: &str| AskedJob::parse(text).unwrap().job.numbers(&observation);
        assert_eq!(numbers("70_3"), BTreeSet::from([72]));
        assert_eq!(numbers("70_4"), BTreeSet::new());
        assert_eq!(numbers("80+1"), BTreeSet::from([81]), "job 99 is none of its components");
        assert_eq!(numbers("80+2"), BTreeSet::from([82]));
        assert_eq!(numbers("80+3"), BTreeSet::new(), "nobody in job 99 says so");
        let leader = AskedJob::parse("80+0").and_then(|asked| asked.job.own());
        assert_eq!(leader, Some(JobName::Number(80)));
    }

    /// Make sure that a step of another job, or in a container's job, is not taken
    /// for this one.
    #[test]
    fn steps() {
        let owner =
            |job, step: &str| Owner { job_id: Some(job), step: Some(step.to_owned()), ..Owner::default() };
        let step = AskedStep::parse("0").unwrap();
        assert!(step.is(&JobName::Number(7), &owner(7, "0")));
        assert!(!step.is(&JobName::Number(7), &owner(8, "0")));
        assert!(!step.is(&JobName::Number(7), &owner(7, "batch")));
        let inner = Owner { outer: Some(Box::new(owner(7, "0"))), ..Owner::default() };
        assert!(step.is(&JobName::Number(7), &inner));
    }
}
