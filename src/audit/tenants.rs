//! Answers questions about tenants and their cgroups that several families ask.

use std::collections::BTreeSet;

use super::config::Config;
use super::facts::{Facts, Tenant, is_tenant, whole};
use super::finding;
use super::kind::Kind;
use crate::model::Request;
use crate::model::Verdict;
use crate::model::{CgroupPath, Owner};
use crate::report::{Cgroup, Decision, Finding, Gpu};

/// Processes that one finding names; more are counted in its evidence.
const PROCESSES: usize = 32;

/// The cgroups that tell what a tenant may do: those with processes, without those
/// of tenants inside it. Without any process, the innermost ones, which a process
/// would join.
pub(super) fn places(facts: &Facts<'_>, tenant: &Tenant) -> Vec<usize> {
    let own: Vec<usize> =
        tenant.cgroups.iter().copied().filter(|place| is_innermost(facts, *place, tenant)).collect();
    let occupied: Vec<usize> =
        own.iter().copied().filter(|place| !facts.cgroups()[*place].processes.is_empty()).collect();
    if !occupied.is_empty() {
        return occupied;
    }
    own.into_iter().filter(|place| is_leaf(facts, *place, tenant)).collect()
}

/// Whether none of a tenant's cgroups is below this one. In walk order the cgroups
/// below follow directly.
fn is_leaf(facts: &Facts<'_>, place: usize, tenant: &Tenant) -> bool {
    let next = tenant.cgroups.get(tenant.cgroups.partition_point(|other| *other <= place));
    next.is_none_or(|next| {
        let (next, own) = (facts.path(*next), facts.path(place));
        !CgroupPath::new(&next).is_below(CgroupPath::new(&own))
    })
}

/// One place for each different policy that a tenant's places have: what holds
/// there holds in the others.
pub(super) fn views(facts: &Facts<'_>, tenant: &Tenant) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    let mut places = places(facts, tenant);
    places.retain(|place| seen.insert(facts.cgroups()[*place].policy.clone()));
    places
}

/// Positions in the inventory of the GPUs with this verdict in a cgroup.
pub(super) fn gpus_with(facts: &Facts<'_>, place: usize, verdict: Verdict) -> Vec<usize> {
    let verdicts = facts.cgroups()[place].gpus.iter().enumerate();
    verdicts.filter(|(_, gpu)| gpu.verdict == verdict && gpu.minor.is_some()).map(|(at, _)| at).collect()
}

/// The same GPUs without those that are shared by design.
pub(super) fn exclusive_with(facts: &Facts<'_>, place: usize, verdict: Verdict) -> Vec<usize> {
    let mut gpus = gpus_with(facts, place, verdict);
    gpus.retain(|at| !is_shared(facts.config, &facts.inspection.gpus()[*at]));
    gpus
}

/// Whether the configuration lets everybody have a GPU at the same time.
pub(super) fn is_shared(config: &Config, gpu: &Gpu) -> bool {
    config.sharing.whole_node || config.sharing.has_gpu(&gpu.key)
}

/// Whether the configuration lets processes of a cgroup hold any GPU.
pub(super) fn is_daemon(config: &Config, path: &str) -> bool {
    let path = CgroupPath::new(path);
    config.daemons.iter().any(|daemon| path.is_at_or_below(CgroupPath::new(&daemon.cgroup)))
}

/// A finding about GPUs in a cgroup, with its processes and what decided.
pub(super) fn about_gpus(
    facts: &mut Facts<'_>,
    kind: &Kind,
    place: usize,
    gpus: &[usize],
    summary: String,
) -> Finding {
    let mut found = about(facts, kind, place, summary);
    let inventory = facts.inspection.gpus();
    found.devices = gpus.iter().map(|at| finding::gpu(&inventory[*at])).collect();
    let first = gpus.first().and_then(|at| number(&inventory[*at]));
    found.programs = first.map(|first| facts.decisions(place, first, Request::ReadWrite)).unwrap_or_default();
    found
}

/// A finding about a cgroup and its processes.
pub(super) fn about(facts: &Facts<'_>, kind: &Kind, place: usize, summary: String) -> Finding {
    let cgroup = &facts.cgroups()[place];
    let mut found = finding::at(kind, cgroup, summary);
    found.processes = cgroup.processes.iter().take(PROCESSES).map(finding::process).collect();
    if cgroup.processes.len() > PROCESSES {
        found
            .evidence
            .push(format!("{} processes are there, of which {PROCESSES} are listed", cgroup.processes.len()));
    }
    found
}

/// The number of the node that gates a GPU.
pub(super) fn number(gpu: &Gpu) -> Option<(u32, u32)> {
    gpu.major.zip(gpu.minor)
}

/// `program 17 at /a denies it at instruction 12`.
pub(super) fn in_words(decision: &Decision) -> String {
    let verb = match decision.returns {
        Verdict::Allow => "allows",
        Verdict::Deny => "denies",
        Verdict::Unknown => "cannot be followed for",
    };
    let name = if decision.name.is_empty() { String::new() } else { format!(" ({})", decision.name) };
    let place = if decision.attached_at.is_empty() { "an unknown place" } else { &decision.attached_at };
    let at = decision.decided_at.map(|pc| format!(" at instruction {pc}")).unwrap_or_default();
    format!("program {}{name}, attached to {place}, {verb} the first device{at}", decision.id)
}

/// `2 GPUs`.
pub(super) fn count(gpus: usize) -> String {
    if gpus == 1 { "1 GPU".to_owned() } else { format!("{gpus} GPUs") }
}

fn is_innermost(facts: &Facts<'_>, place: usize, tenant: &Tenant) -> bool {
    let cgroup: &Cgroup = &facts.cgroups()[place];
    cgroup.owner.as_ref().is_some_and(|owner| is_its_own(owner, &tenant.sets.owner))
}

/// Whether an owner is the tenant or a part of it, with no tenant between them.
fn is_its_own(owner: &Owner, tenant: &Owner) -> bool {
    let whole = whole(owner);
    let outer = || owner.outer.as_deref().is_some_and(|outer| is_its_own(outer, tenant));
    whole == *tenant || !is_tenant(&whole) && outer()
}
