//! The answer of `gpumap leftovers`: processes of one job that still hold its GPUs, and
//! which of them `--kill` may end.

use super::allocated::{CallerAllocation, source};
use super::joined_node::JoinedNode;
use super::processes::{self, Processes};
use super::subject::AnalyseError;
use crate::allocation::{Numbering, of_hook};
use crate::model::{GpuKey, JobEvidence, JobIdSource, NoteCode, Owner, Time};
use crate::observation::{Answer, Cgroup, Environment, Observation, Problem, Process};
use crate::owner::{Directory, JobName, inner_job};
use crate::policy::TimeLimit;
use crate::report::{GpuSet, Leftover, LeftoversAnswer, Note};

/// The processes of a job that hold one of its GPUs.
///
/// A process in the job's cgroup counts with every GPU it holds. One that left
/// the job's cgroup counts if it is in no other job's, its environment names
/// the job, it is the job's user's (where a hook tells that), and it holds one
/// of the job's GPUs (where a hook or the caller tells those).
///
/// # Errors
///
/// A list of GPUs that names none of this node.
pub fn leftovers(
    observation: &Observation,
    job: &JobName,
    granted: &CallerAllocation,
    limit: &TimeLimit,
) -> Result<LeftoversAnswer, AnalyseError> {
    let mut join = JoinedNode::new(observation, limit);
    let numbering = Numbering::new(&observation.slurm, &observation.host.name, &join.gpus);
    let source = source(observation, granted, &numbering, &join)?;
    let hook = source.hook.filter(|hook| names(hook, job));
    let told = hook.and_then(|hook| of_hook(hook, &numbering, &join.gpus));
    let also_users = observation.also_users.as_slice();
    let search = Search { job, hook, gpus: source.given.or(told), also_users };
    // If one process has details, those without are kernel threads, which hold
    // nothing.
    let looked = observation.processes.iter().any(|process| process.detail.is_some());
    let mut processes = Processes::default();
    let mut found = Vec::new();
    for process in &observation.processes {
        let Some(belongs_by) = search.belongs(process, &join) else { continue };
        let mut reported = processes.report(process, &mut join);
        if !looked {
            reported.held_unknown = Some("nobody looked into it".to_owned());
        }
        let gpus = search.counted(&belongs_by, reported.held.as_deref().unwrap_or_default());
        // One of which neither is known is in the problems.
        let is_known = belongs_by != JobEvidence::Unknown || reported.held.is_some();
        if is_known && (!gpus.is_empty() || reported.held_unknown.is_some()) {
            let owner = join.owners.of(&process.cgroup).cloned();
            let mut leftover = Leftover { process: reported, owner, belongs_by, gpus, ..Leftover::default() };
            let spared = spared_because(&leftover, search.hook, search.gpus.as_ref());
            leftover.spared = spared.map(str::to_owned);
            found.push(leftover);
        }
    }
    let (job_id, job, notes) = (job.number(), job.to_string(), notes(observation));
    Ok(LeftoversAnswer { gpus: join.gpus, job, job_id, leftovers: found, free: None, notes })
}

/// The cgroups of a job that list processes, by names that root's daemons gave, without
/// those in which the scheduler has its own.
pub fn cgroups_of_job<'o>(observation: &'o Observation, job: &JobName) -> impl Iterator<Item = &'o Cgroup> {
    let owners = Directory::new(observation);
    let is_jobs = move |owner: &Owner| is_in_cgroup_of(owner, job) && owner.part.is_none();
    let with_processes = observation.cgroups.iter().filter(|cgroup| !cgroup.pids.is_empty());
    with_processes.filter(move |cgroup| owners.of(&cgroup.path).is_some_and(&is_jobs))
}

/// Whether the owner of a cgroup is this job, by a name that root's daemons gave.
pub fn is_in_cgroup_of(owner: &Owner, job: &JobName) -> bool {
    job.is(owner) && !is_hearsay(owner)
}

/// Notes on what the answer does not cover, and on what was passed over because it
/// cannot belong to the job.
fn notes(observation: &Observation) -> Vec<Note> {
    let remark = |remark: &Problem| Note {
        code: NoteCode::PassedOver,
        text: format!("{} was not looked into: {}", remark.what, remark.why),
    };
    let first = Note { code: NoteCode::NotVisible, text: NOT_VISIBLE.to_owned() };
    std::iter::once(first).chain(observation.remarks.iter().map(remark)).collect()
}

/// Ways to hold a device that `/proc/PID/fd` does not show (unix(7),
/// `io_uring_register(2)`).
const NOT_VISIBLE: &str = "a device that is open only in a message on its way through a Unix socket, or only registered \
                           with io_uring, belongs to no process's table of descriptors and is not seen";

