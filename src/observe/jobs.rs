//! Jobs: their cgroups by name, and the processes that name them.
//!
//! A job's cgroups are looked for first where schedulers usually put their jobs, then in the
//! whole hierarchy. A job can have several directories, made by several slurmd or schedulers.
//! What may be left of a job that has ended, and who claims a number, is found by the
//! environments of processes, wherever they are.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;

use super::assemble::{self, observe};
use super::cgroups::hierarchy::Hierarchy;
use super::cgroups::walk::{self, VisitedCgroup, WalkPlan, parse_pids};
use super::error::ObserveError;
use super::options::{CgroupTarget, Options};
use super::problems::Log;
use super::processes::collect::{self, Surveyed, survey};
use super::processes::step_daemon;
use super::processes::wanted::Sieve;
use super::{clock, host, site_config};
use crate::model::{CgroupPath, Owner, ProblemCode};
use crate::observation::{Environment, Observation, Problem, Process, Scope};
use crate::owner::{AskedName, JobName, TrustedNames};
use crate::sys::absence::{OrAbsent as _, is_removal};
use crate::sys::dir::Dir;
use crate::sys::retry::again;

/// Levels below a scheduler's directory down to its jobs: CraneSched's
/// `overflow` and Slurm v1's uids are between.
const LEVELS: usize = 2;

/// Levels of the whole hierarchy that are looked at; each holds an open
/// descriptor.
const MAX_DEPTH: usize = 256;

/// Bytes of `cgroup.procs` in the directory of a step's daemon.
const LIMIT: usize = 256 << 10;

/// Observes jobs: their cgroups with everything below, wherever the scheduler made
/// them.
///
/// # Errors
///
/// A job that has no cgroup on this node; no cgroup hierarchy.
pub fn jobs(options: &Options, names: &[JobName]) -> Result<Observation, ObserveError> {
    let hierarchy = Hierarchy::find(options)?;
    let mut search = Search::new(options, &hierarchy, names);
    search.usual_places();
    if names.iter().any(|name| !search.has(name)) {
        search.everywhere();
    }
    if let Some(name) = names.iter().find(|name| !search.has(name)) {
        return Err(search.missing(name));
    }
    loop {
        let targets = search.targets();
        match assemble::cgroups(options, &targets) {
            Err(ObserveError::NoSuchCgroup { path, .. }) => search.vanished(path.as_os_str().as_bytes())?,
            Ok(observation) => return search.still_there(observation),
            Err(error) => return Err(error),
        }
    }
}

/// The directories of a job that are there now, and whether there may be others: something
/// could not be looked into.
pub(in crate::observe) fn find(
    options: &Options,
    hierarchy: &Hierarchy,
    name: &JobName,
) -> (Vec<CgroupTarget>, bool) {
    let names = std::slice::from_ref(name);
    let mut search = Search::new(options, hierarchy, names);
    search.usual_places();
    if !search.has(name) {
        search.everywhere();
    }
    (search.targets(), search.incomplete)
}

/// The problem that a job may have other directories than those that were found.
pub(in crate::observe) fn incomplete() -> Problem {
    Problem {
        code: ProblemCode::Unreadable,
        what: "cgroups".to_owned(),
        why: "not all could be looked through for those of the job".to_owned(),
        needs: "another try".to_owned(),
    }
}

struct Search<'a> {
    options: &'a Options,
    hierarchy: &'a Hierarchy,
    names: &'a [JobName],
    trusted: TrustedNames,
    /// Whether the site's configuration describes jobs, whose cgroups can have any name.
    has_patterns: bool,
    /// Job directories by their path from the root.
    jobs: BTreeMap<Vec<u8>, Owner>,
    /// Whether the whole hierarchy is looked through.
    exhaustive: bool,
    /// Whether something could not be looked into.
    incomplete: bool,
}

impl<'a> Search<'a> {
    fn new(options: &'a Options, hierarchy: &'a Hierarchy, names: &'a [JobName]) -> Self {
        let own = hierarchy.own_cgroup().map(Into::into);
        let mut log = Log::new(None);
        let patterns = site_config::read(options, &mut log).owners;
        let incomplete = !log.problems.is_empty();
        let has_patterns = !patterns.is_empty();
        let trusted = TrustedNames::around(own.as_ref()).with_patterns(&patterns);
        let jobs = BTreeMap::new();
        Self { options, hierarchy, names, trusted, has_patterns, jobs, exhaustive: false, incomplete }
    }

    fn has(&self, name: &JobName) -> bool {
        self.jobs.values().any(|owner| name.is(owner))
    }

