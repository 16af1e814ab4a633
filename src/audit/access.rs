//! Tells what each tenant may open by its own cgroups. The cgroups of tenants
//! inside it do not count.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::facts::{Facts, whole};
use crate::model::Owner;
use crate::model::{Request, Verdict};
use crate::report::{MigInstance, Policy};

/// The number of a device that no rule names: the last there can be.
const NOBODYS: (u32, u32) = (crate::model::MAX_MAJOR, crate::model::MAX_MINOR);

/// The tenants of a node by cgroup.
#[derive(Debug)]
pub(super) struct TenantAccess {
    /// The innermost tenant of each cgroup of the answer; none for those of
    /// schedulers and runtimes themselves.
    pub(super) innermost: Vec<Option<usize>>,
    /// The cgroups and GPUs of each tenant.
    pub(super) own: Vec<Own>,
}

/// A tenant's own cgroups.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// All of them.
    pub(super) places: Vec<usize>,
    /// Its cgroups with processes: what may be opened there matters now.
    pub(super) occupied: Vec<usize>,
    /// Whether a program is in force on one of those with processes.
    pub(super) has_program: bool,
    /// Whether one of those with processes is denied a GPU.
    pub(super) denies_some: bool,
    /// Whether all of those with processes may open every device there is.
    pub(super) privileged: bool,
}

impl TenantAccess {
    pub(super) fn new(facts: &Facts<'_>) -> Self {
        let tenants = facts.tenants.iter().enumerate();
        let index: HashMap<&Owner, usize> =
            tenants.map(|(number, tenant)| (&tenant.sets.owner, number)).collect();
        let innermost: Vec<Option<usize>> =
            facts.cgroups().iter().map(|cgroup| find(cgroup.owner.as_ref(), &index)).collect();
        let mut own: Vec<Own> = facts.tenants.iter().map(|_| Own::default()).collect();
        for (place, tenant) in innermost.iter().enumerate() {
            if let Some(own) = tenant.and_then(|tenant| own.get_mut(tenant)) {
                own.places.push(place);
            }
        }
        own.iter_mut().for_each(|own| own.describe(facts));
        Self { innermost, own }
    }

    /// The tenants that have processes and a policy of their own making, so
    /// that what they may open was granted to them.
    pub(super) fn granted(&self, facts: &Facts<'_>) -> BTreeSet<usize> {
        let tenants = facts.tenants.iter().zip(&self.own).enumerate();
        let granted = tenants.filter(|(_, (tenant, own))| own.is_granted(&tenant.sets.owner));
        granted.map(|(number, _)| number).collect()
    }

    /// The first of a tenant's own cgroups with processes that may open a GPU.
    pub(super) fn allows(&self, facts: &Facts<'_>, tenant: usize, gpu: usize) -> Option<usize> {
        let own = self.own.get(tenant)?;
        own.occupied.iter().copied().find(|place| verdict(facts, *place, gpu) == Verdict::Allow)
    }
}

impl Own {
    fn describe(&mut self, facts: &Facts<'_>) {
        let cgroups = facts.cgroups();
        let occupied = |place: &usize| cgroups.get(*place).is_some_and(|one| !one.processes.is_empty());
        self.occupied = self.places.iter().copied().filter(occupied).collect();
        let inside: Vec<_> = self.occupied.iter().filter_map(|place| cgroups.get(*place)).collect();
        self.has_program = inside.iter().any(|cgroup| !cgroup.programs.is_empty());
        let mut verdicts = inside.iter().flat_map(|cgroup| &cgroup.gpus);
        self.denies_some = verdicts.any(|gpu| gpu.verdict == Verdict::Deny && gpu.minor.is_some());
        let policies = facts.inspection.payload().policies.as_ref();
        self.privileged = inside.iter().all(|cgroup| allows_all(policies, &cgroup.policy));
    }

    /// A job without a program was never constrained, and a container that may
    /// open every device is privileged: neither was granted a GPU by that.
    fn is_granted(&self, owner: &Owner) -> bool {
        let decided = if owner.kind.is_job() { self.is_constrained() } else { !self.privileged };
        !self.occupied.is_empty() && decided
    }

    /// Whether device rules are in force on it at all.
    pub(super) fn is_constrained(&self) -> bool {
        self.has_program || self.denies_some
    }
}

/// The verdict (`rw`) on a GPU, by their places in the answer.
pub(super) fn verdict(facts: &Facts<'_>, place: usize, gpu: usize) -> Verdict {
    let cgroup = facts.cgroups().get(place);
    cgroup.and_then(|cgroup| cgroup.gpus.get(gpu)).map_or(Verdict::Unknown, |gpu| gpu.verdict)
}

/// Whether the programs in force in a cgroup allow devices that no rule names.
pub(super) fn is_deny_list(facts: &mut Facts<'_>, place: usize) -> bool {
    facts.verdict(place, NOBODYS, Request::ReadWrite) == Verdict::Allow
}

/// Whether every program lets a device through by the very instruction that
/// does so for a device that no rule names.
pub(super) fn is_unnamed(facts: &mut Facts<'_>, place: usize, number: (u32, u32), request: Request) -> bool {
    let asked = facts.decisions(place, number, request);
    let nobodys = facts.decisions(place, NOBODYS, request);
    let same = asked.iter().zip(&nobodys).all(|(asked, nobodys)| {
        asked.returns == Verdict::Allow
            && asked.decided_at.is_some()
            && asked.decided_at == nobodys.decided_at
    });
    !asked.is_empty() && asked.len() == nobodys.len() && same
}

/// The capabilities that open a compute instance.
pub(super) fn capabilities(instance: &MigInstance) -> Option<[(u32, u32); 2]> {
    let major = instance.major?;
    Some([(major, instance.gi_minor?), (major, instance.ci_minor?)])
}

/// Whether both capabilities of an instance may be opened, and rules name one
/// of them: one that no rule names is everybody's.
pub(super) fn opens_instance(facts: &mut Facts<'_>, place: usize, instance: &MigInstance) -> bool {
    let Some(numbers) = capabilities(instance) else { return false };
    let read = Request::Read;
    numbers.iter().all(|number| facts.verdict(place, *number, read) == Verdict::Allow)
        && !numbers.iter().all(|number| is_unnamed(facts, place, *number, read))
}

fn find(owner: Option<&Owner>, index: &HashMap<&Owner, usize>) -> Option<usize> {
    let owner = owner?;
    let own = if owner.part.is_none() { index.get(&whole(owner)).copied() } else { None };
    own.or_else(|| find(owner.outer.as_deref(), index))
}

fn allows_all(policies: Option<&BTreeMap<String, Policy>>, id: &str) -> bool {
    let policy = policies.and_then(|policies| policies.get(id));
    policy.is_some_and(Policy::allows_everything)
}
