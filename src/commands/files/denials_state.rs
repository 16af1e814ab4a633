//! The file that a running `gpumap denials --state` keeps: an observation with the refusals of
//! the last hour. `gpumap audit` takes them from it.

use std::path::Path;

use nix::unistd::geteuid;

use super::{may_be_there, name, read_believed, saved};
use crate::commands::invocation::{Failure, Invocation};
use crate::model::ProblemCode;
use crate::observation::{Observation, Refusals};

/// Where the file is looked for that nobody names.
const USUAL: &str = "/run/gpumap/denials.json";
/// What to do to have a file that can be used.
const KEEP_ONE: &str = "keep one with gpumap denials --state FILE";

/// Adds the refusals of a state file to an observation: of the named one, or of the usual one
/// where there is one. One that was named and cannot be used is a failure; the usual one is
/// then left out and this said.
pub(crate) fn add(
    invocation: &mut Invocation<'_>,
    path: Option<&Path>,
    observation: &mut Observation,
) -> Result<(), Failure> {
    if let Some(path) = path {
        observation.refusals = Some(take(invocation, path, false, observation)?);
        return Ok(());
    }
    let usual = Path::new(USUAL);
    if invocation.global.from.is_some() || !may_be_there(usual) {
        return Ok(());
    }
    match take(invocation, usual, true, observation) {
        Ok(refusals) => observation.refusals = Some(refusals),
        // Whoever may not read it has nothing to do about it.
        Err(_) if !geteuid().is_root() => {}
        Err(Failure::Problem(problem)) => {
            observation.remarks.push((*problem).clone());
            invocation.problems(std::slice::from_ref(&problem))?;
        }
        Err(failure) => return Err(failure),
    }
    Ok(())
}

/// The refusals in a state file of this boot.
fn take(
    invocation: &mut Invocation<'_>,
    path: &Path,
    is_roots: bool,
    observation: &Observation,
) -> Result<Box<Refusals>, Failure> {
    let bytes = read_believed(invocation, path, is_roots, KEEP_ONE)?;
    let kept = saved::parse(&bytes, &name(path))?;
    let failed = |why| Failure::new(ProblemCode::BadState, name(path), why, KEEP_ONE);
    if kept.host.boot_id.is_empty() || kept.host.boot_id != observation.host.boot_id {
        return Err(failed("written on another host or boot"));
    }
    kept.refusals.ok_or_else(|| failed("holds no refusals"))
}