    /// The root and every directory above gpumap's own: in a container that
    /// sees the host's hierarchy, Slurm's scope is below the container's.
    fn usual_places(&mut self) {
        let hierarchy = self.hierarchy;
        self.anchors(&hierarchy.handle, b"");
        let own = hierarchy.own_cgroup().unwrap_or_default();
        for path in CgroupPath::new(&own).downwards().take(MAX_DEPTH).map(CgroupPath::as_bytes) {
            if self.trusted.numbered_job(path).is_some() {
                return;
            }
            let below = [b".".as_slice(), path].concat();
            match hierarchy.handle.child(OsStr::from_bytes(&below)) {
                Ok(dir) => self.anchors(&dir, path),
                Err(errno) => self.failed(errno),
            }
        }
    }

    fn everywhere(&mut self) {
        let hierarchy = self.hierarchy;
        self.exhaustive = true;
        self.walk(&hierarchy.handle, b"", MAX_DEPTH);
    }

    /// Jobs of the schedulers right below a directory, or in a slice there.
    fn anchors(&mut self, dir: &Dir, path: &[u8]) {
        self.each(dir, path, |search, dir, name, path| {
            if is_anchor(name) {
                search.down(dir, name, |search, dir| search.walk(dir, path, LEVELS));
            } else if name.to_bytes().ends_with(b".slice") {
                search.down(dir, name, |search, dir| search.scopes(dir, path));
            }
        });
    }

    fn scopes(&mut self, slice: &Dir, path: &[u8]) {
        self.each(slice, path, |search, dir, name, path| {
            if name.to_bytes().ends_with(b"slurmstepd.scope") {
                search.down(dir, name, |search, dir| search.walk(dir, path, LEVELS));
            }
        });
    }

    /// Looks for jobs this many levels down, but neither inside of jobs nor where
    /// users choose the names.
    fn walk(&mut self, dir: &Dir, path: &[u8], levels: usize) {
        self.each(dir, path, |search, dir, name, path| {
            // The name alone rules out nearly all.
            let likely = search.has_patterns || is_likely(name);
            let job = likely.then(|| search.trusted.numbered_job(path)).flatten();
            if let Some(owner) = job {
                search.job(dir, name, path, owner);
            } else if name.to_bytes().starts_with(b"user@") {
                // No scheduler is recognised there.
            } else if is_leaf(dir, name) {
                // Most cgroups are leaves: asked without opening them.
            } else if levels > 1 {
                search.down(dir, name, |search, dir| search.walk(dir, path, levels - 1));
            } else {
                search.incomplete |= search.exhaustive;
            }
        });
    }

    fn job(&mut self, above: &Dir, name: &CStr, path: &[u8], mut owner: Owner) {
        if self.jobs.contains_key(path) {
            return;
        }
        let asked = self.names.iter().any(|name| matches!(name, JobName::Number(_)));
        if asked && owner.job_id.is_none() {
            owner.job_id = self.number(above, name, path).unwrap_or_else(|errno| {
                self.failed(errno);
                None
            });
        }
        self.jobs.insert(path.to_vec(), owner);
    }

    /// The number of a job whose directory is named by its SLUID, from its step
    /// daemons.
    fn number(&self, above: &Dir, name: &CStr, path: &[u8]) -> Result<Option<u64>, Errno> {
        let job = above.child(name)?;
        let steps = job.subdirectories(job.stat()?)?;
        for step in steps.iter().filter(|name| name.to_bytes().starts_with(b"step_")) {
            // A step may end, or have no daemon.
            let Some(daemon) = job.child(step.as_c_str())?.child(c"slurm").or_removed()? else { continue };
            let mut pids = Vec::new();
            daemon.read_into(c"cgroup.procs", &mut pids, LIMIT)?;
            let place = [path, b"/", step.as_bytes(), b"/slurm"].concat();
            let pids = parse_pids(&pids).0;
            let number = step_daemon::job(self.options, self.hierarchy, &place.into(), &pids)?;
            if number.is_some() {
                return Ok(number);
            }
        }
        Ok(None)
    }

