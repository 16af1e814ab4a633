//! Which job the environment of a process names: one of the node, or, inside a
//! container that runs a Slurm of its own, one of that Slurm.

use std::collections::{BTreeMap, HashMap};

use crate::audit::facts::{Facts, whole};
use crate::audit::wording;
use crate::model::Owner;
use crate::owner::{JobName, inner_job, runs_slurm};
use crate::report::Claim;

/// A job that an environment names.
#[derive(Clone, Debug)]
pub(super) struct NamedJob {
    /// The job; one of a container as the container's claim.
    pub(super) owner: Owner,
    /// Its cgroups, by place in the answer.
    pub(super) cgroups: Vec<usize>,
}

/// Jobs by number or SLUID: whichever their paths have.
type Jobs = BTreeMap<JobName, NamedJob>;

/// Containers that run a Slurm, with that Slurm's jobs.
#[derive(Debug)]
pub(super) struct InnerJobs {
    by_container: HashMap<Owner, Jobs>,
}

impl InnerJobs {
    /// Those of a node.
    pub(super) fn of(facts: &Facts<'_>) -> Self {
        let mut by_container: HashMap<Owner, Jobs> = HashMap::new();
        for (place, cgroup) in facts.cgroups().iter().enumerate() {
            let Some(owner) = cgroup.owner.as_ref().filter(|owner| runs_slurm(owner)) else { continue };
            let container = whole(owner);
            let jobs = by_container.entry(container.clone()).or_default();
            let Some(job) = inner_job(owner) else { continue };
            let name = job.job_id.map(JobName::Number).or_else(|| job.sluid.clone().map(JobName::Sluid));
            let Some(name) = name else { continue };
            let new =
                || NamedJob { owner: Owner { claims: vec![whole(job)], ..container }, cgroups: Vec::new() };
            jobs.entry(name).or_insert_with(new).cgroups.push(place);
        }
        Self { by_container }
    }

    /// The job that a claim at this place names.
    pub(super) fn named(&self, facts: &Facts<'_>, place: usize, claim: &Claim) -> Option<NamedJob> {
        if let Some((_, jobs)) = self.container(facts, place) {
            let number = claim.job_id.map(JobName::Number);
            let sluid = claim.sluid.clone().map(JobName::Sluid);
            return number.into_iter().chain(sluid).find_map(|name| jobs.get(&name)).cloned();
        }
        let tenant = facts.tenants.iter().find(|tenant| names(claim, &tenant.sets.owner))?;
        Some(NamedJob { owner: tenant.sets.owner.clone(), cgroups: tenant.cgroups.clone() })
    }

    /// Where the jobs are that environments at this place name, in words.
    pub(super) fn place(&self, facts: &Facts<'_>, place: usize) -> String {
        let container = self.container(facts, place);
        container
            .map_or_else(|| "on this node".to_owned(), |(owner, _)| format!("in {}", wording::owner(owner)))
    }

    /// The container around this place that runs a Slurm.
    pub(super) fn container(&self, facts: &Facts<'_>, place: usize) -> Option<(&Owner, &Jobs)> {
        let owner = facts.cgroups().get(place)?.owner.as_ref()?;
        std::iter::successors(Some(owner), |owner| owner.outer.as_deref())
            .find_map(|owner| self.by_container.get_key_value(&whole(owner)))
    }
}

/// Whether a claim names this job.
fn names(claim: &Claim, job: &Owner) -> bool {
    let number = claim.job_id.is_some() && claim.job_id == job.job_id;
    job.kind.is_slurm() && (number || claim.sluid.is_some() && claim.sluid == job.sluid)
}
