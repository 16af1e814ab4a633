//! `leftovers --kill` where processes of the job begin and end faster than they can be
//! looked at: its cgroups are frozen, so that every process in them can be looked at and
//! ended by the same rule as always.
//!
//! Only cgroups that are the job's by names that root's daemons gave are frozen, never one
//! that gpumap itself is in, and never the scheduler's own. They go on as soon as that is
//! done. Where all that is in such a cgroup is to be killed, `cgroup.kill` makes sure that
//! nothing slipped through (Linux 5.14).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::kill;
use crate::cli::KillSignal;
use crate::commands::invocation::Failure;
use crate::model::{CgroupPath, ProblemCode};
use crate::observation::{Cgroup, Observation, Text};
use crate::observe::{Options, open_cgroup};
use crate::owner::JobName;
use crate::report::{Leftover, LeftoversAnswer};
use crate::sys::freezer::Frozen;
use crate::{analyse, observation};

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
    if is_restless || all().any(|it| it.spared.as_deref() == Some(kill::GONE)) {
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
pub(super) fn end(
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
    kill::end(payload.leftovers.iter_mut(), signal, &mut || {
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
