//! What the findings about activity have in common: whose a process is, and how its
//! use of a GPU reads.

use crate::audit::facts::Facts;
use crate::audit::finding;
use crate::audit::kind::Kind;
use crate::audit::tenants::{Tenant, is_within};
use crate::model::{CgroupPath, CountTable};
use crate::report::{ActiveProcess, Activity, Cgroup, Finding, FindingProcess, GpuUse, LostCalls, Process};

/// The tenant that a process belongs to, the innermost of those around it.
pub(super) fn tenant<'f, 'a>(facts: &'f Facts<'a>, process: &ActiveProcess) -> Option<&'f Tenant<'a>> {
    let owner = process.owner.as_ref()?;
    let around = facts.tenants.iter().filter(|tenant| is_within(owner, tenant.owner()));
    around.max_by_key(|tenant| tenant.sets.cgroup.len())
}

/// The processes of a tenant that made calls.
pub(super) fn active_of<'a>(activity: &'a Activity, tenant: &Tenant<'_>) -> Vec<&'a ActiveProcess> {
    let top = CgroupPath::new(&tenant.sets.cgroup);
    let is_its = |it: &&ActiveProcess| {
        it.cgroup.as_deref().is_some_and(|path| CgroupPath::new(path).is_at_or_below(top))
    };
    activity.processes.iter().filter(is_its).collect()
}

/// Whether calls of a tenant may be missing: something of a process found no room, or a user
/// who has processes there lost calls.
pub(super) fn may_miss(activity: &Activity, tenant: &Tenant<'_>) -> bool {
    let of_anybody = |lost: &LostCalls| is_missing(lost) && lost.uid.is_none();
    loses(activity, tenant) || activity.lost.iter().any(of_anybody)
}

/// Whether calls of a tenant, or of a user who has processes there, are known to be missing.
pub(super) fn loses(activity: &Activity, tenant: &Tenant<'_>) -> bool {
    let active = active_of(activity, tenant);
    let is_of = |uid: u32| {
        processes_of(tenant).any(|it| it.uid == uid || it.uid >= SUBORDINATE)
            || active.iter().any(|it| it.uid == uid || it.uid >= SUBORDINATE)
    };
    let is_lost = |lost: &LostCalls| is_missing(lost) && lost.uid.is_some_and(is_of);
    active.iter().any(|process| !process.lost.is_empty()) || activity.lost.iter().any(is_lost)
}

fn is_missing(lost: &LostCalls) -> bool {
    !LOOKED_FOR_AGAIN.contains(&lost.map)
}

/// What is lost of these is looked for again: no call is missing by it that is not told.
const LOOKED_FOR_AGAIN: [CountTable; 3] =
    [CountTable::Records, CountTable::Mappings, CountTable::Interceptions];
/// The first uid that a user namespace usually gives: such a process may be anybody's.
const SUBORDINATE: u32 = 65_536;

/// All processes of a tenant.
pub(super) fn processes_of<'a>(tenant: &Tenant<'a>) -> impl Iterator<Item = &'a Process> {
    tenant.cgroups.iter().flat_map(|place| &place.cgroup.processes)
}

/// A finding about the topmost cgroup of a tenant.
pub(super) fn about(kind: &Kind, tenant: &Tenant<'_>, summary: String) -> Finding {
    let found = match tenant.cgroups.first() {
        Some(top) => finding::at(kind, top.cgroup, summary),
        None => finding::new(kind, summary),
    };
    Finding { owner: Some(tenant.owner().clone()), ..found }
}

/// The cgroup of a process that made calls, and the process as it was observed.
pub(super) fn observed<'a>(
    facts: &Facts<'a>,
    process: &ActiveProcess,
) -> Option<(&'a Cgroup, FindingProcess)> {
    facts.places.iter().find_map(|place| {
        let is_it = |it: &&Process| (it.pid, it.start_time) == (process.pid, process.start_time);
        place.cgroup.processes.iter().find(is_it).map(|it| (place.cgroup, finding::process(it)))
    })
}

/// Those of some processes that were observed, for a finding.
pub(super) fn listed(facts: &Facts<'_>, processes: &[&ActiveProcess]) -> Vec<FindingProcess> {
    let found = processes.iter().filter_map(|process| observed(facts, process)).map(|(_, process)| process);
    found.take(finding::LISTED).collect()
}

/// `process 31337 made 120 calls on it, the last one 3 seconds before the counts were read`
pub(super) fn use_clause(process: &ActiveProcess, one: &GpuUse) -> String {
    let idle =
        one.idle_seconds.map(|idle| format!(", the last one {idle:.0} seconds before the counts were read"));
    format!(
        "process {} handed it {} launches, copies and fills{}",
        process.pid,
        one.counts.enqueued(),
        idle.unwrap_or_default()
    )
}