    /// Calls `visit` for every subdirectory, with its name and path.
    fn each(&mut self, dir: &Dir, path: &[u8], mut visit: impl FnMut(&mut Self, &Dir, &CStr, &[u8])) {
        let names = dir.stat().and_then(|stat| dir.subdirectories(stat));
        let names = names.unwrap_or_else(|errno| {
            self.failed(errno);
            Vec::new()
        });
        let mut below = [path, b"/"].concat();
        let length = below.len();
        for name in names {
            if self.options.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.incomplete = true;
                return;
            }
            below.truncate(length);
            below.extend_from_slice(name.as_bytes());
            visit(self, dir, &name, &below);
        }
    }

    fn down(&mut self, dir: &Dir, name: &CStr, visit: impl FnOnce(&mut Self, &Dir)) {
        match dir.child(name).and_then(|child| Ok((child.stat()?.uid, child))) {
            // Names in a user's directory were given by the user.
            Ok((uid, _)) if uid != 0 && self.hierarchy.sees_uids => {}
            Ok((_, child)) => visit(self, &child),
            Err(errno) => self.failed(errno),
        }
    }

    /// Records a directory that cannot be read, unless it is gone.
    fn failed(&mut self, errno: Errno) {
        self.incomplete |= !is_removal(errno);
    }

    fn targets(&self) -> Vec<CgroupTarget> {
        let asked = self.jobs.iter().filter(|(_, owner)| self.names.iter().any(|name| name.is(owner)));
        asked.map(|(path, _)| CgroupTarget::observed(path, true)).collect()
    }

    /// Forgets a directory that was removed between the search and the observation.
    fn vanished(&mut self, gone: &[u8]) -> Result<(), ObserveError> {
        self.jobs.retain(|path, _| !CgroupPath::new(path).is_at_or_below(CgroupPath::new(gone)));
        let missing = self.names.iter().find(|name| !self.has(name));
        missing.map_or(Ok(()), |name| Err(self.missing(name)))
    }

    /// Checks again for jobs that vanished before the walk reached them. A job that
    /// the walk did not reach in time is not one of these.
    fn still_there(mut self, mut observation: Observation) -> Result<Observation, ObserveError> {
        let seen: BTreeSet<_> = observation.cgroups.iter().map(|cgroup| cgroup.path.lossy()).collect();
        let gone = observation.errors.iter().filter(|problem| problem.code == ProblemCode::CgroupGone);
        let gone = gone.filter(|problem| !seen.contains(problem.what.as_str()));
        for problem in gone {
            self.vanished(problem.what.as_bytes())?;
        }
        drop(seen);
        observation.errors.extend(self.incomplete.then(incomplete));
        Ok(observation)
    }

    fn missing(&self, name: &JobName) -> ObserveError {
        let numbered = matches!(name, JobName::Number(_));
        let unnamed = self.jobs.values().filter(|owner| numbered && owner.job_id.is_none()).count();
        let root = self.hierarchy.mount.point.clone();
        ObserveError::NoSuchJob { job: name.clone(), root, unnamed, incomplete: self.incomplete }
    }
}

/// Whether a name is like `job_N`, `job-N`, `job.N` (LSF), a SLUID, or the name of a slice
/// or scope of OAR's or Grid Engine's, which have a number.
fn is_likely(name: &CStr) -> bool {
    let name = name.to_bytes();
    let is_units = name.ends_with(b".slice") || name.ends_with(b".scope");
    name.starts_with(b"job")
        || (name.len() == 14 && name.starts_with(b"s"))
        || (is_units && name.iter().any(u8::is_ascii_digit))
}

/// Whether a directory has none below, by its link count.
fn is_leaf(above: &Dir, name: &CStr) -> bool {
    // Of one that cannot be asked it is seen when it is opened.
    again(|| fstatat(above, name, AtFlags::AT_SYMLINK_NOFOLLOW)).is_ok_and(|stat| stat.st_nlink == 2)
}

/// Directories that schedulers make right below the root or in a slice.
fn is_anchor(name: &CStr) -> bool {
    let name = name.to_bytes();
    name.ends_with(b"slurmstepd.scope") || name == b"slurm" || name.starts_with(b"slurm_") || name == b"crane"
}

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
        itself: false,
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
        let (targets, is_incomplete) = find(options, hierarchy, job);
        log.problems.extend(is_incomplete.then(incomplete));
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

/// Observes the processes whose environment at exec may name the job `name`, and
/// nothing else of the node; see [`AskedName::numbers`]. Failures to read are in
/// `errors`.
///
/// # Errors
///
/// No cgroup hierarchy.
pub fn job_claims(options: &Options, name: &AskedName) -> Result<Observation, ObserveError> {
    let options = Options { detail: true, ..options.clone() };
    let mut log = Log::new(options.deadline);
    let hierarchy = Hierarchy::find(&options)?;
    let sieve = Sieve {
        uid: None,
        since: None,
        itself: true,
        matters: &|environment| name.may_be_said_by(environment),
    };
    let found = survey(&options, &hierarchy, &sieve, &mut log, &mut Vec::new());
    let mut observation = host::blank(&options, Some(&hierarchy));
    observation.processes = found.processes;
    // The owners of the directories above decide which names are trusted.
    let (mut plan, _) = WalkPlan::new(&hierarchy, &[])?;
    for process in &observation.processes {
        let path = CgroupPath::new(&process.cgroup);
        match hierarchy.has(path) {
            Ok(true) => _ = plan.mention(path),
            // It was removed, or is outside.
            Ok(false) => {}
            Err(errno) => log.failed(process.cgroup.lossy(), errno),
        }
    }
    let seen = walk::walk(&hierarchy, &plan, &mut log);
    observation.cgroups = seen.into_iter().map(|seen| seen.cgroup).collect();
    observation.errors.extend(log.problems);
    Ok(observation)
}
