//! Finds MIG capabilities that are open to a tenant to which the instance was not
//! allocated.

use super::side_devices::{Dac, dac, node};
use crate::audit::facts::Facts;
use crate::audit::kind::{Family, Kind};
use crate::audit::tenants::{Place, Tenant, number};
use crate::audit::{finding, wording};
use crate::model::{AllocationSource, Confidence, Request, Severity};
use crate::report::{Finding, FindingDevice, Gpu, MigInstance};

const OPEN: Kind = Kind {
    id: "mig-capability-open",
    severity: Severity::Critical,
    title: "MIG instances of others are open",
    page: "\
A tenant that was allocated MIG instances of a GPU may open the capability nodes of other instances of the \
same GPU, and the GPU itself, which all of its tenants share. No other right is needed to compute on them.

Causes: gres.conf lists the GPU without the capability nodes of its instances, and Slurm's program allows \
what it does not list; instances were made after slurmd had read its files; a container was given every \
capability (c MAJOR:* rw). CAP_SYS_ADMIN in the initial user namespace replaces every capability node.

Excuses: file permissions of the capability nodes (0444 as the driver makes them); sharing.whole_node, or \
sharing.gpus for the GPU; an allocation that is not known, or names whole GPUs or every instance.

What to do: AutoDetect=nvml, or MultipleFiles= with /dev/nvidia-caps/nvidia-capN of both levels for each \
instance, and restart slurmd whenever instances change.",
};

pub(super) const FAMILY: Family = Family { kinds: &[OPEN], find };

/// The letter's bit in a mode.
const READ: u32 = 4;

/// An instance of a GPU.
type Open<'a> = (&'a Gpu, &'a MigInstance);

fn find(facts: &Facts<'_>) -> Vec<Finding> {
    facts.tenants.iter().filter_map(|tenant| look(facts, tenant)).collect()
}

fn look(facts: &Facts<'_>, tenant: &Tenant<'_>) -> Option<Finding> {
    let gpus: Vec<&Gpu> = facts.gpus().iter().filter(|gpu| is_part_owned(facts, tenant, gpu)).collect();
    if gpus.is_empty() {
        return None;
    }
    tenant.views().into_iter().find_map(|place| {
        let open: Vec<Open<'_>> = gpus.iter().flat_map(|gpu| foreign(facts, tenant, place, gpu)).collect();
        (!open.is_empty()).then(|| report(facts, tenant, place, &open))
    })
}

/// Whether the tenant was allocated instances of a GPU that not everybody may
/// have.
fn is_part_owned(facts: &Facts<'_>, tenant: &Tenant<'_>, gpu: &Gpu) -> bool {
    let own = &tenant.sets.allocated.instances;
    !facts.is_shared(gpu) && gpu.mig.iter().any(|instance| own.contains(&instance.key(gpu)))
}

/// The instances of a GPU that a tenant was not allocated and may open.
fn foreign<'a>(facts: &Facts<'_>, tenant: &Tenant<'_>, place: Place<'_>, gpu: &'a Gpu) -> Vec<Open<'a>> {
    if !number(gpu).is_some_and(|number| facts.allows(place, number, Request::ReadWrite)) {
        return Vec::new();
    }
    let own = &tenant.sets.allocated.instances;
    let others = gpu.mig.iter().filter(|instance| !own.contains(&instance.key(gpu)));
    let opens = |number| passes(facts, place, number) && facts.allows(place, number, Request::Read);
    let open = others
        .filter(|instance| capabilities(instance).is_some_and(|numbers| numbers.into_iter().all(opens)));
    open.map(|instance| (gpu, instance)).collect()
}

/// Whether the file permissions of a capability node let somebody in; one that
/// does not exist is made with those of the driver, for everybody to read.
fn passes(facts: &Facts<'_>, place: Place<'_>, number: (u32, u32)) -> bool {
    node(facts, number).is_none_or(|node| dac(node, place.cgroup, READ) != Dac::Nobody)
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

fn report(facts: &Facts<'_>, tenant: &Tenant<'_>, place: Place<'_>, open: &[Open<'_>]) -> Finding {
    let owner = wording::owner(tenant.owner());
    let summary = format!("{owner} may open {} MIG instances that it was not allocated", open.len());
    let mut found = finding::about_gpus(facts, &OPEN, place, &[], summary);
    for (gpu, instance) in open {
        let number = instance.major.zip(instance.ci_minor.or(instance.gi_minor));
        found.devices.push(FindingDevice {
            gpu: Some(instance.key(gpu)),
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
    let list = wording::device_list(tenant.owner());
    found.advice = format!("list the capability nodes of every instance in {list} and restart its daemon");
    found
}
