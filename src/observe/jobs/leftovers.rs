//! Finds what may be left of a job that has ended: its cgroups, if they still
//! exist, and processes elsewhere whose environment names it.

use std::collections::BTreeSet;

use super::search;
use crate::model::{CgroupPath, ProblemCode};
use crate::observation::{Environment, Observation, Process, Scope};
use crate::observe::assemble::observe;
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::cgroups::walk::{VisitedCgroup, WalkPlan};
use crate::observe::error::ObserveError;
use crate::observe::options::Options;
use crate::observe::problems::Log;
use crate::observe::processes::collect;
use crate::observe::processes::sieve::Sieve;
use crate::observe::processes::survey::{Surveyed, survey};
use crate::observe::{clock, host};
use crate::owner::JobName;

/// How often the job's cgroups are searched while they are being removed.
const TRIES: usize = 5;
/// Seconds by which the clock of Slurm's controller, which tells when a job began,
/// may be ahead of this node's: authentication fails beyond that (munge's default
/// time to live is 300 seconds).
const SLACK: i64 = 300;

/// The facts about a job that its hook has.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobHook {
    /// The job's user.
    pub uid: Option<u32>,
    /// When the job began, in seconds of the day's clock since 1970.
    pub began: Option<i64>,
}

/// Observes what may be left of a job: its cgroups if they still exist, and every
/// process elsewhere whose environment names it; only processes of the job's user,
/// if that is known.
///
/// # Errors
///
/// No cgroup hierarchy.
pub fn leftovers(options: &Options, job: &JobName, hook: JobHook) -> Result<Observation, ObserveError> {
    let options = &Options { detail: true, ..options.clone() };
    let mut log = Log::new(options.deadline);
    let hierarchy = Hierarchy::find(options)?;
    let sieve = Sieve {
        uid: hook.uid,
        since: hook.began.and_then(ticks_since_boot),
        matters: &|environment| names(environment, job),
    };
    let mut remarks = Vec::new();
    let Surveyed { processes: named, long_paths } =
        survey(options, &hierarchy, &sieve, &mut log, &mut remarks);
    let (mut plan, scope) = plan(options, &hierarchy, job, &mut log)?;
    plan.concerns_node = true;
    for process in &named {
        // A cgroup that cannot be walked to is left out, and only the process is
        // read.
        let path = CgroupPath::new(&process.cgroup);
        match hierarchy.has(path) {
            Ok(true) => _ = plan.mention(path),
            // It was removed, or is outside.
            Ok(false) => {}
            Err(errno) => log.failed(process.cgroup.lossy(), errno),
        }
    }
    // Nobody but the walk tells which cgroups those are.
    long_paths.iter().for_each(|shown| plan.add(hierarchy.above(shown.as_ref()).as_path(), true));
    let is_others = |process: &&Process| sieve.uid.is_some_and(|uid| uid != process.uid);
    let also_users = named.iter().filter(is_others).map(|process| process.pid).collect();
    let node = Observation { scope, also_users, ..host::blank(options, Some(&hierarchy)) };
    let processes = |seen: &[VisitedCgroup], log: &mut Log| {
        merge(collect::collect(options, &hierarchy, seen, false, log), named)
    };
    let mut observation = observe(options, &hierarchy, &plan, node, processes, log);
    // The job's cgroups are expected to vanish.
    observation.errors.retain(|problem| problem.code != ProblemCode::CgroupGone);
    observation.remarks = remarks;
    Ok(observation)
}

/// When the job began, in clock ticks since boot, with some slack because the clocks
/// of two nodes differ.
fn ticks_since_boot(began: i64) -> Option<u64> {
    let ticks = clock::BootClock::now().ticks(began.checked_sub(SLACK)?)?;
    u64::try_from(ticks).ok()
}

fn names(environment: &Environment, job: &JobName) -> bool {
    let is = |name: &str| {
        let value = environment.get(name).map(|variable| variable.value.lossy().into_owned());
        value.and_then(|value| JobName::parse(&value)).as_ref() == Some(job)
    };
    is("SLURM_JOB_ID") || is("SLURM_JOB_SLUID")
}

/// Plans the walk of the job's cgroups with everything below. There may be none.
fn plan(
    options: &Options,
    hierarchy: &Hierarchy,
    job: &JobName,
    log: &mut Log,
) -> Result<(WalkPlan, Vec<Scope>), ObserveError> {
    for _ in 0..TRIES {
        let (targets, is_incomplete) = search::find(options, hierarchy, job);
        log.problems.extend(is_incomplete.then(search::incomplete));
        match WalkPlan::new(hierarchy, &targets) {
            Err(ObserveError::NoSuchCgroup { .. }) => {}
            plan => return plan,
        }
    }
    WalkPlan::new(hierarchy, &[])
}

/// Processes of both lists, each once.
fn merge(mut inside: Vec<Process>, named: Vec<Process>) -> Vec<Process> {
    let known: BTreeSet<(u32, u64)> =
        inside.iter().map(|process| (process.pid, process.start_time)).collect();
    inside.extend(named.into_iter().filter(|process| !known.contains(&(process.pid, process.start_time))));
    inside
}
