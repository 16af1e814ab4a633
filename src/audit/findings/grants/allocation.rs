//! Compares what the scheduler allocated with what the rules allow.

use std::collections::BTreeSet;

use super::evidence::{decided, instance, processes};
use super::pages::{ALLOC_WITHOUT_GRANT, GRANT_WITHOUT_ALLOC};
use crate::audit::access::{TenantAccess, opens_instance, verdict};
use crate::audit::facts::Facts;
use crate::audit::{finding, wording};
use crate::model::Severity;
use crate::model::Verdict;
use crate::model::{AllocationSource, Confidence, InstanceKey};
use crate::report::{Finding, FindingDevice, Gpu, GpuSet, MigInstance};

/// A device, the cgroup it matters in, and its GPU.
type Wrong = (FindingDevice, usize, Gpu);

/// Compares the allocation of every tenant with its rules, in both directions. GPUs
/// that are open to all or granted twice have a finding already.
pub(super) fn find(
    facts: &mut Facts<'_>,
    access: &TenantAccess,
    unmanaged: &BTreeSet<usize>,
    covered: &BTreeSet<(usize, String)>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for tenant in 0..facts.tenants.len() {
        let Some(set) = facts.tenants.get(tenant).map(|tenant| tenant.sets.allocated.clone()) else {
            continue;
        };
        let Some(allocated) = set.gpus.clone() else { continue };
        let mut extra = extra(facts, access, tenant, &allocated, &set, unmanaged);
        extra.retain(|(device, ..)| !covered.contains(&(tenant, device.gpu.clone().unwrap_or_default())));
        findings.extend(with_extra(facts, tenant, &set, extra));
        let missing = missing(facts, access, tenant, &allocated, &set);
        let occupied = access.own.get(tenant).map(|own| own.occupied.clone()).unwrap_or_default();
        findings.extend(with_missing(facts, tenant, &set, &occupied, missing));
    }
    findings
}

/// The GPUs that a constrained tenant may open besides its allocation.
fn extra(
    facts: &mut Facts<'_>,
    access: &TenantAccess,
    tenant: usize,
    allocated: &[String],
    set: &GpuSet,
    unmanaged: &BTreeSet<usize>,
) -> Vec<Wrong> {
    let Some(own) = access.own.get(tenant).filter(|own| own.is_constrained()) else { return Vec::new() };
    if facts.config.sharing.whole_node {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (index, gpu) in facts.inspection.gpus().to_vec().into_iter().enumerate() {
        let Some(place) = access.allows(facts, tenant, index) else { continue };
        if unmanaged.contains(&index)
            || facts.config.sharing.has_gpu(&gpu.key)
            || set.unknown.contains(&gpu.key)
        {
            continue;
        }
        if !allocated.contains(&gpu.key) {
            found.push((finding::gpu(&gpu), place, gpu));
            continue;
        }
        // The GPU is its own; with MIG, perhaps only some instances are.
        let is_whole = !set.instances.iter().any(|instance| InstanceKey::is_on(instance, &gpu.key));
        for part in gpu.mig.iter().filter(|_| !is_whole) {
            let Some(key) = part.key(&gpu) else { continue };
            let known = set.instances.contains(&key) || set.unknown.contains(&key);
            let open = |facts: &mut Facts<'_>| {
                own.occupied.iter().copied().find(|place| opens_instance(facts, *place, part))
            };
            if let Some(place) = if known { None } else { open(facts) } {
                found.push((instance(&gpu, part), place, gpu.clone()));
            }
        }
    }
    found
}

/// The GPUs that a tenant was allocated and may open from none of its cgroups. A
/// step may have fewer than its job; then the job's own cgroup has all.
fn missing(
    facts: &Facts<'_>,
    access: &TenantAccess,
    tenant: usize,
    allocated: &[String],
    set: &GpuSet,
) -> Vec<Wrong> {
    let Some(own) = access.own.get(tenant) else { return Vec::new() };
    let Some(top) = own.places.first().copied() else { return Vec::new() };
    let gpus = facts.inspection.gpus().iter().enumerate();
    let denied = gpus.filter(|(index, gpu)| {
        let everywhere = own.places.iter().all(|place| verdict(facts, *place, *index) == Verdict::Deny);
        allocated.contains(&gpu.key) && !set.unknown.contains(&gpu.key) && everywhere
    });
    denied.map(|(_, gpu)| (finding::gpu(gpu), top, gpu.clone())).collect()
}

