//! Finds the processes and cgroups that a command was asked to follow.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::commands::invocation::{Failure, Invocation, cgroup_paths};
use crate::commands::subject::job::{self, JobPart};
use crate::model::CgroupPath;
use crate::observation::{Observation, Text};
use crate::observe::{self, CgroupTarget, Options};
use crate::watch::ProcessScope;

/// Whom a command follows.
#[derive(Debug, Default)]
pub(in crate::commands) struct Followed {
    /// Their processes.
    pub(in crate::commands) processes: ProcessScope,
    /// The cgroups that were named, with everything below them.
    cgroups: Vec<Text>,
}

/// Whom to follow: the processes, cgroups and jobs that are named, or everything.
pub(in crate::commands) fn of(
    invocation: &Invocation<'_>,
    pids: &[u32],
    cgroups: &[PathBuf],
    jobs: &[String],
) -> Result<Followed, Failure> {
    let options = Options { detail: false, ..invocation.options() };
    let mut followed = Followed::default();
    followed.processes.pids = pids.to_vec();
    if !pids.is_empty() {
        observe::processes(&options, pids)?;
    }
    if !cgroups.is_empty() {
        let paths: Vec<&Path> = cgroups.iter().map(PathBuf::as_path).collect();
        followed.add(&cgroup_paths::observe(invocation, &paths, false)?);
    }
    for asked in job::all(jobs, false)? {
        let job = job::live(invocation, &asked.job)?;
        let mut observation = observe::jobs(&options, std::slice::from_ref(&job))?;
        if asked.step.is_some() {
            job::narrow(&mut observation, &[JobPart { job, step: asked.step }])?;
        }
        followed.add(&observation);
    }
    followed.processes.all = pids.is_empty() && followed.cgroups.is_empty();
    Ok(followed)
}

impl Followed {
    /// The cgroups whose programs are watched: those that were named with
    /// everything below, those of the processes, or all.
    pub(in crate::commands) fn targets(
        &self,
        invocation: &Invocation<'_>,
    ) -> Result<Vec<CgroupTarget>, Failure> {
        if self.processes.all {
            return Ok(vec![CgroupTarget::all()]);
        }
        let options = invocation.options();
        let cgroups = self.cgroups.iter().map(|path| Ok(CgroupTarget::observed(path, true)));
        let of = |pid: &u32| Ok(CgroupTarget::observed(observe::pid_cgroup(&options, *pid)?, false));
        cgroups.chain(self.processes.pids.iter().map(of)).collect()
    }

    fn add(&mut self, observation: &Observation) {
        let root = Path::new(&observation.host.cgroup_root);
        for one in &observation.scope {
            let below = OsStr::from_bytes(CgroupPath::new(&one.path).relative());
            self.processes.cgroups.push(root.join(below));
            self.cgroups.push(one.path.clone());
        }
    }
}
