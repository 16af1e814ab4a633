//! The file that a running `gpumap activity --state` keeps: an observation with the
//! newest counts. Other commands take the counts from it.
//!
//! What the file says is believed, so it must be root's, or the caller's own, and
//! nobody else may write it.

use std::io::{BufReader, Read as _};
use std::path::Path;

use jiff::SignedDuration;
use nix::unistd::geteuid;

use super::{may_be_there, name, read_believed, saved};
use crate::commands::invocation::{Failure, Invocation};
use crate::model::ProblemCode;
use crate::observation::{ActivityReading, Observation, OwnerTotals, Problem, SCHEMA};
use crate::observe;
use crate::sys::dir::open_readable;

/// Where the file is looked for that nobody names.
pub(crate) const USUAL: &str = "/run/gpumap/activity.json";

/// Counts are old when so many readings should have followed, and no less than this
/// many seconds have passed.
const MISSED_READINGS: i64 = 5;
const LEAST_AGE: i64 = 30;

/// What to do to have a file that can be used.
const KEEP_ONE: &str = "keep one with gpumap activity --state FILE";

/// Bytes of a file in which its key `schema` is looked for. gpumap writes that key
/// first; another tool may have put it behind everything else.
const LOOKED_AT: u64 = 64 << 20;

/// Whether a regular file is an observation, by its schema. Reading ends there.
pub(crate) fn is_observation(path: &Path) -> bool {
    let Ok(file) = open_readable(path) else { return false };
    // A FIFO could be read only once.
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    saved::schema(BufReader::new(file.take(LOOKED_AT))).is_some_and(|schema| schema == SCHEMA)
}

/// Adds the counts of a state file to an observation: of the named one, or of the
/// usual one where there is one. One that was named and cannot be used is a failure,
/// or a problem where it is only old; the usual one is then left out and this said.
pub(crate) fn add(
    invocation: &mut Invocation<'_>,
    path: Option<&Path>,
    observation: &mut Observation,
) -> Result<(), Failure> {
    match add_silently(invocation, path, observation)? {
        Some(problem) => invocation.problems(std::slice::from_ref(&problem)),
        None => Ok(()),
    }
}

/// The same for a command that looks again and again: what is to be said of the usual
/// file is the answer.
pub(crate) fn add_silently(
    invocation: &mut Invocation<'_>,
    path: Option<&Path>,
    observation: &mut Observation,
) -> Result<Option<Problem>, Failure> {
    match path {
        Some(path) => {
            let bytes = read_believed(invocation, path, false, KEEP_ONE)?;
            let found = parse(&bytes, &name(path), observation)?;
            match age_of(&found, observation) {
                None => observation.activity = Some(Box::new(found)),
                Some(age) => observation.errors.push(old(path, age)),
            }
            Ok(None)
        }
        None if invocation.global.from.is_some() => Ok(None),
        None => add_usual(invocation, Path::new(USUAL), observation),
    }
}

/// Adds the counts of the usual file; says why not.
fn add_usual(
    invocation: &mut Invocation<'_>,
    path: &Path,
    observation: &mut Observation,
) -> Result<Option<Problem>, Failure> {
    if !may_be_there(path) {
        return Ok(None);
    }
    let found = read_believed(invocation, path, true, KEEP_ONE)
        .and_then(|bytes| parse(&bytes, &name(path), observation));
    let problem = match found {
        Ok(found) => match age_of(&found, observation) {
            None => {
                observation.activity = Some(Box::new(found));
                return Ok(None);
            }
            Some(age) => old(path, age),
        },
        // Whoever may not read it has nothing to do about it.
        Err(_) if !geteuid().is_root() => return Ok(None),
        Err(Failure::Problem(problem)) => *problem,
        Err(failure) => return Err(failure),
    };
    observation.remarks.push(problem.clone());
    Ok(Some(problem))
}

/// All that a state file of this boot holds, however old that is.
pub(crate) fn whole(invocation: &mut Invocation<'_>, path: &Path) -> Result<Observation, Failure> {
    let bytes = read_believed(invocation, path, path == Path::new(USUAL), KEEP_ONE)?;
    let kept = saved::parse(&bytes, &name(path))?;
    let boot = observe::this_boot(&invocation.options());
    let boot = boot.map_err(|(file, errno)| Failure::file(&file, &errno.into()))?;
    if kept.host.boot_id != boot {
        let why = "written on another host or boot";
        return Err(Failure::new(ProblemCode::BadState, name(path), why, KEEP_ONE));
    }
    Ok(kept)
}

/// What a gpumap before this one kept of owners in a state file; nothing where that is
/// none that can be believed, of this boot.
pub(crate) fn totals(invocation: &mut Invocation<'_>, path: &Path) -> Vec<OwnerTotals> {
    let kept = whole(invocation, path).ok().and_then(|kept| kept.activity);
    kept.map(|reading| reading.totals).unwrap_or_default()
}

/// The counts in a state file of this boot.
fn parse(bytes: &[u8], name: &str, observation: &Observation) -> Result<ActivityReading, Failure> {
    let kept = saved::parse(bytes, name)?;
    let (theirs, ours) = (&kept.host.boot_id, &observation.host.boot_id);
    if theirs.is_empty() || theirs != ours {
        return Err(Failure::new(ProblemCode::BadState, name, "written on another host or boot", KEEP_ONE));
    }
    let reading = kept
        .activity
        .ok_or_else(|| Failure::new(ProblemCode::BadState, name, "holds no counts of calls", KEEP_ONE))?;
    Ok(*reading)
}

/// How old counts are, if that is too old, or if they are of a time to come: then the
/// clock was set back since, and nothing tells how old they are.
fn age_of(reading: &ActivityReading, observation: &Observation) -> Option<SignedDuration> {
    let Some(age) = observation.taken_at.since(&reading.at) else { return Some(SignedDuration::MAX) };
    let every = i64::try_from(reading.every_ms / 1000).unwrap_or(i64::MAX);
    let most = SignedDuration::from_secs(every.saturating_mul(MISSED_READINGS).max(LEAST_AGE));
    (age > most || -age > SignedDuration::from_secs(LEAST_AGE)).then_some(age)
}

fn old(path: &Path, age: SignedDuration) -> Problem {
    let seconds = age.as_secs();
    let why = match seconds {
        ..0 => format!(
            "its counts are of {} seconds from now and not used: the clock was set back, so how old they are is \
             not known",
            seconds.unsigned_abs()
        ),
        _ => format!(
            "its counts are {seconds} seconds old and not used: the gpumap that kept it has ended, or does not get on"
        ),
    };
    Problem {
        code: ProblemCode::BadState,
        what: path.to_string_lossy().into_owned(),
        why,
        needs: KEEP_ONE.to_owned(),
    }
}
