//! Cgroups as users name them: by path, by a process of theirs, and, where there is none of
//! that path, those of the same name elsewhere.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::cli::target;
use crate::commands::invocation::{Failure, Invocation};
use crate::model::{CgroupPath, CgroupPathBuf, ProblemCode};
use crate::observation::Observation;
use crate::observe::{self, CgroupTarget, ObserveError};

/// Cgroups that a message proposes.
const PROPOSED: usize = 3;

/// The cgroup of the live node that a path means; that of the process for `/proc/PID`.
pub(crate) fn live(invocation: &Invocation<'_>, path: &Path) -> Result<CgroupPathBuf, Failure> {
    let options = invocation.options();
    Ok(match target::process_of(path) {
        Some(pid) => observe::pid_cgroup(&options, pid)?,
        None => observe::path_cgroup(&options, path).map_err(|error| failed(invocation, error))?,
    })
}

/// Observes cgroups of the live node.
pub(crate) fn observe(
    invocation: &Invocation<'_>,
    paths: &[&Path],
    recursive: bool,
) -> Result<Observation, Failure> {
    let target = |path: &&Path| match target::process_of(path) {
        Some(_) => Ok(CgroupTarget::observed(live(invocation, path)?, recursive)),
        None => Ok(CgroupTarget::typed(*path, recursive)),
    };
    let targets: Vec<CgroupTarget> = paths.iter().map(target).collect::<Result<_, Failure>>()?;
    observe::cgroups(&invocation.options(), &targets).map_err(|error| failed(invocation, error))
}

/// The failure; where there is no such cgroup, with those that may be meant.
fn failed(invocation: &Invocation<'_>, error: ObserveError) -> Failure {
    let ObserveError::NoSuchCgroup { path, .. } = &error else { return error.into() };
    let named = path.file_name().unwrap_or_default();
    let near = observe::cgroups_named(&invocation.options(), named, PROPOSED);
    let needs = proposal(path, near.iter().map(AsRef::as_ref));
    Failure::new(ProblemCode::NoCgroup, "", error.to_string(), &needs)
}

/// What helps where an observation holds no cgroup of this path.
pub(crate) fn in_saved(observation: &Observation, path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let paths = observation.cgroups.iter().map(|cgroup| cgroup.path.as_bytes());
    let is_called = |path: &&[u8]| CgroupPath::new(*path).may_be_called(name);
    proposal(path, paths.filter(is_called).take(PROPOSED))
}

fn proposal<'a>(path: &Path, near: impl Iterator<Item = &'a [u8]>) -> String {
    let near: Vec<_> = near.map(|path| OsStr::from_bytes(path).to_string_lossy()).collect();
    let is_file = path.extension().is_some_and(|ending| ["json", "gz", "zst"].iter().any(|it| ending == *it));
    match near.as_slice() {
        [] if is_file => {
            let file = path.display();
            format!("a file is written with gpumap snapshot -o {file}, and read with gpumap --from {file}")
        }
        [] => String::new(),
        near => format!("is {} meant?", near.join(" or ")),
    }
}
