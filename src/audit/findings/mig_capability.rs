//! Finds MIG capabilities that are open to a tenant to which the instance was not
//! allocated.

use crate::audit::facts::{Facts, Tenant};
use crate::audit::finding;
use crate::audit::kind::{Family, Kind};
use crate::audit::permissions::{Dac, dac, node};
use crate::audit::tenants::{about_gpus, is_shared, number, views};
use crate::audit::wording;
use crate::model::{AllocationSource, Confidence, InstanceKey, Request, Severity, Verdict};
use crate::report::{Finding, FindingDevice, Gpu, MigInstance};

const OPEN: Kind = Kind {
    id: "mig-capability-open",
    severity: Severity::Critical,
    title: "MIG instances of others are open",
    page: "\
A tenant that was allocated MIG instances of a GPU may open the capability nodes of other instances of the same GPU, \
and the GPU itself, which all of its tenants share. No other right is needed to compute on them.

Causes: gres.conf lists the GPU without the capability nodes of its instances, and Slurm's program allows \
what it does not list; instances were made after slurmd had read its files; a container was given every capability \
(c MAJOR:* rw). CAP_SYS_ADMIN in the initial user namespace replaces every capability node.

Excuses: file permissions of the capability nodes (0444 as the driver makes them); sharing.whole_node, or sharing.gpus for the GPU; an allocation that is not known, or names whole GPUs \
or every instance.

What to do: AutoDetect=nvml, or MultipleFiles= with /dev/nvidia-caps/nvidia-capN of both levels for each instance, and \
restart slurmd whenever instances change.",
};

pub(super) const FAMILY: Family = Family { kinds: &[OPEN], find };

/// The letter's bit in a mode.
const READ: u32 = 4;

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    let tenants = facts.tenants.clone();
    tenants.iter().filter_map(|tenant| look(facts, tenant)).collect()
}

fn look(facts: &mut Facts<'_>, tenant: &Tenant) -> Option<Finding> {
    let gpus: Vec<usize> =
        (0..facts.inspection.gpus().len()).filter(|at| is_part_owned(facts, tenant, *at)).collect();
    if gpus.is_empty() {
        return None;
    }
    views(facts, tenant).into_iter().find_map(|place| {
        let open: Vec<(usize, MigInstance)> =
            gpus.iter().flat_map(|at| foreign(facts, tenant, place, *at)).collect();
        (!open.is_empty()).then(|| report(facts, tenant, place, &open))
    })
}

/// Whether the tenant was allocated instances of a GPU that not everybody may
/// have.
fn is_part_owned(facts: &Facts<'_>, tenant: &Tenant, at: usize) -> bool {
    let gpu = &facts.inspection.gpus()[at];
    let own = &tenant.sets.allocated.instances;
    !is_shared(facts.config, gpu) && gpu.mig.iter().any(|instance| own.contains(&key(gpu, instance)))
}

/// The instances of a GPU that a tenant was not allocated and may open.
fn foreign(facts: &mut Facts<'_>, tenant: &Tenant, place: usize, at: usize) -> Vec<(usize, MigInstance)> {
    let gpu = facts.inspection.gpus()[at].clone();
    let allowed =
        |facts: &mut Facts<'_>, number, request| facts.verdict(place, number, request) == Verdict::Allow;
    if !number(&gpu).is_some_and(|number| allowed(facts, number, Request::ReadWrite)) {
        return Vec::new();
    }
    let mut others = gpu.mig.clone();
    others.retain(|instance| !tenant.sets.allocated.instances.contains(&key(&gpu, instance)));
    others.retain(|instance| {
        let numbers = capabilities(instance);
        numbers.is_some_and(|numbers| {
            numbers
                .into_iter()
                .all(|number| passes(facts, place, number) && allowed(facts, number, Request::Read))
        })
    });
    others.into_iter().map(|instance| (at, instance)).collect()
}

/// Whether the file permissions of a capability node let somebody in; one that
/// does not exist is made with those of the driver, for everybody to read.
fn passes(facts: &Facts<'_>, place: usize, number: (u32, u32)) -> bool {
    node(facts, number).is_none_or(|node| dac(node, &facts.cgroups()[place], READ) != Dac::Nobody)
}

/// The numbers of both levels; `None` where one is not known.
fn capabilities(instance: &MigInstance) -> Option<Vec<(u32, u32)>> {
    let of = |minor: u32| Some((instance.major?, minor));
    let mut numbers = vec![of(instance.gi_minor?)?];
    if instance.ci.is_some() {
        numbers.push(of(instance.ci_minor?)?);
    }
    Some(numbers)
}

fn key(gpu: &Gpu, instance: &MigInstance) -> String {
    InstanceKey { gpu: &gpu.key, gi: instance.gi, ci: instance.ci }.to_string()
}

fn report(facts: &mut Facts<'_>, tenant: &Tenant, place: usize, open: &[(usize, MigInstance)]) -> Finding {
    let owner = wording::owner(&tenant.sets.owner);
    let summary = format!("{owner} may open {} MIG instances that it was not allocated", open.len());
    let mut found = about_gpus(facts, &OPEN, place, &[], summary);
    for (at, instance) in open {
        let gpu = &facts.inspection.gpus()[*at];
        let number = instance.major.zip(instance.ci_minor.or(instance.gi_minor));
        found.devices.push(FindingDevice {
            gpu: Some(key(gpu, instance)),
            number: number.map(|(major, minor)| format!("c {major}:{minor}")),
            name: number.map(|(_, minor)| format!("nvidia-caps/nvidia-cap{minor}")),
            ..finding::gpu(gpu)
        });
    }
    let first = open.first().and_then(|(_, instance)| capabilities(instance)?.pop());
    found.programs = first.map(|number| facts.decisions(place, number, Request::Read)).unwrap_or_default();
    let sets = &tenant.sets.allocated;
    let source = sets.source_name();
    found.evidence.push(format!("allocated are {} ({source})", sets.instances.join(", ")));
    found.evidence.push("the GPU itself is open to it, as it is to every tenant of its instances".to_owned());
    if sets.source == Some(AllocationSource::Claimed) {
        found.confidence = Confidence::Claimed;
    }
    found
        .excuses
        .push("the configuration shares the GPU neither with everybody nor by whole nodes".to_owned());
    found.advice = "list the capability nodes of every instance in gres.conf and restart slurmd".to_owned();
    found
}
