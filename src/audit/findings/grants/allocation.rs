//! Compares what the scheduler allocated with what the rules allow.

use super::super::refused::in_vain;
use super::double::Covered;
use crate::audit::facts::Facts;
use crate::audit::kind::Kind;
use crate::audit::tenants::{Place, Tenant};
use crate::audit::{finding, wording};
use crate::model::{AllocationSource, Confidence, GpuKey, Severity, Verdict};
use crate::report::{Finding, FindingDevice, Gpu, GpuSet, MigInstance};

pub(super) const GRANT_WITHOUT_ALLOC: Kind = Kind {
    id: "grant-without-alloc",
    severity: Severity::Critical,
    title: "a job that may open a GPU it was not allocated",
    page: "\
Device rules are in force on the job, and they let it open a GPU that the scheduler did not allocate to it.

The allocation comes from the environment of Prolog or Epilog (--from-env) or from the caller \
(--allocated). Without them it is read from the environment of the job's processes, which the user can \
fake: then the finding is a warning, and its confidence is claimed. gres.conf says which GPUs Slurm's \
numbers mean; the evidence names assumptions.

Causes: another program replaced the job's; a container runtime grants GPUs by itself; minors changed.

Excuses: the allocation of that GPU is not known; the configuration shares the GPU (sharing.gpus) or gives \
whole nodes (sharing.whole_node). A GPU that is open to all or granted twice has a finding of its own, and \
so has a job without any program.

What to do: look at the deciding instruction (gpumap explain), and at who loaded the program and when.",
};

pub(super) const ALLOC_WITHOUT_GRANT: Kind = Kind {
    id: "alloc-without-grant",
    severity: Severity::Warning,
    title: "a job that may not open a GPU it was allocated",
    page: "\
The scheduler allocated a GPU to the job, but every cgroup of the job is denied it: programs of the job \
fail, or run without the GPU. Isolation holds.

Causes: systemctl daemon-reload, after which systemd adds its own, narrower program; an agent that takes \
devices away; a GPU whose minor changed or whose node is gone; a gres.conf whose numbers are not those of \
slurmd.

Excuses: the job's own cgroup may open the GPU, and only a step may not. If the allocation is read from the \
environment of the job's processes, confidence is claimed. With a running gpumap denials --state FILE the \
evidence says how often the job's processes were refused the GPU.

What to do: compare the rules in force (gpumap cgroup) with gres.conf. gpumap repair says how the access \
comes back; else start the job again once the rules are right.",
};

/// A device, the cgroup it matters in, and its GPU.
struct Wrong<'a> {
    device: FindingDevice,
    place: Place<'a>,
    gpu: &'a Gpu,
}

/// Compares the allocation of every tenant with its rules, in both directions. GPUs
/// that are open to all or granted twice have a finding already.
pub(super) fn find(facts: &Facts<'_>, unmanaged: &[&Gpu], covered: &[Covered<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for tenant in &facts.tenants {
        let Some(allocated) = &tenant.sets.allocated.gpus else { continue };
        let is_covered = |wrong: &Wrong<'_>| {
            let key = wrong.device.gpu.as_deref().unwrap_or_default();
            covered.iter().any(|(owner, of)| *owner == tenant.owner() && **of == *key)
        };
        let mut extra = extra(facts, tenant, allocated, unmanaged);
        extra.retain(|wrong| !is_covered(wrong));
        findings.extend(with_extra(facts, tenant, &extra));
        findings.extend(with_missing(facts, tenant, &missing(facts, tenant, allocated)));
    }
    findings
}

/// The GPUs that a constrained tenant may open besides its allocation.
fn extra<'a>(
    facts: &Facts<'a>,
    tenant: &Tenant<'a>,
    allocated: &[GpuKey],
    unmanaged: &[&Gpu],
) -> Vec<Wrong<'a>> {
    let set = &tenant.sets.allocated;
    if !tenant.is_constrained() || facts.config.sharing.whole_node {
        return Vec::new();
    }
    let mut found = Vec::new();
    for gpu in facts.gpus() {
        let Some(place) = tenant.allows(gpu) else { continue };
        if unmanaged.contains(&gpu)
            || facts.config.sharing.has_gpu(&gpu.key)
            || set.unknown.contains(&gpu.key)
        {
            continue;
        }
        if !allocated.contains(&gpu.key) {
            found.push(Wrong { device: finding::gpu(gpu), place, gpu });
            continue;
        }
        // The GPU is its own; with MIG, perhaps only some instances are.
        let is_whole = !set.instances.iter().any(|instance| instance.is_on(&gpu.key));
        let is_foreign = |part: &&MigInstance| {
            let is_known = |key: GpuKey| set.instances.contains(&key) || set.unknown.contains(&key);
            part.compute_key(gpu).is_some_and(|key| !is_known(key))
        };
        for part in gpu.mig.iter().filter(|_| !is_whole).filter(is_foreign) {
            let mut occupied = tenant.occupied.iter().copied();
            let place = occupied.find(|place| facts.opens_instance(*place, part));
            found.extend(place.map(|place| Wrong { device: finding::instance(gpu, part), place, gpu }));
        }
    }
    found
}

