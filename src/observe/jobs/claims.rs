//! Finds processes whose environment names a job. This leads to the number of an
//! array task, or of a component of a heterogeneous job.

use crate::model::CgroupPath;
use crate::observation::Observation;
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::cgroups::walk;
use crate::observe::cgroups::walk::WalkPlan;
use crate::observe::error::ObserveError;
use crate::observe::host;
use crate::observe::options::Options;
use crate::observe::problems::Log;
use crate::observe::processes::sieve::Sieve;
use crate::observe::processes::survey::survey;
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
    let sieve = Sieve { uid: None, since: None, matters: &|environment| name.may_be_said_by(environment) };
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