/// Which processes and GPUs count.
struct Search<'a> {
    job: &'a JobName,
    hook: Option<&'a Environment>,
    gpus: Option<GpuSet>,
    /// As in [`Observation::also_users`].
    also_users: &'a [u32],
}

impl Search<'_> {
    /// Why a process is this job's, if it is.
    fn belongs(&self, process: &Process, join: &JoinedNode<'_>) -> Option<JobEvidence> {
        let owner = join.owners.of(&process.cgroup);
        if owner.is_some_and(|owner| self.job.is(owner)) {
            return Some(if owner.is_some_and(is_hearsay) {
                JobEvidence::Environment
            } else {
                JobEvidence::Cgroup
            });
        }
        // A Slurm inside a container gives its jobs the same numbers.
        let is_other_jobs = owner.and_then(|owner| processes::job(owner).or(inner_job(owner))).is_some();
        if is_other_jobs || !self.is_users(process) {
            return None;
        }
        let detail = process.detail.as_ref()?;
        let is_named = |environment: &Answer<Environment>| {
            environment.known().is_some_and(|environment| names(environment, self.job))
        };
        // The environment at exec is there to stay, unless a title was written over it.
        match &detail.at_exec {
            at_exec if is_named(at_exec) => Some(JobEvidence::Environment),
            Answer::Known(Environment { cut: None, .. }) => None,
            _ if is_named(&detail.live) => Some(JobEvidence::Environment),
            _ => Some(JobEvidence::Unknown),
        }
    }

    fn is_users(&self, process: &Process) -> bool {
        let uid = self.hook.and_then(|hook| hook.get("SLURM_JOB_UID"));
        let uid: Option<u32> = uid.and_then(|uid| uid.value.lossy().parse().ok());
        uid.is_none_or(|uid| uid == process.uid || self.also_users.contains(&process.pid))
    }

    /// Which of the GPUs that a process holds count against it. One that may
    /// be the job's does.
    fn counted(&self, belongs_by: &JobEvidence, held: &[GpuKey]) -> Vec<GpuKey> {
        let of_job =
            self.gpus.as_ref().filter(|set| set.gpus.is_some() && *belongs_by != JobEvidence::Cgroup);
        let counts = |key: &&GpuKey| {
            of_job.is_none_or(|set| set.gpus.iter().flatten().chain(&set.unknown).any(|own| own == *key))
        };
        held.iter().filter(counts).cloned().collect()
    }
}

/// Whether only environments say which number the job of a cgroup has.
fn is_hearsay(owner: &Owner) -> bool {
    processes::job(owner).is_some_and(|job| job.job_id_source == Some(JobIdSource::Environment))
}

/// Whether an environment names the job.
fn names(environment: &Environment, job: &JobName) -> bool {
    match job {
        JobName::Number(number) => processes::job_id(environment) == Some(*number),
        JobName::Sluid(sluid) => {
            let own = environment.get("SLURM_JOB_SLUID");
            own.is_some_and(|own| own.value.lossy().eq_ignore_ascii_case(sluid))
        }
    }
}

/// Seconds by which a start time may be wrong: the kernel tells the time of the
/// boot in whole seconds.
const SLACK: i64 = 1;

/// Why `leftovers --kill` spares a process; `None` if the process demonstrably
/// belongs to the job.
///
/// `hook` is the environment of the job's own hook. `gpus` are those allocated to
/// the job, as far as the hook or the caller says.
pub(super) fn spared_because(
    leftover: &Leftover,
    hook: Option<&Environment>,
    gpus: Option<&GpuSet>,
) -> Option<&'static str> {
    let uid = hook.and_then(|hook| number(hook, "SLURM_JOB_UID"));
    let process = &leftover.process;
    if leftover.belongs_by == JobEvidence::Unknown {
        return Some("nothing tells whether it is the job's: its environment is not known");
    }
    if process.uid == 0 {
        return Some("it is root's");
    }
    if process.held.is_none() {
        return Some("what it holds is not known");
    }
    if leftover.gpus.is_empty() {
        return Some("it holds no GPU of the job");
    }
    if uid.is_some_and(|uid| uid != i64::from(process.uid)) {
        return Some("it is not the job's user's");
    }
    if leftover.owner.as_ref().is_some_and(|owner| owner.part.is_some()) {
        return Some("it is the scheduler's own");
    }
    if leftover.belongs_by == JobEvidence::Cgroup {
        return None;
    }
    let known = gpus.and_then(|set| set.gpus.as_ref()).map(Vec::as_slice).unwrap_or_default();
    if uid.is_none() || !leftover.gpus.iter().any(|gpu| known.contains(gpu)) {
        return Some(
            "nothing but its environment says that it is the job's: give the job's GPUs and user as Slurm's Epilog does (--from-env)",
        );
    }
    let Some(began) = hook.and_then(|hook| number(hook, "SLURM_JOB_START_TIME")) else {
        return Some(
            "it left the job's cgroup, and only Slurm's hook environment (SLURM_JOB_START_TIME) tells when the job began",
        );
    };
    let started = process.started_at.as_ref().and_then(Time::timestamp);
    match started.map(|started| started.as_second().saturating_add(SLACK) >= began) {
        Some(true) => None,
        Some(false) => Some("it is older than the job"),
        None => Some("it left the job's cgroup, and when it started is not known"),
    }
}

