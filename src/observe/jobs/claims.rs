//! Finds processes whose environment names a job. This leads to the number of an
//! array task, or of a component of a heterogeneous job.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::model::ProblemCode;
use crate::observation::{Environment, Observation};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::cgroups::walk;
use crate::observe::cgroups::walk::WalkPlan;
use crate::observe::error::ObserveError;
use crate::observe::host;
use crate::observe::options::Options;
use crate::observe::problems::Log;
use crate::observe::processes::survey::ProcessFilter;
use crate::observe::processes::{by_pid, survey};
use crate::owner::AskedName;

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
    let names = |environment: &Environment| name.may_be_said_by(environment);
    let found = survey::survey(&options.proc, ProcessFilter::default(), &mut log, &mut Vec::new(), names)
        .unwrap_or_else(|errno| {
            let proc = options.proc.to_string_lossy().into_owned();
            log.add(ProblemCode::Unreadable, proc, errno.to_string(), "a mounted proc file system");
            Vec::new()
        });
    let pids: Vec<u32> = found.iter().map(|(pid, _)| *pid).collect();
    // Processes that have ended no longer matter.
    let processes = by_pid::read_all(&options, &hierarchy, &pids, &mut Log::new(options.deadline));
    let mut observation = host::blank(&options, Some(&hierarchy));
    observation.processes = processes.unwrap_or_default();
    observation.processes.retain(|process| found.contains(&(process.pid, process.start_time)));
    // The owners of the directories above decide which names are trusted.
    let (mut plan, _) = WalkPlan::new(&hierarchy, &[])?;
    for process in &observation.processes {
        if let Ok(parts) = hierarchy.resolve(Path::new(OsStr::from_bytes(process.cgroup.as_bytes()))) {
            plan.mention(parts);
        }
    }
    let seen = walk::walk(&hierarchy, &plan, &mut Log::new(options.deadline));
    observation.cgroups = seen.into_iter().map(|seen| seen.cgroup).collect();
    observation.errors.extend(log.problems);
    Ok(observation)
}
