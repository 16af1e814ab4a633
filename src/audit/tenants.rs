//! Tenants, owners whose GPUs are theirs alone, with their cgroups: what each may open by
//! its own cgroups, and which of them may have a GPU in common.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::wording;
use crate::model::{CgroupPath, Owner, SharingMode, Verdict};
use crate::observation::Text;
use crate::report::{Cgroup, Gpu, GpuVerdict, MigInstance, OwnerSets, Policy, Process};

/// A cgroup of the answer, with its path as it was observed. Places are in walk
/// order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) cgroup: &'a Cgroup,
    pub(super) path: &'a Text,
    pub(super) number: usize,
}

impl PartialEq for Place<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Place<'_> {}

impl PartialOrd for Place<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Place<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.number.cmp(&other.number)
    }
}

impl<'a> Place<'a> {
    /// The verdict (`rw`) on a GPU of the node.
    pub(super) fn verdict(&self, gpu: &Gpu) -> Verdict {
        let mut verdicts = self.cgroup.gpus.iter();
        verdicts.find(|verdict| verdict.gpu == gpu.key).map_or(Verdict::Unknown, |gpu| gpu.verdict)
    }

    /// The processes inside that have a GPU open.
    pub(super) fn holders(&self) -> impl Iterator<Item = &'a Process> + use<'a> {
        let holds = |process: &&Process| process.held.as_ref().is_some_and(|held| !held.is_empty());
        self.cgroup.processes.iter().filter(holds)
    }

    /// The ids of the programs in force, in run order.
    pub(super) fn program_ids(&self) -> Vec<u32> {
        self.cgroup.programs.iter().map(|program| program.id).collect()
    }
}

/// An owner whose GPUs are its own.
#[derive(Clone, Debug)]
pub(super) struct Tenant<'a> {
    /// Its row: the four sets.
    pub(super) sets: &'a OwnerSets,
    /// Its cgroups, the topmost first, without those of the scheduler or runtime
    /// itself.
    pub(super) cgroups: Vec<Place<'a>>,
    /// The cgroups that no tenant inside it has.
    pub(super) own: Vec<Place<'a>>,
    /// Those of its own with processes: what may be opened there matters now.
    pub(super) occupied: Vec<Place<'a>>,
    /// Whether a program is in force on one of those with processes.
    pub(super) has_program: bool,
    /// Whether one of those with processes is denied a GPU.
    pub(super) denies_some: bool,
    /// Whether all of those with processes may open every device there is.
    pub(super) privileged: bool,
}

impl<'a> Tenant<'a> {
    pub(super) fn new(sets: &'a OwnerSets, cgroups: Option<Vec<Place<'a>>>) -> Self {
        Self {
            sets,
            cgroups: cgroups.unwrap_or_default(),
            own: Vec::new(),
            occupied: Vec::new(),
            has_program: false,
            denies_some: false,
            privileged: false,
        }
    }

    /// Looks at its own cgroups, which are known by now.
    pub(super) fn describe(&mut self, policies: &BTreeMap<String, Policy>) {
        let lives = |place: &Place<'_>| !place.cgroup.processes.is_empty();
        self.occupied = self.own.iter().copied().filter(lives).collect();
        let inside = || self.occupied.iter().map(|place| place.cgroup);
        let is_denied = |gpu: &GpuVerdict| gpu.verdict == Verdict::Deny && gpu.minor.is_some();
        self.has_program = inside().any(|cgroup| !cgroup.programs.is_empty());
        self.denies_some = inside().any(|cgroup| cgroup.gpus.iter().any(is_denied));
        self.privileged =
            inside().all(|cgroup| policies.get(&cgroup.policy).is_some_and(Policy::allows_everything));
    }

