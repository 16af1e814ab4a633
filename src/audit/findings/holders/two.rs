//! Finds GPUs that processes of two owners hold at a time where no device rules keep them
//! apart: what rules let two owners open is the matter of double-grant.

use super::daemon;
use crate::audit::facts::Facts;
use crate::audit::finding::Reported;
use crate::audit::kind::Kind;
use crate::audit::tenants::{Place, Tenant, holds, may_share, names, owners};
use crate::audit::{finding, wording};
use crate::model::{Confidence, GpuKey, Severity};
use crate::report::{Finding, Gpu, Process};

pub(super) const HELD_BY_TWO: Kind = Kind {
    id: "held-by-two",
    severity: Severity::Warning,
    title: "one GPU held by processes of two owners that no rules keep apart",
    page: "\
Processes of two jobs, containers or machines that have nothing to do with each other have one GPU open, and \
no device rules limit one of them: each sees the other's memory use, slowness and errors. To whom the GPU was \
allocated is not known, or both say that it was; where it is known, held-by-other-job says whose it is.

Causes: a site that does not constrain devices, with a scheduler that gpumap cannot ask; privileged \
containers beside each other; programs that number GPUs by themselves.

Excuses: a GPU, or all of the node, that the configuration shares (sharing.gpus); jobs that share by shard, \
MPS or libvgpu.so; owners of one job or pod; the driver's daemons, display servers and monitoring; processes \
that another finding names. With MIG, instances that are not the same.

What to do: find out whose the GPU is, end or move the other, and let the scheduler constrain devices.",
};

/// A tenant, and its processes that hold the GPU, with their cgroups.
struct Holder<'f, 'a> {
    tenant: &'f Tenant<'a>,
    processes: Vec<(Place<'a>, &'a Process)>,
}

/// One finding for each GPU.
pub(super) fn find(facts: &Facts<'_>, reported: &Reported) -> Vec<Finding> {
    let gpus = facts.gpus().iter().filter(|gpu| !facts.is_shared(gpu));
    gpus.filter_map(|gpu| on_gpu(facts, gpu, reported)).collect()
}

fn on_gpu(facts: &Facts<'_>, gpu: &Gpu, reported: &Reported) -> Option<Finding> {
    let holders: Vec<Holder<'_, '_>> =
        facts.tenants.iter().filter_map(|tenant| holder(facts, tenant, gpu, reported)).collect();
    let is_party = |one: &&Holder<'_, '_>| holders.iter().any(|other| conflict(facts, gpu, one, other));
    let parties: Vec<&Holder<'_, '_>> = holders.iter().filter(is_party).collect();
    let (place, _) = parties.first()?.processes.first()?;
    let tenants: Vec<&Tenant<'_>> = parties.iter().map(|party| party.tenant).collect();
    let name = wording::gpu(gpu);
    let processes = parties.iter().flat_map(|party| party.processes.iter().map(|(_, process)| *process));
    let clause = |party: &&Holder<'_, '_>| {
        let owner = wording::owner(party.tenant.owner());
        let allocated = &party.tenant.sets.allocated;
        match &allocated.gpus {
            Some(_) if party.tenant.was_allocated(gpu) => {
                format!("{owner} was allocated it ({})", allocated.source_name())
            }
            _ if party.tenant.is_granted() => format!("the rules of {owner} let it open it"),
            _ => format!("no device rules limit {owner}; what was allocated to it is not known"),
        }
    };
    Some(Finding {
        owner: tenants.first().map(|tenant| tenant.owner().clone()),
        others: owners(tenants.get(1..).unwrap_or_default()),
        processes: finding::processes(processes),
        devices: vec![finding::gpu(gpu)],
        confidence: Confidence::Certain,
        evidence: wording::clauses(parties.iter().map(clause).collect()),
        excuses: vec![
            "they are not of one job or pod, and do not all share GPUs by shard, MPS or libvgpu.so"
                .to_owned(),
            "the configuration does not share it (sharing.gpus)".to_owned(),
            "none is one of the driver's daemons, MPS servers, display servers and monitoring that gpumap \
             knows"
                .to_owned(),
        ],
        advice: "Find out whose the GPU is, end or move the other, and let the scheduler constrain devices."
            .to_owned(),
        ..finding::at(&HELD_BY_TWO, place.cgroup, format!("processes of {} hold {name}", names(&tenants)))
    })
}

/// The tenant's processes that hold the GPU and have no finding yet; `None` without any.
fn holder<'f, 'a>(
    facts: &Facts<'a>,
    tenant: &'f Tenant<'a>,
    gpu: &Gpu,
    reported: &Reported,
) -> Option<Holder<'f, 'a>> {
    let processes =
        tenant.occupied.iter().flat_map(|place| place.cgroup.processes.iter().map(|one| (*place, one)));
    let is_one = |(place, process): &(Place<'a>, &'a Process)| {
        holds(process, gpu) && !reported.has(process, &gpu.key) && !daemon::is_excused(facts, process, *place)
    };
    let processes: Vec<_> = processes.filter(is_one).collect();
    (!processes.is_empty()).then_some(Holder { tenant, processes })
}

/// Whether two holders are strangers that nothing keeps apart, and no other finding says so.
fn conflict(facts: &Facts<'_>, gpu: &Gpu, one: &Holder<'_, '_>, other: &Holder<'_, '_>) -> bool {
    let (a, b) = (one.tenant, other.tenant);
    let is_known = is_foreign(facts, gpu, a, b) || is_foreign(facts, gpu, b, a);
    let is_free = !a.is_granted() || !b.is_granted();
    !a.is(b) && !may_share(a, b) && is_free && !is_known && (gpu.mig.is_empty() || share_instance(one, other))
}

/// Whether held-by-foreign tells of this tenant: it is privileged, no job, and the GPU is
/// the other's.
fn is_foreign(facts: &Facts<'_>, gpu: &Gpu, tenant: &Tenant<'_>, other: &Tenant<'_>) -> bool {
    let is_outsider = !tenant.is_granted() && !tenant.owner().kind.is_job();
    is_outsider && facts.having(gpu, Some(tenant)).iter().any(|having| having.is(other))
}

fn share_instance(one: &Holder<'_, '_>, other: &Holder<'_, '_>) -> bool {
    let instances = |holder: &Holder<'_, '_>| -> Vec<GpuKey> {
        holder.processes.iter().flat_map(|(_, process)| process.held_instances.iter().cloned()).collect()
    };
    let theirs = instances(other);
    instances(one).iter().any(|instance| theirs.contains(instance))
}