/// A number of the hook, which root's daemon wrote.
fn number(hook: &Environment, name: &str) -> Option<i64> {
    hook.get(name).filter(|variable| !variable.cut)?.value.lossy().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Owner;
    use crate::observation::Variable;
    use crate::report::Process;

    fn hook(pairs: &[(&str, &str)]) -> Environment {
        let variable = |(name, value): &(&str, &str)| Variable {
            name: (*name).to_owned(),
            value: (*value).into(),
            cut: false,
        };
        Environment { variables: pairs.iter().map(variable).collect(), cut: None }
    }

    fn leftover(by: &str, uid: u32) -> Leftover {
        let held = Some(vec!["GPU-1".into()]);
        let started_at = Some("2026-01-01T00:00:10Z".into());
        let process = Process { uid, held, started_at, ..Process::default() };
        let gpus = vec!["GPU-1".into()];
        Leftover { process, gpus, belongs_by: JobEvidence::of(by), ..Leftover::default() }
    }

    fn granted(gpu: &str) -> GpuSet {
        GpuSet { gpus: Some(vec![gpu.into()]), ..GpuSet::default() }
    }

    /// Make sure that processes in the job's cgroup are ended, and that those of
    /// root, the scheduler and other users are not.
    #[test]
    fn in_the_cgroup() {
        let mine = hook(&[("SLURM_JOB_UID", "1000")]);
        assert_eq!(spared_because(&leftover("cgroup", 1000), Some(&mine), None), None);
        assert_eq!(spared_because(&leftover("cgroup", 1000), None, None), None);
        assert!(spared_because(&leftover("cgroup", 0), None, None).is_some());
        assert!(spared_because(&leftover("cgroup", 1001), Some(&mine), None).is_some());
        let owner = Some(Owner { part: Some(crate::model::OwnerPart::Slurm), ..Owner::default() });
        assert!(spared_because(&Leftover { owner, ..leftover("cgroup", 1000) }, Some(&mine), None).is_some());
        let idle = Leftover { gpus: Vec::new(), ..leftover("cgroup", 1000) };
        assert!(spared_because(&idle, Some(&mine), None).is_some());
        let mut unseen = leftover("cgroup", 1000);
        unseen.process.held = None;
        assert!(spared_because(&unseen, Some(&mine), None).is_some());
    }

    /// Make sure that an environment alone never ends a process: user, GPU and time
    /// have to be the job's too, and root's daemon has to confirm all three.
    #[test]
    fn by_environment() {
        // 2026-01-01T00:00:10Z, when the process started.
        let began = |at: i64| {
            let at = (1_767_225_610 + at).to_string();
            hook(&[("SLURM_JOB_START_TIME", &at), ("SLURM_JOB_UID", "1000")])
        };
        let one = granted("GPU-1");
        let told =
            |hook: &Environment| spared_because(&leftover("environment", 1000), Some(hook), Some(&one));
        assert_eq!((told(&began(-10)), told(&began(0))), (None, None));
        assert!(told(&began(60)).is_some());
        assert!(told(&hook(&[("SLURM_JOB_UID", "1000")])).is_some());
        assert!(told(&hook(&[("SLURM_JOB_START_TIME", "0")])).is_some());
        assert!(spared_because(&leftover("environment", 1000), None, Some(&one)).is_some());
        let other = granted("GPU-2");
        assert!(spared_because(&leftover("environment", 1000), Some(&began(-10)), Some(&other)).is_some());
        assert!(spared_because(&leftover("environment", 1000), Some(&began(-10)), None).is_some());
        assert!(spared_because(&leftover("environment", 1001), Some(&began(-10)), Some(&one)).is_some());
        assert!(spared_because(&leftover("environment", 0), Some(&began(-10)), Some(&one)).is_some());
    }
}