fn with_extra(facts: &mut Facts<'_>, tenant: usize, set: &GpuSet, wrong: Vec<Wrong>) -> Option<Finding> {
    let (owner, devices, mut base) = base(facts, tenant, set, wrong)?;
    let summary = format!("{owner} may open {devices}, which it was not allocated");
    let told = set.is_trusted();
    base.excuses.push("it is not open to all jobs, and no other owner may open it".to_owned());
    base.excuses.push("the configuration neither shares it (sharing.gpus) nor gives whole nodes".to_owned());
    Some(Finding {
        advice:
            "Compare gres.conf with the job's allocation (scontrol show job -d); a container runtime or an \
                 agent may have replaced the scheduler's program."
                .to_owned(),
        severity: if told { GRANT_WITHOUT_ALLOC.severity } else { Severity::Warning },
        ..with_kind(finding::new(&GRANT_WITHOUT_ALLOC, summary), base)
    })
}

fn with_missing(
    facts: &mut Facts<'_>,
    tenant: usize,
    set: &GpuSet,
    occupied: &[usize],
    wrong: Vec<Wrong>,
) -> Option<Finding> {
    let (owner, devices, mut base) = base(facts, tenant, set, wrong)?;
    base.processes = processes(facts, occupied, "");
    base.excuses.push(
        "it is denied in every cgroup of the job, not only in a step with a part of its GPUs".to_owned(),
    );
    let summary =
        format!("{owner} was allocated {devices} and may not open it: what it starts there will fail");
    Some(Finding {
        advice: "Compare the rules with gres.conf (gpumap explain shows the program): a systemd reload, an agent or \
                 another number of the device may have taken it away."
            .to_owned(),
..with_kind(finding::new(&ALLOC_WITHOUT_GRANT, summary), base)
    })
}

/// The part that both findings share: the owner and the devices in words.
fn base(
    facts: &mut Facts<'_>,
    tenant: usize,
    set: &GpuSet,
    wrong: Vec<Wrong>,
) -> Option<(String, String, Finding)> {
    let (device, place, gpu) = wrong.first().cloned()?;
    let row = facts.tenants.get(tenant)?.clone();
    let mut places: Vec<usize> = wrong.iter().map(|(_, place, _)| *place).collect();
    places.dedup();
    let names: Vec<String> = wrong
        .iter()
        .map(|(device, _, gpu)| match gpu.mig.is_empty() {
            true => wording::gpu(gpu),
            false => device.gpu.clone().unwrap_or_default(),
        })
        .collect();
    let mut evidence = vec![match set.source {
        Some(AllocationSource::Hook) => {
            format!("the scheduler's hook says it was allocated {}", all(facts, set))
        }
        Some(AllocationSource::Given) => format!("the caller says it was allocated {}", all(facts, set)),
        _ => format!(
            "the environment of its processes, which the user can fake, says it was allocated {}",
            all(facts, set)
        ),
    }];
    evidence.extend(set.why.iter().cloned());
    let why = |(_, place, gpu): &Wrong| {
        let path = facts.path(*place).lossy().into_owned();
        let verdict = facts.cgroups().get(*place)?.gpus.iter().find(|verdict| verdict.gpu == gpu.key)?;
        let why = verdict.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        Some(format!("{path}: {} {} (rw){why}", verdict.verdict, wording::gpu(gpu)))
    };
    evidence.extend(wording::clauses(wrong.iter().filter_map(why).collect()));
    let finding = Finding {
        cgroup: facts.cgroups().get(place).map(|cgroup| cgroup.path.clone()),
        cgroup_hex: facts.cgroups().get(place).and_then(|cgroup| cgroup.path_hex.clone()),
        owner: Some(row.sets.owner.clone()),
        processes: processes(facts, &places, &gpu.key),
        devices: wrong.iter().map(|(device, ..)| device.clone()).collect(),
        programs: decided(facts, place, &gpu, part_of(&gpu, device.gpu.as_deref())),
        confidence: confidence(set),
        evidence,
        ..Finding::default()
    };
    Some((wording::owner(&row.sets.owner), wording::list(&names), finding))
}

/// The instance with a key.
fn part_of<'a>(gpu: &'a Gpu, key: Option<&str>) -> Option<&'a MigInstance> {
    gpu.mig.iter().find(|part| part.key(gpu).as_deref() == key && key.is_some())
}

fn with_kind(kind: Finding, base: Finding) -> Finding {
    Finding { id: kind.id, severity: kind.severity, summary: kind.summary, ..base }
}

fn confidence(set: &GpuSet) -> Confidence {
    match (set.is_trusted(), set.why.is_empty()) {
        (false, _) => Confidence::Claimed,
        (true, false) => Confidence::Likely,
        (true, true) => Confidence::Certain,
    }
}

/// The whole allocation in words.
fn all(facts: &Facts<'_>, set: &GpuSet) -> String {
    if !set.instances.is_empty() {
        return wording::list(&set.instances);
    }
    let has = |gpu: &&Gpu| set.gpus.as_ref().is_some_and(|gpus| gpus.contains(&gpu.key));
    let names: Vec<String> = facts.inspection.gpus().iter().filter(has).map(wording::gpu).collect();
    if names.is_empty() { "no GPU".to_owned() } else { wording::list(&names) }
}
