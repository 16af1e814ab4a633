//! `leftovers --kill`: opens a pidfd of each process, observes all of them a second
//! time, and sends the signal to those that both observations call the job's.
//!
//! If both observations see the same start time at a pid, then the pidfd that was
//! opened in between refers to this very process: a pid that was given to another
//! process meanwhile would show another start time.
//!
//! Where processes of the job begin and end faster than they can be looked at, its cgroups
//! are frozen, so that every process in them can be looked at and ended by the same rule.
//! Only cgroups that are the job's by names that root's daemons gave are frozen, never one
//! that gpumap itself is in, and never the scheduler's own. They go on as soon as that is
//! done. Where all that is in such a cgroup is to be killed, `cgroup.kill` makes sure that
//! nothing slipped through (Linux 5.14).

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::Signal;

use crate::analyse;
use crate::cli::KillSignal;
use crate::commands::invocation::{Failure, Invocation};
use crate::model::{CgroupPath, ProblemCode};
use crate::observation::{self, Cgroup, Observation, Text};
use crate::observe::{self, Options, open_cgroup};
use crate::owner::JobName;
use crate::report::{Leftover, LeftoversAnswer};
use crate::sys::freezer::Frozen;
use crate::sys::pidfd::Pidfd;

/// Of a process that the second observation does not have among the leftovers.
pub(super) const GONE: &str = "it has ended, or is no longer a leftover";

/// Refuses options that observe other processes than those that run here now.
pub(super) fn refuse(invocation: &Invocation<'_>) -> Result<(), Failure> {
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
pub(super) fn end<'a>(
    leftovers: impl Iterator<Item = &'a mut Leftover>,
    signal: KillSignal,
    again: &mut dyn FnMut() -> Result<LeftoversAnswer, Failure>,
) -> Result<(), Failure> {
    let proc = Path::new("/proc");
    let ancestors = observe::ancestors(proc).map_err(|errno| {
        let why = format!("cannot tell which processes gpumap descends from: {errno}");
        Failure::new(ProblemCode::Unreadable, "--kill", why, "mount a proc file system")
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
    let now = again()?.leftovers;
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
pub(super) type Looked = (Observation, LeftoversAnswer);

/// Whether processes came and went, so that not all could be looked at, or what was found
/// had gone when it was to be ended, or others have taken the place of those that were.
///
/// # Errors
///
/// A look failed.
pub(super) fn is_needed(
    (observation, payload): &Looked,
    look: &mut dyn FnMut() -> Result<Looked, Failure>,
) -> Result<bool, Failure> {
    let all = || payload.leftovers.iter();
    let is_restless = observation.errors.iter().any(|problem| problem.code == ProblemCode::ShortLived);
    if is_restless || all().any(|it| it.spared.as_deref() == Some(GONE)) {
        return Ok(true);
    }
    let killed: BTreeSet<_> = all().filter(|it| it.killed == Some(true)).map(key).collect();
    if killed.is_empty() {
        return Ok(false);
    }
    let (_, now) = look()?;
    Ok(now.leftovers.iter().any(|it| it.spared.is_none() && !killed.contains(&key(it))))
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
pub(super) fn end_frozen(
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
    end(payload.leftovers.iter_mut(), signal, &mut || {
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

fn killed(payload: &LeftoversAnswer) -> BTreeSet<u32> {
    payload.leftovers.iter().filter(|it| it.killed == Some(true)).map(|it| it.process.pid).collect()
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
fn add(payload: &mut LeftoversAnswer, before: &LeftoversAnswer) {
    let now = &mut payload.leftovers;
    let known: BTreeSet<_> = now.iter().map(key).collect();
    let earlier = before.leftovers.iter().filter(|it| !known.contains(&key(it)));
    now.extend(earlier.cloned());
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;
    use crate::report::Process;

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").spawn().unwrap()
    }

    fn leftover(pid: u32, start_time: u64) -> Leftover {
        Leftover { process: Process { pid, start_time, ..Process::default() }, ..Leftover::default() }
    }

    fn run(mut before: Leftover, after: Vec<Leftover>) -> Leftover {
        let mut again = || Ok(LeftoversAnswer { leftovers: after.clone(), ..LeftoversAnswer::default() });
        end(std::iter::once(&mut before), KillSignal::Kill, &mut again).unwrap();
        before
    }

    /// Make sure that only a process that both looks agree on is ended: not a
    /// pid with another start time, nor one that is spared at the second look.
    #[test]
    fn two_looks() {
        let mut child = sleeper();
        let pid = child.id();
        let other = run(leftover(pid, 1), vec![leftover(pid, 2)]);
        assert_eq!((other.killed, other.spared.as_deref()), (Some(false), Some(GONE)));
        let spared = Leftover { spared: Some("x".to_owned()), ..leftover(pid, 1) };
        assert_eq!(run(leftover(pid, 1), vec![spared.clone()]).spared, spared.spared);
        assert_eq!(run(spared, vec![leftover(pid, 1)]).killed, Some(false));
        assert_eq!(child.try_wait().unwrap(), None);
        assert_eq!(run(leftover(pid, 1), vec![leftover(pid, 1)]).killed, Some(true));
        assert!(!child.wait().unwrap().success());
    }

    /// Make sure that gpumap does not end what started it.
    #[test]
    fn ancestors() {
        let parent = leftover(std::os::unix::process::parent_id(), 1);
        let spared = run(parent.clone(), vec![parent]);
        assert_eq!(
            (spared.killed, spared.spared.as_deref()),
            (Some(false), Some("gpumap was started by it"))
        );
    }
}
