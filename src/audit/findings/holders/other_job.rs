//! Finds processes of a job that hold a GPU which was allocated to another job, where no
//! device rules keep jobs apart: rules that do are the matter of other findings.

use super::daemon;
use crate::audit::facts::Facts;
use crate::audit::finding::Reported;
use crate::audit::kind::Kind;
use crate::audit::tenants::{Place, Tenant, holds, may_share, names, owners};
use crate::audit::{finding, wording};
use crate::model::{Confidence, GpuKey, Severity};
use crate::report::{Finding, Gpu, Process};

pub(super) const HELD_BY_OTHER_JOB: Kind = Kind {
    id: "held-by-other-job",
    severity: Severity::Critical,
    title: "a process of one job that holds a GPU of another",
    page: "\
A process of a job, pod or container without device rules has a GPU open that was allocated to another \
owner, and not to its own: two jobs compete for one GPU, and each sees the other's memory use and errors. \
Where device rules are in force, double-grant and held-not-allowed say what is wrong.

Causes: CUDA_VISIBLE_DEVICES was changed or unset in the job, and the site does not constrain devices \
(ConstrainDevices=no); a program that numbers GPUs by itself.

Excuses: a GPU, or all of the node, that the configuration shares (sharing.gpus); jobs that share by shard, \
MPS or libvgpu.so; owners of one job or pod; the driver's daemons, display servers and monitoring. An owner \
of which it is not known what was allocated to it is left out. With MIG only an instance of the other \
counts.

What to do: end the process or have it use its own GPUs, and let the scheduler constrain devices.",
};

/// One finding for each job and GPU.
pub(super) fn find(facts: &Facts<'_>, reported: &mut Reported) -> Vec<Finding> {
    let mut findings = Vec::new();
    for tenant in facts.tenants.iter().filter(|tenant| !tenant.is_constrained()) {
        for gpu in facts.gpus().iter().filter(|gpu| !facts.is_shared(gpu)) {
            let having = strangers_having(facts, tenant, gpu);
            let holders = holders(facts, tenant, (gpu, &having), reported);
            findings.extend(report(facts, (tenant, gpu), &holders, &having));
            holders.iter().for_each(|(_, process)| reported.add(process, &gpu.key));
        }
    }
    findings
}

/// The tenants that the GPU, or an instance of it, was allocated to, if it is known that it
/// was not allocated to this one.
fn strangers_having<'f, 'a>(facts: &'f Facts<'a>, tenant: &Tenant<'_>, gpu: &Gpu) -> Vec<&'f Tenant<'a>> {
    let set = &tenant.sets.allocated;
    if !set.unknown.is_empty() || set.gpus.is_none() || tenant.was_allocated(gpu) {
        return Vec::new();
    }
    let others = facts.tenants.iter().filter(|other| !other.is(tenant) && has(other, gpu));
    others.filter(|other| !may_share(tenant, other)).collect()
}

fn has(tenant: &Tenant<'_>, gpu: &Gpu) -> bool {
    tenant.was_allocated(gpu) || !instances(tenant, gpu).is_empty()
}

/// The instances of a GPU that a tenant was allocated.
fn instances<'a>(tenant: &Tenant<'a>, gpu: &Gpu) -> Vec<&'a GpuKey> {
    let is_of = |key: &&GpuKey| gpu.mig.iter().any(|part| part.compute_key(gpu).as_ref() == Some(*key));
    tenant.sets.allocated.instances.iter().filter(is_of).collect()
}

/// The tenant's processes that hold the GPU, with their cgroups; in MIG mode, an instance
/// that is of the others.
fn holders<'a>(
    facts: &Facts<'a>,
    tenant: &Tenant<'a>,
    (gpu, having): (&Gpu, &[&Tenant<'_>]),
    reported: &Reported,
) -> Vec<(Place<'a>, &'a Process)> {
    if having.is_empty() {
        return Vec::new();
    }
    let theirs: Vec<&GpuKey> = having.iter().flat_map(|other| instances(other, gpu)).collect();
    let is_strange = |place: Place<'_>, process: &Process| {
        let instance = process.held_instances.iter().any(|instance| theirs.contains(&instance));
        holds(process, gpu)
            && (gpu.mig.is_empty() || instance)
            && !reported.has(process, &gpu.key)
            && !daemon::is_excused(facts, process, place)
    };
    let occupied = tenant.occupied.iter();
    let processes = occupied.flat_map(|place| place.cgroup.processes.iter().map(|one| (*place, one)));
    processes.filter(|(place, process)| is_strange(*place, process)).collect()
}

fn report(
    facts: &Facts<'_>,
    (tenant, gpu): (&Tenant<'_>, &Gpu),
    holders: &[(Place<'_>, &Process)],
    having: &[&Tenant<'_>],
) -> Option<Finding> {
    let (place, first) = holders.first()?;
    let (owner, name) = (wording::owner(tenant.owner()), wording::gpu(gpu));
    let who = match holders.len() {
        1 => format!("{} of {owner} holds", wording::process(first)),
        more => format!("{} and {} more of {owner} hold", wording::process(first), more - 1),
    };
    let is_trusted =
        tenant.sets.allocated.is_trusted() && having.iter().all(|one| one.sets.allocated.is_trusted());
    let mut evidence = vec![allocated(tenant, facts)];
    evidence.extend(wording::clauses(having.iter().map(|one| allocated(one, facts)).collect()));
    evidence.push(format!("no device rules are in force on {owner}"));
    Some(Finding {
        owner: Some(tenant.owner().clone()),
        others: owners(having),
        processes: finding::processes(holders.iter().map(|(_, process)| *process)),
        devices: vec![finding::gpu(gpu)],
        confidence: if is_trusted { Confidence::Certain } else { Confidence::Claimed },
        evidence,
        excuses: vec![
            "they are not of one job or pod, and do not all share GPUs by shard, MPS or \
             libvgpu.so"
                .to_owned(),
            "the configuration does not share it (sharing.gpus)".to_owned(),
            "it is none of the driver's daemons, MPS servers, display servers and monitoring that gpumap \
             knows"
                .to_owned(),
        ],
        advice:
            "End the process or let it use the GPUs of its own job; let the scheduler constrain devices, \
                 so that \
                 no job can open the GPUs of others."
                .to_owned(),
        ..finding::at(
            &HELD_BY_OTHER_JOB,
            place.cgroup,
            format!("{who} {name}, which was allocated to {}", names(having)),
        )
    })
}

/// What a tenant was allocated, and who says so.
fn allocated(tenant: &Tenant<'_>, facts: &Facts<'_>) -> String {
    let set = &tenant.sets.allocated;
    let is_its = |gpu: &&Gpu| tenant.was_allocated(gpu);
    let mut gpus = facts.gpus().iter().filter(is_its).peekable();
    let what = match gpus.peek().is_none() && !set.instances.is_empty() {
        true => wording::list(&set.instances),
        false => wording::gpus(gpus),
    };
    format!("{} was allocated {what} ({})", wording::owner(tenant.owner()), set.source_name())
}