/// The GPUs that a tenant was allocated and may open from none of its cgroups. A
/// step may have fewer than its job; then the job's own cgroup has all.
fn missing<'a>(facts: &Facts<'a>, tenant: &Tenant<'a>, allocated: &[GpuKey]) -> Vec<Wrong<'a>> {
    let Some(place) = tenant.own.first().copied() else { return Vec::new() };
    let unknown = &tenant.sets.allocated.unknown;
    let is_denied = |gpu: &&Gpu| {
        let everywhere = tenant.own.iter().all(|place| place.verdict(gpu) == Verdict::Deny);
        allocated.contains(&gpu.key) && !unknown.contains(&gpu.key) && everywhere
    };
    let denied = facts.gpus().iter().filter(is_denied);
    denied.map(|gpu| Wrong { device: finding::gpu(gpu), place, gpu }).collect()
}

fn with_extra(facts: &Facts<'_>, tenant: &Tenant<'_>, wrong: &[Wrong<'_>]) -> Option<Finding> {
    let base = base(facts, tenant, wrong)?;
    let (owner, devices) = (wording::owner(tenant.owner()), names(wrong));
    let is_trusted = tenant.sets.allocated.is_trusted();
    Some(Finding {
        id: GRANT_WITHOUT_ALLOC.id.to_owned(),
        severity: if is_trusted { GRANT_WITHOUT_ALLOC.severity } else { Severity::Warning },
        summary: format!("{owner} may open {devices}, which it was not allocated"),
        excuses: vec![
            "it is not open to all jobs, and no other owner may open it".to_owned(),
            "the configuration neither shares it (sharing.gpus) nor gives whole nodes".to_owned(),
        ],
        advice:
            "Compare gres.conf with the job's allocation (scontrol show job -d); a container runtime or an \
                 agent may have replaced the scheduler's program."
                .to_owned(),
        ..base
    })
}

fn with_missing(facts: &Facts<'_>, tenant: &Tenant<'_>, wrong: &[Wrong<'_>]) -> Option<Finding> {
    let mut base = base(facts, tenant, wrong)?;
    let (owner, devices) = (wording::owner(tenant.owner()), names(wrong));
    base.evidence.extend(wrong.iter().filter_map(|wrong| in_vain(facts, tenant, wrong.gpu)));
    Some(Finding {
        id: ALLOC_WITHOUT_GRANT.id.to_owned(),
        severity: ALLOC_WITHOUT_GRANT.severity,
        summary: format!(
            "{owner} was allocated {devices} and may not open it: what it starts there will fail"
        ),
        processes: finding::holders_first(&tenant.occupied, ""),
        excuses: vec![
            "it is denied in every cgroup of the job, not only in a step with a part of its GPUs".to_owned(),
        ],
        advice: "Compare the rules with gres.conf (gpumap explain shows the program): a systemd reload, an \
                 agent or another number of the device may have taken it away."
            .to_owned(),
        ..base
    })
}

/// The part that both findings share.
fn base(facts: &Facts<'_>, tenant: &Tenant<'_>, wrong: &[Wrong<'_>]) -> Option<Finding> {
    let first = wrong.first()?;
    let set = &tenant.sets.allocated;
    let all = all(facts, set);
    let mut evidence = vec![match set.source {
        Some(AllocationSource::Hook) => format!("the scheduler's hook says it was allocated {all}"),
        Some(AllocationSource::Given) => format!("the caller says it was allocated {all}"),
        _ => {
            format!("the environment of its processes, which the user can fake, says it was allocated {all}")
        }
    }];
    evidence.extend(set.why.iter().cloned());
    evidence.extend(wording::clauses(wrong.iter().filter_map(verdict).collect()));
    let mut places: Vec<Place<'_>> = wrong.iter().map(|wrong| wrong.place).collect();
    places.dedup();
    Some(Finding {
        cgroup: Some(first.place.cgroup.path.clone()),
        cgroup_hex: first.place.cgroup.path_hex.clone(),
        owner: Some(tenant.owner().clone()),
        processes: finding::holders_first(&places, &first.gpu.key),
        devices: wrong.iter().map(|wrong| wrong.device.clone()).collect(),
        programs: finding::decided(facts, first.place, first.gpu, part_of(first)),
        confidence: confidence(set),
        evidence,
        ..Finding::default()
    })
}

/// The devices in words.
fn names(wrong: &[Wrong<'_>]) -> String {
    let name = |wrong: &Wrong<'_>| match wrong.gpu.mig.is_empty() {
        true => wording::gpu(wrong.gpu),
        false => wrong.device.gpu.as_deref().unwrap_or_default().to_owned(),
    };
    wording::list(&wrong.iter().map(name).collect::<Vec<_>>())
}

/// What the rules say of a GPU, and why.
fn verdict(wrong: &Wrong<'_>) -> Option<String> {
    let cgroup = wrong.place.cgroup;
    let verdict = cgroup.gpus.iter().find(|verdict| verdict.gpu == wrong.gpu.key)?;
    let why = verdict.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    Some(format!("{}: {} {} (rw){why}", cgroup.path, verdict.verdict, wording::gpu(wrong.gpu)))
}

/// The instance that is wrong.
fn part_of<'a>(wrong: &Wrong<'a>) -> Option<&'a MigInstance> {
    let key = wrong.device.gpu.as_ref()?;
    wrong.gpu.mig.iter().find(|part| part.compute_key(wrong.gpu).as_ref() == Some(key))
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
    wording::gpus(facts.gpus().iter().filter(has))
}
