//! Finds processes of a job that hold a GPU which was allocated to another job, where no
//! device rules keep jobs apart: rules that do are the matter of other findings.

use super::super::grants::may_share;
use super::daemon;
use super::evidence::{Reported, is_reported, listed, names, owners, process_name};
use super::pages::HELD_BY_OTHER_JOB;
use crate::audit::access::TenantAccess;
use crate::audit::facts::{Facts, Tenant};
use crate::audit::{finding, wording};
use crate::model::Confidence;
use crate::report::{Finding, Gpu, Process};

/// One finding for each job and GPU.
pub(super) fn find(facts: &Facts<'_>, access: &TenantAccess, reported: &mut Reported) -> Vec<Finding> {
    let is_loose = |tenant: &usize| access.own.get(*tenant).is_some_and(|own| !own.is_constrained());
    let mut findings = Vec::new();
    for tenant in (0..facts.tenants.len()).filter(is_loose) {
        for gpu in facts.inspection.gpus() {
            let having = having(facts, tenant, gpu);
            if having.is_empty() || facts.config.sharing.has_gpu(&gpu.key) || facts.config.sharing.whole_node
            {
                continue;
            }
            let holders = holders(facts, access, tenant, (gpu, &having), reported);
            findings.extend(report(facts, (tenant, gpu), &holders, &having));
            let seen = holders.iter().map(|(_, one)| (one.pid, one.start_time, gpu.key.clone()));
            reported.extend(seen);
        }
    }
    findings
}

/// The tenants that the GPU, or an instance of it, was allocated to, if it is known that it
/// was not allocated to this one.
fn having(facts: &Facts<'_>, tenant: usize, gpu: &Gpu) -> Vec<usize> {
    let is_not_its = facts.tenants.get(tenant).is_some_and(|one| {
        let set = &one.sets.allocated;
        set.unknown.is_empty() && set.gpus.as_ref().is_some_and(|gpus| !gpus.contains(&gpu.key))
    });
    let has = |other: &usize| *other != tenant && facts.tenants.get(*other).is_some_and(|one| has(one, gpu));
    let strangers = (0..facts.tenants.len()).filter(has).filter(|other| !may_share(facts, tenant, *other));
    if is_not_its { strangers.collect() } else { Vec::new() }
}

fn has(tenant: &Tenant, gpu: &Gpu) -> bool {
    let set = &tenant.sets.allocated;
    set.gpus.as_ref().is_some_and(|gpus| gpus.contains(&gpu.key)) || !instances(tenant, gpu).is_empty()
}

/// The instances of a GPU that a tenant was allocated.
fn instances<'a>(tenant: &'a Tenant, gpu: &Gpu) -> Vec<&'a String> {
    let is_of = |key: &&String| gpu.mig.iter().any(|part| part.key(gpu).as_ref() == Some(*key));
    tenant.sets.allocated.instances.iter().filter(is_of).collect()
}

/// The tenant's processes that hold the GPU, with their cgroups; in MIG mode, an instance
/// that is of the others.
fn holders(
    facts: &Facts<'_>,
    access: &TenantAccess,
    tenant: usize,
    (gpu, having): (&Gpu, &[usize]),
    reported: &Reported,
) -> Vec<(usize, Process)> {
    let others = having.iter().filter_map(|other| facts.tenants.get(*other));
    let theirs: Vec<&String> = others.flat_map(|other| instances(other, gpu)).collect();
    let holds = |process: &Process| {
        let node = process.held.as_ref().is_some_and(|held| held.contains(&gpu.key));
        let instance = process.held_instances.iter().any(|instance| theirs.contains(&instance));
        node && (gpu.mig.is_empty() || instance)
    };
    let occupied = access.own.get(tenant).map(|own| own.occupied.as_slice()).unwrap_or_default();
    let mut found = Vec::new();
    for place in occupied {
        let processes = facts.cgroups().get(*place).map(|one| one.processes.as_slice()).unwrap_or_default();
        let strange = processes.iter().filter(|one| {
            holds(one)
                && !is_reported(reported, one, &gpu.key)
                && !daemon::is_excused(facts, access, one, *place)
        });
        found.extend(strange.map(|one| (*place, one.clone())));
    }
    found
}

fn report(
    facts: &Facts<'_>,
    (tenant, gpu): (usize, &Gpu),
    holders: &[(usize, Process)],
    having: &[usize],
) -> Option<Finding> {
    let (place, first) = holders.first()?;
    let own = facts.tenants.get(tenant)?;
    let (owner, name) = (wording::owner(&own.sets.owner), wording::gpu(gpu));
    let who = match holders.len() {
        1 => format!("{} of {owner} holds", process_name(first)),
        more => format!("{} and {} more of {owner} hold", process_name(first), more - 1),
    };
    let others = having.iter().filter_map(|other| facts.tenants.get(*other));
    let is_trusted =
        own.sets.allocated.is_trusted() && others.clone().all(|one| one.sets.allocated.is_trusted());
    let mut evidence = vec![allocated(own, facts)];
    evidence.extend(wording::clauses(others.map(|one| allocated(one, facts)).collect()));
    evidence.push(format!("no device rules are in force on {owner}"));
    Some(Finding {
        owner: Some(own.sets.owner.clone()),
        others: owners(facts, having),
        processes: listed(&holders.iter().map(|(_, process)| process).collect::<Vec<_>>()),
        devices: vec![finding::gpu(gpu)],
        confidence: if is_trusted { Confidence::Certain } else { Confidence::Claimed },
        evidence,
        excuses: vec![
            "they are not of one job or pod, and do not all share GPUs by shard, MPS or libvgpu.so".to_owned(),
            "the configuration does not share it (sharing.gpus)".to_owned(),
            "it is none of the driver's daemons, MPS servers, display servers and monitoring that gpumap knows"
                .to_owned(),
        ],
        advice: "End the process or let it use the GPUs of its own job; let the scheduler constrain devices, so that \
                 no job can open the GPUs of others."
            .to_owned(),
        ..finding::at(
            &HELD_BY_OTHER_JOB,
            facts.cgroups().get(*place)?,
            format!("{who} {name}, which was allocated to {}", names(facts, having)),
        )
    })
}

/// What a tenant was allocated, and who says so.
fn allocated(tenant: &Tenant, facts: &Facts<'_>) -> String {
    let set = &tenant.sets.allocated;
    let is_its = |gpu: &&Gpu| set.gpus.as_ref().is_some_and(|keys| keys.contains(&gpu.key));
    let names: Vec<String> = facts.inspection.gpus().iter().filter(is_its).map(wording::gpu).collect();
    let what = match (names.is_empty(), set.instances.is_empty()) {
        (false, _) => wording::list(&names),
        (true, false) => wording::list(&set.instances),
        (true, true) => "no GPU".to_owned(),
    };
    format!("{} was allocated {what} ({})", wording::owner(&tenant.sets.owner), set.source_name())
}