    /// Who it is.
    pub(super) fn owner(&self) -> &'a Owner {
        &self.sets.owner
    }

    /// Whether the two are one.
    pub(super) fn is(&self, other: &Tenant<'_>) -> bool {
        self.sets.owner == other.sets.owner
    }

    /// Whether it has processes and a policy of its own making, so that what it may open
    /// was granted to it. A job without a program was never constrained, and a container
    /// that may open every device is privileged: neither was granted a GPU by that.
    pub(super) fn is_granted(&self) -> bool {
        let decided = if self.owner().kind.is_job() { self.is_constrained() } else { !self.privileged };
        !self.occupied.is_empty() && decided
    }

    /// Whether device rules are in force on it at all.
    pub(super) fn is_constrained(&self) -> bool {
        self.has_program || self.denies_some
    }

    /// The first of its own cgroups with processes that may open a GPU.
    pub(super) fn allows(&self, gpu: &Gpu) -> Option<Place<'a>> {
        self.occupied.iter().copied().find(|place| place.verdict(gpu) == Verdict::Allow)
    }

    /// Whether a GPU is among those that it was allocated.
    pub(super) fn was_allocated(&self, gpu: &Gpu) -> bool {
        self.sets.allocated.gpus.as_ref().is_some_and(|gpus| gpus.contains(&gpu.key))
    }

    /// The users of its processes.
    pub(super) fn uids(&self) -> BTreeSet<u32> {
        uids_at(&self.cgroups)
    }

    /// The cgroups that tell what it may do: those with processes, without those of
    /// tenants inside it. Without any process, the innermost ones, which a process would
    /// join.
    pub(super) fn places(&self) -> Vec<Place<'a>> {
        let own: Vec<Place<'a>> =
            self.cgroups.iter().copied().filter(|place| self.is_innermost_at(*place)).collect();
        let lives = |place: &Place<'_>| !place.cgroup.processes.is_empty();
        let occupied: Vec<Place<'a>> = own.iter().copied().filter(lives).collect();
        if !occupied.is_empty() {
            return occupied;
        }
        own.into_iter().filter(|place| self.is_leaf(*place)).collect()
    }

    /// One place for each different policy that its places have: what holds there holds in
    /// the others.
    pub(super) fn views(&self) -> Vec<Place<'a>> {
        let mut seen = BTreeSet::new();
        let mut places = self.places();
        places.retain(|place| seen.insert(&place.cgroup.policy));
        places
    }

    /// Whether none of its cgroups is below this one. In walk order the cgroups below
    /// follow directly.
    fn is_leaf(&self, place: Place<'_>) -> bool {
        let next = self.cgroups.get(self.cgroups.partition_point(|other| *other <= place));
        next.is_none_or(|next| !CgroupPath::new(next.path).is_below(CgroupPath::new(place.path)))
    }

    fn is_innermost_at(&self, place: Place<'_>) -> bool {
        place.cgroup.owner.as_ref().is_some_and(|owner| is_its_own(owner, self.owner()))
    }
}

