//! Finds cgroups that one owner made and named like another's job.

use std::collections::BTreeSet;

use crate::audit::facts::Facts;
use crate::audit::kind::{Family, Kind};
use crate::audit::tenants::{Place, Tenant, whole};
use crate::audit::{finding, wording};
use crate::model::{Owner, OwnerKind, Severity};
use crate::report::Finding;

const FORGED: Kind = Kind {
    id: "forged-job-name",
    severity: Severity::Warning,
    title: "a cgroup inside one owner is called like another's job",
    page: "\
A user in a container, a job or a login may be able to make cgroups there, and may give them any name, such \
as slurmstepd.scope/job_71. gpumap believes a name only where root's daemons put such names (see OWNERS in \
gpumap(1)), so nothing inside counts for that job. Other tools that look for job_71 anywhere in a path \
believe it: they bill the job, end its processes, or overlook that two owners may open the same GPU.

Causes: a user wants to be taken for that job; or a container runs a scheduler of its own, which by chance \
gave the same number to a job.

Excuses: no job of that name is on the node, as when a container runs a scheduler of its own; a [[daemon]] \
entry of the configuration for the cgroup.

What to do: look at the processes there and ask the owner. A container that runs a scheduler of its own \
belongs into the configuration; run gpumap inside it to look at its jobs.",
};

pub(super) const FAMILY: Family = Family { kinds: &[FORGED], find };

fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let jobs: Vec<&Owner> =
        facts.tenants.iter().map(Tenant::owner).filter(|owner| owner.kind.is_job()).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for place in &facts.places {
        let Some(owner) = &place.cgroup.owner else { continue };
        let meant = owner.claims.iter().find_map(|claim| jobs.iter().find(|job| is_called_like(claim, job)));
        let Some(job) = meant.filter(|job| ***job != whole(owner)) else { continue };
        // One finding for all that one owner puts below one name.
        if !facts.is_daemon(&place.path.lossy()) && seen.insert((whole(owner), *job)) {
            found.push(report(*place, owner, job));
        }
    }
    found
}

/// Whether a claim names this job.
fn is_called_like(claim: &Owner, job: &Owner) -> bool {
    let same = |one: &Option<String>, other: &Option<String>| one.is_some() && one == other;
    let is_same_number = claim.job_id.is_some() && claim.job_id == job.job_id;
    let is_same_name = same(&claim.sluid, &job.sluid) || same(&claim.job, &job.job);
    let is_same_slot = claim.kind == OwnerKind::Htcondor && same(&claim.name, &job.name);
    claim.kind == job.kind && (is_same_number || is_same_name || is_same_slot)
}

fn report(place: Place<'_>, owner: &Owner, job: &Owner) -> Finding {
    let identity = whole(owner);
    let who = match (&identity.kind, &identity.name) {
        (OwnerKind::Cgroup, Some(path)) => format!("whoever made {path}"),
        (OwnerKind::User, _) => format!("user {}", identity.uid.unwrap_or_default()),
        (OwnerKind::Unit | OwnerKind::Session, name) => {
            format!(
                "{} {}",
                identity.kind,
                name.as_deref().or(identity.session.as_deref()).unwrap_or_default()
            )
        }
        _ => wording::owner(&identity),
    };
    let summary = format!("a cgroup of {who} is called like {}", wording::owner(job));
    let mut found = finding::about(&FORGED, place, summary);
    found.others = vec![job.clone()];
    found.evidence.insert(0, format!("{who} made this cgroup, or could have: it is not the scheduler's"));
    found.evidence.push(format!("{} is on this node, elsewhere", wording::owner(job)));
    found.excuses.push("a job of that name is on the node".to_owned());
    found.excuses.push("no [[daemon]] entry covers its cgroup".to_owned());
    found.advice =
        "look at the processes there and ask the owner; nothing of it counts for the job".to_owned();
    found
}
