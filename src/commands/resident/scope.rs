//! Finds the processes and cgroups that a command was asked to follow.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::commands::invocation::{Failure, Invocation, cgroup_paths};
use crate::commands::subject::job_cgroups::JobPart;
use crate::commands::subject::{job_cgroups, job_name};
use crate::observation::Observation;
use crate::observe::{self, CgroupTarget, Options};
use crate::watch::ProcessScope;

/// Whom to follow: the processes, cgroups and jobs that are named, or everything.
pub(in crate::commands) fn of(
    invocation: &Invocation<'_>,
    pids: &[u32],
    cgroups: &[PathBuf],
    jobs: &[String],
) -> Result<ProcessScope, Failure> {
    let options = Options { detail: false, ..invocation.options() };
    let mut scope = ProcessScope { pids: pids.to_vec(), ..ProcessScope::default() };
    if !pids.is_empty() {
        observe::processes(&options, pids)?;
    }
    if !cgroups.is_empty() {
        let paths: Vec<&Path> = cgroups.iter().map(PathBuf::as_path).collect();
        add(&mut scope, &cgroup_paths::observe(invocation, &paths, false)?);
    }
    for asked in job_name::all(jobs, false)? {
        let job = job_name::live(invocation, &asked.job)?;
        let mut observation = observe::jobs(&options, std::slice::from_ref(&job))?;
        if asked.step.is_some() {
            job_cgroups::narrow(&mut observation, &[JobPart { job, step: asked.step }])?;
        }
        add(&mut scope, &observation);
    }
    scope.all = scope.pids.is_empty() && scope.cgroups.is_empty();
    Ok(scope)
}

/// The cgroups whose programs are watched: those that were named with
/// everything below, those of the processes, or all.
pub(in crate::commands) fn targets(
    invocation: &Invocation<'_>,
    scope: &ProcessScope,
) -> Result<Vec<CgroupTarget>, Failure> {
    if scope.all {
        return Ok(vec![CgroupTarget { path: "/".into(), recursive: true }]);
    }
    let cgroups = scope.cgroups.iter().map(|path| Ok(CgroupTarget { path: path.clone(), recursive: true }));
    let of = |pid: &u32| {
        Ok(CgroupTarget { path: observe::pid_cgroup(&invocation.options(), *pid)?, recursive: false })
    };
    cgroups.chain(scope.pids.iter().map(of)).collect()
}

fn add(scope: &mut ProcessScope, observation: &Observation) {
    let root = Path::new(&observation.host.cgroup_root);
    for one in &observation.scope {
        let path = Path::new(OsStr::from_bytes(one.path.as_bytes()));
        scope.cgroups.push(root.join(path.strip_prefix("/").unwrap_or(path)));
    }
}
