//! `gpumap leftovers`: processes that still hold GPUs of a job. `--kill` opens a pidfd of
//! each, observes all of them a second time and ends those that are still the job's; where
//! processes begin and end faster than they can be looked at, it freezes the job first.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::Signal;

use crate::cli::{Exit, KillSignal, LeftoversArgs};
use crate::commands::files::saved;
use crate::commands::invocation::{Failure, Invocation};
use crate::commands::subject::{allocation, job_name};
use crate::model::{CgroupPath, ProblemCode};
use crate::observation::{Cgroup, Observation, Problem, Text};
use crate::observe::{JobHook, Options, open_cgroup};
use crate::owner::JobName;
use crate::report::{Leftover, Payload};
use crate::sys::freezer::Frozen;
use crate::sys::pidfd::Pidfd;
use crate::{analyse, observation, observe, render};

/// Runs the command. One that is found is an answer, whatever else could not
/// be seen; that none was found is one only if everything was seen.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &LeftoversArgs) -> Result<Exit, Failure> {
    if args.porcelain && invocation.global.json {
        return Err(Failure::new(
            ProblemCode::Usage,
            "--porcelain",
            "does not go with --json",
            "choose one of the two",
        ));
    }
    if args.kill.is_some() {
        refuse(invocation)?;
    }
    allocation::request(invocation, &args.allocation.slurm)?;
    let job = job_name::one(invocation, args.job(), args.allocation.slurm.from_env)?;
    let granted = allocation::granted(&args.allocation);
    let options = invocation.options();
    let mut look = || -> Result<Looked, Failure> {
        let observation = observe(invocation, args, &job)?;
        let payload = analyse::leftovers(&observation, &job, &granted, &invocation.decoding)?;
        Ok((observation, payload))
    };
    let mut looked = look()?;
    if let Some(signal) = args.kill {
        let leftovers = looked.1.leftovers.iter_mut().flatten();
        end(leftovers, signal, &mut || Ok(look()?.1))?;
        if is_needed(&looked, &mut look)? {
            looked = end_frozen(&options, &job, signal, &looked, &mut look)?.unwrap_or(looked);
        }
    }
    let (observation, payload) = looked;
    let found = is_found(&payload);
    let complete = answer(invocation, args.porcelain, &job_name::text(&job), &observation, payload)?;
    Ok(if found { Exit::No } else { complete })
}

fn observe(
    invocation: &mut Invocation<'_>,
    args: &LeftoversArgs,
    job: &JobName,
) -> Result<Observation, Failure> {
    let slurm = &args.allocation.slurm;
    if let Some(mut observation) = saved::from_option(invocation)? {
        allocation::add(invocation, slurm, &mut observation)?;
        observation.errors.extend(undetailed(&observation));
        return Ok(observation);
    }
    let hook = match slurm.from_env {
        true => job_name::hook(),
        // The caller or this job's own hook named the job. Its start time shows
        // which processes cannot belong to it. Its user was not asked for.
        false if job_name::is_hooks(job) => JobHook { uid: None, ..job_name::hook() },
        false => JobHook::default(),
    };
    Ok(observe::leftovers(&invocation.options(), job, hook)?)
}

/// The problem of an observation without details of any process: a process that left
/// the job could not be found in it.
fn undetailed(observation: &Observation) -> Option<Problem> {
    if observation.processes.iter().any(|process| process.detail.is_some()) {
        return None;
    }
    Some(Problem {
        code: ProblemCode::NoDetails,
        what: "the saved observation".to_owned(),
        why: "does not tell what processes ask for and hold".to_owned(),
        needs: "take it anew with gpumap snapshot".to_owned(),
    })
}