/// The users of the processes in some cgroups.
pub(super) fn uids_at(places: &[Place<'_>]) -> BTreeSet<u32> {
    places.iter().flat_map(|place| &place.cgroup.processes).map(|process| process.uid).collect()
}

/// Whether a process has a GPU open.
pub(super) fn holds(process: &Process, gpu: &Gpu) -> bool {
    process.held.as_ref().is_some_and(|held| held.contains(&gpu.key))
}

/// The capabilities that open a compute instance.
pub(super) fn capabilities(instance: &MigInstance) -> Option<[(u32, u32); 2]> {
    let major = instance.major?;
    Some([(major, instance.gi_minor?), (major, instance.ci_minor?)])
}

/// The number of the node that gates a GPU.
pub(super) fn number(gpu: &Gpu) -> Option<(u32, u32)> {
    gpu.major.zip(gpu.minor)
}

/// Whether an owner gets GPUs for itself: a whole job, a container, a pod, a
/// VM. Steps and tasks share what their job has.
pub(super) fn is_tenant(owner: &Owner) -> bool {
    let is_part_of_job = owner.step.is_some() || owner.task.is_some();
    !is_part_of_job && owner.claims.is_empty() && !owner.kind.is_service()
}

/// Whether `owner` is the tenant, a part of it, or something inside it.
pub(super) fn is_within(owner: &Owner, tenant: &Owner) -> bool {
    whole(owner) == *tenant || owner.outer.as_deref().is_some_and(|outer| is_within(outer, tenant))
}

/// The job that a step or task is part of, and the owner inside which a claim was
/// made; any other owner is returned as it is.
pub(super) fn whole(owner: &Owner) -> Owner {
    Owner { step: None, het_component: None, task: None, part: None, ..owner.identity() }
}

/// Whether an owner is the tenant or a part of it, with no tenant between them.
fn is_its_own(owner: &Owner, tenant: &Owner) -> bool {
    let whole = whole(owner);
    let outer = || owner.outer.as_deref().is_some_and(|outer| is_its_own(outer, tenant));
    whole == *tenant || !is_tenant(&whole) && outer()
}

/// Owners of tenants, the first of them.
pub(super) fn owners(tenants: &[&Tenant<'_>]) -> Vec<Owner> {
    tenants.iter().take(wording::SHOWN).map(|tenant| tenant.owner().clone()).collect()
}

/// Owners of tenants in words.
pub(super) fn names(tenants: &[&Tenant<'_>]) -> String {
    wording::list(&tenants.iter().map(|tenant| wording::owner(tenant.owner())).collect::<Vec<_>>())
}

/// Whether two tenants may have a GPU in common: they are one job's or one
/// pod's, or both share it by design.
pub(super) fn may_share(one: &Tenant<'_>, other: &Tenant<'_>) -> bool {
    let both = |mode: SharingMode| [one, other].iter().all(|tenant| tenant.sets.shares.contains(&mode));
    both(SharingMode::Shard)
        || both(SharingMode::Mps)
        || both(SharingMode::Interception)
        || is_one(one.owner(), other.owner())
}

/// Whether one owner is inside the other, or both inside the same job, or
/// inside the same pod or machine without jobs of their own.
fn is_one(one: &Owner, other: &Owner) -> bool {
    let nested = is_within(one, &whole(other)) || is_within(other, &whole(one));
    let (one, other) = (chain(one), chain(other));
    let has_job = |below: &[Owner]| below.iter().any(|owner| owner.kind.is_job());
    let common = one.iter().enumerate().find_map(|(depth, owner)| {
        let place = other.iter().position(|other| other == owner)?;
        Some(!has_job(one.get(..depth)?) && !has_job(other.get(..place)?))
    });
    nested || common == Some(true)
}

/// An owner and those around it that own GPUs, the innermost first.
fn chain(owner: &Owner) -> Vec<Owner> {
    let mut chain = Vec::new();
    let mut next = Some(owner);
    while let Some(owner) = next {
        let service = owner.kind.is_service();
        chain.extend((!service).then(|| Owner { outer: None, ..whole(owner) }));
        next = owner.outer.as_deref();
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::OwnerKind;

    fn owner(kind: &str, name: &str, outer: Option<&Owner>) -> Owner {
        let outer = outer.cloned().map(Box::new);
        Owner { kind: OwnerKind::of(kind), name: Some(name.to_owned()), outer, ..Owner::default() }
    }

    /// Make sure that only what belongs together may share.
    #[test]
    fn strangers() {
        let pod = owner("pod", "p", None);
        let (one, other) = (owner("containerd", "a", Some(&pod)), owner("containerd", "b", Some(&pod)));
        assert!(is_one(&one, &other) && is_one(&one, &pod) && is_one(&pod, &other));
        let jobs = [1, 2].map(|id| Owner { job_id: Some(id), name: None, ..owner("slurm", "", Some(&one)) });
        let [job, next] = &jobs;
        assert!(!is_one(job, next) && !is_one(job, &other) && is_one(job, &one));
        let inside = owner("docker", "c", Some(job));
        let beside = owner("docker", "d", Some(job));
        assert!(is_one(&inside, job) && is_one(&inside, &beside) && !is_one(&inside, next));
        let step = Owner { step: Some("0".to_owned()), ..job.clone() };
        assert!(is_one(&owner("docker", "e", Some(&step)), &beside));
        assert!(!is_one(&pod, &owner("pod", "q", None)));
    }
}
