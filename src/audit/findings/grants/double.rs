//! Finds GPUs and MIG instances that two unrelated owners may open.

use std::collections::BTreeSet;

use super::evidence::{decided, instance, processes};
use super::pages::DOUBLE_GRANT;
use crate::audit::access::{TenantAccess, opens_instance};
use crate::audit::facts::{Facts, Tenant, is_within, whole};
use crate::audit::{finding, wording};
use crate::model::{Owner, SharingMode};
use crate::report::{Finding, Gpu, MigInstance};

/// A finding, and which tenant's access to which device it explains.
pub(super) struct Double {
    pub(super) finding: Finding,
    pub(super) covers: Vec<(usize, String)>,
}

/// A tenant and the cgroup that it may open the device from.
type Holder = (usize, usize);

/// All of them.
pub(super) fn find(facts: &mut Facts<'_>, access: &TenantAccess, unmanaged: &BTreeSet<usize>) -> Vec<Double> {
    let granted = access.granted(facts);
    let gpus = facts.inspection.gpus().to_vec();
    let mut found = Vec::new();
    for (index, gpu) in gpus.iter().enumerate() {
        if unmanaged.contains(&index) || facts.config.sharing.has_gpu(&gpu.key) {
            continue;
        }
        let place = |tenant: &usize| Some((*tenant, access.allows(facts, *tenant, index)?));
        let holders: Vec<Holder> = granted.iter().filter_map(place).collect();
        if gpu.mig.is_empty() {
            found.extend(conflict(facts, gpu, None, &holders));
        } else {
            found.extend(instances(facts, access, gpu, &holders));
        }
    }
    found
}

/// In MIG mode all share the GPU's node: the instances are what is granted.
fn instances(facts: &mut Facts<'_>, access: &TenantAccess, gpu: &Gpu, holders: &[Holder]) -> Vec<Double> {
    let mut found = Vec::new();
    for part in &gpu.mig {
        if part.ci.is_none() {
            continue;
        }
        let mut inside = Vec::new();
        for (tenant, _) in holders {
            let occupied = access.own.get(*tenant).map(|own| own.occupied.clone()).unwrap_or_default();
            let place = occupied.into_iter().find(|place| opens_instance(facts, *place, part));
            inside.extend(place.map(|place| (*tenant, place)));
        }
        found.extend(conflict(facts, gpu, Some(part), &inside));
    }
    found
}

/// The finding if two of these tenants are strangers that share nothing.
fn conflict(
    facts: &mut Facts<'_>,
    gpu: &Gpu,
    part: Option<&MigInstance>,
    holders: &[Holder],
) -> Option<Double> {
    let device = part.map_or_else(|| finding::gpu(gpu), |part| instance(gpu, part));
    let key = &part.and_then(|part| part.key(gpu)).unwrap_or_else(|| gpu.key.clone());
    let stranger =
        |(one, _): &&Holder| holders.iter().any(|(other, _)| one != other && !may_share(facts, *one, *other));
    let strangers: Vec<Holder> = holders.iter().filter(stranger).copied().collect();
    let (_, place) = *strangers.first()?;
    let rows: Vec<_> =
        strangers.iter().filter_map(|(tenant, place)| Some((facts.tenants.get(*tenant)?, *place))).collect();
    let owners: Vec<Owner> = rows.iter().map(|(tenant, _)| tenant.sets.owner.clone()).collect();
    let names: Vec<String> = owners.iter().map(wording::owner).collect();
    let clause = |(tenant, place): &(&Tenant, usize)| {
        let path = facts.path(*place).lossy().into_owned();
        format!("{} may open it from {path}; {}", wording::owner(&tenant.sets.owner), claim(tenant, key, gpu))
    };
    let evidence = wording::clauses(rows.iter().map(clause).collect());
    let places: Vec<usize> = strangers.iter().map(|(_, place)| *place).collect();
    let programs = strangers
        .iter()
        .take(wording::SHOWN)
        .flat_map(|(_, place)| decided(facts, *place, gpu, part))
        .collect();
    let what = device.name.clone().unwrap_or_else(|| key.to_owned());
    let what = if gpu.mig.is_empty() { what } else { format!("MIG instance {key}") };
    let cgroup = facts.cgroups().get(place)?;
    let finding = Finding {
        owner: owners.first().cloned(),
        others: owners.into_iter().skip(1).collect(),
        processes: processes(facts, &places, &gpu.key),
        devices: vec![device],
        programs,
        evidence,
        excuses: excuses(gpu),
        advice: "Find out whose it is (scontrol show job -d, kubectl describe node), and end or confine the other; \
                 if it is shared on purpose, say so in the configuration (sharing.gpus)."
            .to_owned(),
        ..finding::at(&DOUBLE_GRANT, cgroup, format!("{what} may be opened by {}", wording::list(&names)))
    };
    let covers = strangers.iter().map(|(tenant, _)| (*tenant, key.to_owned())).collect();
    Some(Double { finding, covers })
}

/// The tenant's allocation, as evidence.
fn claim(tenant: &Tenant, key: &str, gpu: &Gpu) -> String {
    let set = &tenant.sets.allocated;
    let source = set.source_name();
    let has = |keys: &[String]| keys.iter().any(|other| *other == gpu.key || *other == key);
    match &set.gpus {
        None => "its allocation is not known".to_owned(),
        Some(gpus) if has(gpus) || has(&set.instances) => format!("allocated to it ({source})"),
        Some(_) if has(&set.unknown) => "whether it was allocated to it is not known".to_owned(),
        Some(_) => format!("not allocated to it ({source})"),
    }
}

fn excuses(gpu: &Gpu) -> Vec<String> {
    let mut excuses = vec![
        "they do not all share GPUs by shard, nor all by MPS, nor all by libvgpu.so".to_owned(),
        "they are not of one job or pod, and none is inside another".to_owned(),
        "all of them have processes, so none has just ended".to_owned(),
        "the configuration does not share it (sharing.gpus)".to_owned(),
    ];
    if !gpu.mig.is_empty() {
        excuses.push("it is the same instance, not only the same GPU".to_owned());
    }
    excuses
}

/// Whether two tenants may have a GPU in common: they are one job's or one
/// pod's, or both share it by design.
pub(in crate::audit::findings) fn may_share(facts: &Facts<'_>, one: usize, other: usize) -> bool {
    let (Some(one), Some(other)) = (facts.tenants.get(one), facts.tenants.get(other)) else { return false };
    let both = |mode: SharingMode| [one, other].iter().all(|tenant| tenant.sets.shares.contains(&mode));
    both(SharingMode::Shard)
        || both(SharingMode::Mps)
        || both(SharingMode::Interception)
        || is_one(&one.sets.owner, &other.sets.owner)
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