fn answer(
    invocation: &mut Invocation<'_>,
    porcelain: bool,
    job: &str,
    observation: &Observation,
    payload: Payload,
) -> Result<Exit, Failure> {
    if porcelain {
        return invocation.answer(observation, payload, render::porcelain);
    }
    if !invocation.global.json {
        let _nobody_reads = render::notes(invocation.err, invocation.style.all, &payload);
    }
    let all_seen = observation.errors.is_empty();
    invocation.answer(observation, payload, |out, style, payload| {
        render::leftovers(out, style, payload, job, all_seen)
    })
}

/// Whether one of the job's was seen to hold a GPU; others may be unknown.
fn is_found(payload: &Payload) -> bool {
    payload.leftovers.iter().flatten().any(Leftover::is_found)
}

/// Of a process that the second observation does not have among the leftovers.
const GONE: &str = "it has ended, or is no longer a leftover";

/// Refuses options that observe other processes than those that run here now.
fn refuse(invocation: &Invocation<'_>) -> Result<(), Failure> {
    if invocation.global.from.is_some() {
        let needs = "leave --from out: what is saved may have ended, and its pid be another's";
        return Err(Failure::new(ProblemCode::Usage, "--kill", "ends processes of this node only", needs));
    }
    if invocation.global.proc != Path::new("/proc") {
        let needs = "leave --proc out: pids of another /proc may be other processes here";
        return Err(Failure::new(ProblemCode::Usage, "--kill", "ends processes of this node only", needs));
    }
    Ok(())
}

/// Ends the processes that may be ended, and returns what was done to each.
///
/// # Errors
///
/// The second observation failed; no process was ended.
fn end<'a>(
    leftovers: impl Iterator<Item = &'a mut Leftover>,
    signal: KillSignal,
    again: &mut dyn FnMut() -> Result<Payload, Failure>,
) -> Result<(), Failure> {
    let proc = Path::new("/proc");
    let ancestors = observe::ancestors(proc).map_err(|errno| {
        let why = format!("cannot tell which processes gpumap descends from: {errno}");
        Failure::new(ProblemCode::Unreadable, "--kill", why, "a mounted proc file system")
    })?;
    let mut pinned = Vec::new();
    for leftover in leftovers {
        if leftover.spared.is_none() && ancestors.contains(&leftover.process.pid) {
            leftover.spared = Some("gpumap was started by it".to_owned());
        }
        leftover.killed = Some(false);
        if leftover.spared.is_none() {
            match Pidfd::open(leftover.process.pid) {
                Ok(pidfd) => pinned.push((leftover, pidfd)),
                Err(errno) => leftover.spared = Some(why(errno)),
            }
        }
    }
    if pinned.is_empty() {
        return Ok(());
    }
    let now = again()?.leftovers.unwrap_or_default();
    for (leftover, pidfd) in pinned {
        match confirmed(leftover, &now).and_then(|()| pidfd.send(signal.into()).map_err(why)) {
            Ok(()) => leftover.killed = Some(true),
            Err(why) => leftover.spared = Some(why),
        }
    }
    Ok(())
}

/// Whether the second look says the same of the same process.
fn confirmed(leftover: &Leftover, now: &[Leftover]) -> Result<(), String> {
    let key = |it: &Leftover| (it.process.pid, it.process.start_time, it.process.uid);
    let same = now.iter().find(|other| key(other) == key(leftover));
    match same.map(|same| &same.spared) {
        None => Err(GONE.to_owned()),
        Some(None) => Ok(()),
        Some(Some(why)) => Err(why.clone()),
    }
}

fn why(errno: Errno) -> String {
    match errno {
        Errno::ESRCH => GONE.to_owned(),
        Errno::EPERM => "gpumap may not: this needs CAP_KILL in the user namespace of the process".to_owned(),
        Errno::ENOSYS => "the kernel cannot pin it: this needs Linux 5.3".to_owned(),
        errno => errno.desc().to_owned(),
    }
}

impl From<KillSignal> for Signal {
    fn from(signal: KillSignal) -> Self {
        match signal {
            KillSignal::Kill => Self::SIGKILL,
            KillSignal::Term => Self::SIGTERM,
            KillSignal::Int => Self::SIGINT,
            KillSignal::Hup => Self::SIGHUP,
        }
    }
}

