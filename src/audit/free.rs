//! Whether GPUs are free for the next job: every process that holds one of them, but for
//! the job's own and for daemons that hold GPUs all the time.

use super::config::Config;
use super::facts::Facts;
use super::findings::is_standing;
use crate::analyse::{AnalyseError, CallerAllocation, Inspection, TimeLimit, is_in_cgroup_of};
use crate::model::{GpuKey, InOrder as _, Vacancy};
use crate::observation::Observation;
use crate::owner::JobName;
use crate::report::{Free, FreeAnswer, GpuSet, Holder, Process};

/// Whether the GPUs of an allocation, of a job or, where neither is named, of the node are
/// free of everybody but that job.
///
/// # Errors
///
/// As [`crate::analyse::node()`].
pub fn free(
    observation: &Observation,
    job: Option<&JobName>,
    granted: &CallerAllocation,
    config: &Config,
    limit: &TimeLimit,
) -> Result<FreeAnswer, AnalyseError> {
    let inspection = Inspection::new(observation, granted, limit)?;
    let facts = Facts::new(&inspection, config);
    let asked = inspection.asked(job, granted)?;
    let holders = holders(&facts, job, &asked);
    let free = Free {
        state: state(&asked, &holders),
        asked,
        job: job.map(ToString::to_string),
        job_id: job.and_then(JobName::number),
        holders,
    };
    Ok(FreeAnswer { gpus: facts.gpus().to_vec(), free })
}

fn holders(facts: &Facts<'_>, job: Option<&JobName>, asked: &GpuSet) -> Vec<Holder> {
    let places = facts.places.iter().copied();
    let own = |owner| job.is_some_and(|job| is_in_cgroup_of(owner, job));
    let others = places.filter(|place| !place.cgroup.owner.as_ref().is_some_and(own));
    let all = others.flat_map(|place| place.cgroup.processes.iter().map(move |process| (place, process)));
    let found = all.filter_map(|(place, process)| {
        let gpus = held_of(process, asked);
        if gpus.as_ref().is_some_and(Vec::is_empty) {
            return None;
        }
        let standing = is_standing(facts, process, place);
        Some(Holder { process: process.clone(), owner: place.cgroup.owner.clone(), gpus, standing })
    });
    let mut found: Vec<Holder> = found.collect();
    found.order_by_key(|holder| holder.process.pid);
    found
}

/// Those of the GPUs asked about that a process holds; `None` if that is not known, and it
/// may hold one.
fn held_of(process: &Process, asked: &GpuSet) -> Option<Vec<GpuKey>> {
    let is_about_none = asked.gpus.as_ref().is_some_and(Vec::is_empty) && asked.instances.is_empty();
    if is_about_none && asked.unknown.is_empty() {
        return Some(Vec::new());
    }
    let keys = asked.gpus.iter().flatten().chain(&asked.unknown);
    // Of a GPU of which instances were asked about, these count: others may have the rest.
    let is_split = |key: &&GpuKey| asked.instances.iter().any(|one| one.is_on(key));
    let held = process.held.iter().flatten();
    let is_held = |key: &&GpuKey| held.clone().chain(&process.held_instances).any(|held| held == *key);
    let found: Vec<GpuKey> =
        keys.filter(|key| !is_split(key)).chain(&asked.instances).filter(is_held).cloned().collect();
    let is_known = process.kernel_thread || process.held.is_some() && process.held_unknown.is_none();
    if found.is_empty() && !is_known { None } else { Some(found) }
}

fn state(asked: &GpuSet, holders: &[Holder]) -> Vacancy {
    let counts = || holders.iter().filter(|holder| !holder.standing);
    let is_held = |holder: &Holder| {
        let certain = |key: &GpuKey| !asked.unknown.contains(key);
        holder.gpus.iter().flatten().any(certain)
    };
    if counts().any(is_held) {
        Vacancy::Held
    } else if asked.gpus.is_none() || !asked.unknown.is_empty() || counts().next().is_some() {
        Vacancy::Unknown
    } else {
        Vacancy::Free
    }
}
