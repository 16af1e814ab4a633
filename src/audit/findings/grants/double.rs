//! Finds GPUs and MIG instances that two unrelated owners may open.

use crate::audit::facts::Facts;
use crate::audit::kind::Kind;
use crate::audit::tenants::{Place, Tenant, may_share};
use crate::audit::{finding, wording};
use crate::model::{GpuKey, Owner, Severity};
use crate::report::{Finding, Gpu, MigInstance};

pub(super) const DOUBLE_GRANT: Kind = Kind {
    id: "double-grant",
    severity: Severity::Critical,
    title: "one GPU or MIG instance that two owners may open",
    page: "\
Two jobs, containers or machines that have nothing to do with each other may both open the same GPU, or \
both capabilities of the same MIG instance. They can disturb each other, and one may see what the other \
leaves in memory.

Causes: two managers that do not know of each other (Slurm and Docker, two slurmd); a device that is listed \
twice; minors that changed while jobs ran; a container that was started by hand with all GPUs.

Excuses: both share by shard or both by MPS (Slurm's variables in their environment, or an MPS daemon among \
their processes); they are parts of one job or pod, or one is inside the other; one has no processes left; \
the GPU has MIG and they open different instances; the configuration shares the GPU (sharing.gpus; needed \
for Kubernetes time slicing, which leaves no trace). Privileged containers, which may open every device, \
and jobs without a program were granted nothing and do not count. Neither does a GPU that no rule names \
(gpu-open-to-all), nor a capability that no rule names.

What to do: ask the scheduler to which owner it allocated the GPU, end or confine the other, and keep the \
GPUs of each manager apart.",
};

/// A tenant, and a device whose access by it another finding explains.
pub(super) type Covered<'a> = (&'a Owner, GpuKey);

/// A finding, and which tenant's access to which device it explains.
pub(super) struct Double<'a> {
    pub(super) finding: Finding,
    pub(super) covers: Vec<Covered<'a>>,
}

/// A tenant and the cgroup that it may open the device from.
type Holder<'f, 'a> = (&'f Tenant<'a>, Place<'a>);

/// All of them.
pub(super) fn find<'a>(facts: &Facts<'a>, unmanaged: &[&Gpu]) -> Vec<Double<'a>> {
    let mut found = Vec::new();
    for gpu in facts.gpus() {
        if unmanaged.contains(&gpu) || facts.config.sharing.has_gpu(&gpu.key) {
            continue;
        }
        let granted = facts.tenants.iter().filter(|tenant| tenant.is_granted());
        let holders: Vec<Holder<'_, 'a>> =
            granted.filter_map(|tenant| Some((tenant, tenant.allows(gpu)?))).collect();
        if gpu.mig.is_empty() {
            found.extend(conflict(facts, gpu, None, &holders));
        } else {
            found.extend(instances(facts, gpu, &holders));
        }
    }
    found
}

/// In MIG mode all share the GPU's node: the instances are what is granted.
fn instances<'a>(facts: &Facts<'a>, gpu: &Gpu, holders: &[Holder<'_, 'a>]) -> Vec<Double<'a>> {
    let mut found = Vec::new();
    for part in gpu.mig.iter().filter(|part| part.ci.is_some()) {
        let inside = holders.iter().filter_map(|(tenant, _)| {
            let mut occupied = tenant.occupied.iter().copied();
            Some((*tenant, occupied.find(|place| facts.opens_instance(*place, part))?))
        });
        found.extend(conflict(facts, gpu, Some(part), &inside.collect::<Vec<_>>()));
    }
    found
}

/// The finding if two of these tenants are strangers that share nothing.
fn conflict<'a>(
    facts: &Facts<'a>,
    gpu: &Gpu,
    part: Option<&MigInstance>,
    holders: &[Holder<'_, 'a>],
) -> Option<Double<'a>> {
    let device = part.map_or_else(|| finding::gpu(gpu), |part| finding::instance(gpu, part));
    let key = &part.and_then(|part| part.compute_key(gpu)).unwrap_or_else(|| gpu.key.clone());
    let is_stranger = |(one, _): &&Holder<'_, 'a>| {
        holders.iter().any(|(other, _)| !one.is(other) && !may_share(one, other))
    };
    let strangers: Vec<&Holder<'_, 'a>> = holders.iter().filter(is_stranger).collect();
    let (_, first) = strangers.first()?;
    let owners: Vec<Owner> = strangers.iter().map(|(tenant, _)| tenant.owner().clone()).collect();
    let names: Vec<String> = owners.iter().map(wording::owner).collect();
    let asking = wording::asking(&owners);
    let clause = |(tenant, place): &&Holder<'_, 'a>| {
        let (owner, path) = (wording::owner(tenant.owner()), place.path.lossy());
        format!("{owner} may open it from {path}; {}", claim(tenant, key, gpu))
    };
    let evidence = wording::clauses(strangers.iter().map(clause).collect());
    let places: Vec<Place<'_>> = strangers.iter().map(|(_, place)| *place).collect();
    let shown = places.iter().take(wording::SHOWN);
    let programs = shown.flat_map(|place| finding::decided(facts, *place, gpu, part)).collect();
    let what = device.name.clone().unwrap_or_else(|| key.to_string());
    let what = if gpu.mig.is_empty() { what } else { format!("MIG instance {key}") };
    let finding = Finding {
        owner: owners.first().cloned(),
        others: owners.into_iter().skip(1).collect(),
        processes: finding::holders_first(&places, &gpu.key),
        devices: vec![device],
        programs,
        evidence,
        excuses: excuses(gpu),
        advice: format!(
            "Find out whose it is ({asking}), and end or confine the other; if it is shared on purpose, say so \
             in the configuration (sharing.gpus)."
        ),
        ..finding::at(
            &DOUBLE_GRANT,
            first.cgroup,
            format!("{what} may be opened by {}", wording::list(&names)),
        )
    };
    let covers = strangers.iter().map(|(tenant, _)| (tenant.owner(), key.clone())).collect();
    Some(Double { finding, covers })
}

/// The tenant's allocation, as evidence.
fn claim(tenant: &Tenant<'_>, key: &str, gpu: &Gpu) -> String {
    let set = &tenant.sets.allocated;
    let source = set.source_name();
    let has = |keys: &[GpuKey]| keys.iter().any(|other| *other == gpu.key || **other == *key);
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