/// How long a cgroup may take to stand still. It takes a millisecond unless a process waits
/// in the kernel.
const PATIENCE: Duration = Duration::from_millis(500);

/// A look at what is left of the job.
type Looked = (Observation, Payload);

/// Whether processes came and went, so that not all could be looked at, or what was found
/// had gone when it was to be ended, or others have taken the place of those that were.
///
/// # Errors
///
/// A look failed.
fn is_needed(
    (observation, payload): &Looked,
    look: &mut dyn FnMut() -> Result<Looked, Failure>,
) -> Result<bool, Failure> {
    let all = || payload.leftovers.iter().flatten();
    let is_restless = observation.errors.iter().any(|problem| problem.code == ProblemCode::ShortLived);
    if is_restless || all().any(|it| it.spared.as_deref() == Some(GONE)) {
        return Ok(true);
    }
    let killed: BTreeSet<_> = all().filter(|it| it.killed == Some(true)).map(key).collect();
    if killed.is_empty() {
        return Ok(false);
    }
    let (_, now) = look()?;
    Ok(now.leftovers.iter().flatten().any(|it| it.spared.is_none() && !killed.contains(&key(it))))
}

fn key(it: &Leftover) -> (u32, u64) {
    (it.process.pid, it.process.start_time)
}

/// Freezes the job's cgroups, looks again and ends what may be ended. Returns that look,
/// with what was found before; `None` if no cgroup could be frozen.
///
/// # Errors
///
/// A look failed.
fn end_frozen(
    options: &Options,
    job: &JobName,
    signal: KillSignal,
    before: &Looked,
    look: &mut dyn FnMut() -> Result<Looked, Failure>,
) -> Result<Option<Looked>, Failure> {
    let left = options.deadline.map(|end| end.saturating_duration_since(Instant::now()) / 4);
    let patience = left.map_or(PATIENCE, |left| left.min(PATIENCE));
    let frozen: Vec<(Text, Frozen)> = analyse::cgroups_of_job(&before.0, job)
        .filter(|cgroup| !is_around(&cgroup.path, before.0.own_cgroup.as_ref()))
        .filter_map(|cgroup| Some((cgroup.path.clone(), freeze(options, cgroup, patience)?)))
        .collect();
    if frozen.is_empty() {
        return Ok(None);
    }
    let (mut observation, mut payload) = look()?;
    let mut seen = observation.cgroups.clone();
    end(payload.leftovers.iter_mut().flatten(), signal, &mut || {
        let (again, payload) = look()?;
        seen.clone_from(&again.cgroups);
        Ok(payload)
    })?;
    let killed = killed(&payload);
    for (path, frozen) in &frozen {
        if signal == KillSignal::Kill && is_all_killed(&seen, path, &killed) {
            tell(frozen.kill(), path, &mut observation);
        }
    }
    add(&mut payload, &before.1);
    Ok(Some((observation, payload)))
}

/// A frozen cgroup; `None` if it is gone, or cannot be frozen: then it stays reported that
/// its processes come and go.
fn freeze(options: &Options, cgroup: &Cgroup, patience: Duration) -> Option<Frozen> {
    let dir = open_cgroup(options, &cgroup.path, cgroup.id).ok()?;
    Frozen::new(dir, patience).ok()
}

/// Whether gpumap is in this cgroup or below it.
fn is_around(path: &Text, own: Option<&Text>) -> bool {
    own.is_some_and(|own| CgroupPath::new(own).downwards().any(|above| above.as_bytes() == path.as_bytes()))
}

fn killed(payload: &Payload) -> BTreeSet<u32> {
    let all = payload.leftovers.iter().flatten();
    all.filter(|it| it.killed == Some(true)).map(|it| it.process.pid).collect()
}

/// Whether every process in a cgroup and below it was killed.
fn is_all_killed(seen: &[Cgroup], path: &Text, killed: &BTreeSet<u32>) -> bool {
    let is_below = |cgroup: &&Cgroup| {
        cgroup
            .path
            .as_bytes()
            .strip_prefix(path.as_bytes())
            .is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
    };
    let mut pids = seen.iter().filter(is_below).flat_map(|cgroup| &cgroup.pids).peekable();
    pids.peek().is_some() && pids.all(|pid| killed.contains(pid))
}

fn tell(result: Result<(), Errno>, path: &Text, observation: &mut Observation) {
    let Err(errno) = result else { return };
    // An older kernel, or a cgroup that is gone with all that was in it.
    if !matches!(errno, Errno::ENOENT | Errno::ENODEV) {
        observation.errors.push(observation::Problem {
            code: ProblemCode::Unreadable,
            what: format!("{}/cgroup.kill", path.lossy()),
            why: errno.desc().to_owned(),
            needs: String::new(),
        });
    }
}

/// Adds what was found before and is not in this answer.
fn add(payload: &mut Payload, before: &Payload) {
    let now = payload.leftovers.get_or_insert_default();
    let known: BTreeSet<_> = now.iter().map(key).collect();
    let earlier = before.leftovers.iter().flatten().filter(|it| !known.contains(&key(it)));
    now.extend(earlier.cloned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Process;

    /// Make sure that a process that could not be looked into is not reported as
    /// found.
    #[test]
    fn unseen_is_not_found() {
        let leftover = |held: Option<Vec<String>>| {
            let process = Process { held, ..Process::default() };
            Leftover { process, ..Leftover::default() }
        };
        let payload = |all: Vec<Leftover>| Payload { leftovers: Some(all), ..Payload::default() };
        let some = || Some(vec!["GPU-1".to_owned()]);
        assert!(!is_found(&payload(vec![])));
        assert!(!is_found(&payload(vec![leftover(None)])));
        assert!(is_found(&payload(vec![leftover(None), leftover(some())])));
    }
}

#[cfg(test)]
mod kill_tests {
    use super::*;
    use crate::report::Process;
    use std::process::{Child, Command};

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").spawn().unwrap()
    }

    fn leftover(pid: u32, start_time: u64) -> Leftover {
        Leftover { process: Process { pid, start_time, ..Process::default() }, ..Leftover::default() }
    }

    fn kill(mut before: Leftover, after: Vec<Leftover>) -> Leftover {
        let mut again = || Ok(Payload { leftovers: Some(after.clone()), ..Payload::default() });
        end(std::iter::once(&mut before), KillSignal::Kill, &mut again).unwrap();
        before
    }

    /// Make sure that only a process that both looks agree on is ended: not a
    /// pid with another start time, nor one that is spared at the second look.
    #[test]
    fn two_looks() {
        let mut child = sleeper();
        let pid = child.id();
        let other = kill(leftover(pid, 1), vec![leftover(pid, 2)]);
        assert_eq!((other.killed, other.spared.as_deref()), (Some(false), Some(GONE)));
        let spared = Leftover { spared: Some("x".to_owned()), ..leftover(pid, 1) };
        assert_eq!(kill(leftover(pid, 1), vec![spared.clone()]).spared, spared.spared);
        assert_eq!(kill(spared, vec![leftover(pid, 1)]).killed, Some(false));
        assert_eq!(child.try_wait().unwrap(), None);
        assert_eq!(kill(leftover(pid, 1), vec![leftover(pid, 1)]).killed, Some(true));
        assert!(!child.wait().unwrap().success());
    }

    /// Make sure that gpumap does not end what started it.
    #[test]
    fn ancestors() {
        let parent = leftover(std::os::unix::process::parent_id(), 1);
        let spared = kill(parent.clone(), vec![parent]);
        assert_eq!(
            (spared.killed, spared.spared.as_deref()),
            (Some(false), Some("gpumap was started by it"))
        );
    }
}
