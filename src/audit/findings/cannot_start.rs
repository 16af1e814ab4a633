//! Finds GPUs that may be opened but not used, because a shared node that
//! their libraries need is denied.

use std::collections::BTreeSet;

use super::stale_numbers;
use crate::audit::facts::{Facts, Tenant};
use crate::audit::finding;
use crate::audit::kind::{Family, Kind};
use crate::audit::tenants::{about_gpus, count, gpus_with, views};
use crate::audit::wording;
use crate::gpu::SharedNode;
use crate::model::{OwnerKind, Request, Severity, Vendor, Verdict};
use crate::report::Finding;

const START: Kind = Kind {
    id: "cuda-cannot-start",
    severity: Severity::Warning,
    title: "a GPU is allowed, but a node that it takes is denied",
    page: "\
A job, container or systemd unit may open a GPU, but not a node that all GPUs of the vendor share and that every program needs: nvidiactl and \
nvidia-uvm for CUDA, kfd for ROCm. cuInit fails, or finds no device.

Causes: an allow-list (DeviceAllow= of a unit) that names /dev/nvidiaN alone; nvidia-uvm was loaded only after the list was written; \
a second program, such as systemd's after a daemon-reload, that does not know the node.

Excuses: another cgroup of the tenant in which the same vendor's GPUs can be used, or a finding stale-major, \
which names the cause. A container that renders and does not compute (NVIDIA_DRIVER_CAPABILITIES without compute) \
needs no nvidia-uvm: accept the finding in the configuration.

What to do: add the nodes to the specification (CDI lists them) or to DeviceAllow= of the unit, and start it again.",
};

pub(super) const FAMILY: Family = Family { kinds: &[START], find };

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    let tenants = [facts.tenants.clone(), facts.units_with_rules()].concat();
    let vendors = [Vendor::Nvidia, Vendor::Amd];
    tenants
        .iter()
        .flat_map(|tenant| vendors.each_ref().map(|vendor| look(facts, tenant, vendor)))
        .flatten()
        .collect()
}

fn look(facts: &mut Facts<'_>, tenant: &Tenant, vendor: &Vendor) -> Option<Finding> {
    let mut places = views(facts, tenant);
    places.retain(|place| !gpus_of(facts, *place, vendor).is_empty());
    let needed: Vec<SharedNode> =
        facts.inspection.shared_nodes().iter().filter(|node| belongs(node, vendor)).cloned().collect();
    let mut first = None;
    for place in places {
        let denied = denied(facts, place, &needed);
        if denied.is_empty() {
            return None;
        }
        first = first.or(Some((place, denied)));
    }
    let (place, denied) = first?;
    if *vendor == Vendor::Nvidia && stale_numbers::outdated(facts, tenant).is_some() {
        return None;
    }
    Some(report(facts, tenant, vendor, place, &denied))
}

fn gpus_of(facts: &Facts<'_>, place: usize, vendor: &Vendor) -> Vec<usize> {
    let mut gpus = gpus_with(facts, place, Verdict::Allow);
    gpus.retain(|at| facts.inspection.gpus()[*at].vendor == *vendor);
    gpus
}

fn belongs(node: &SharedNode, vendor: &Vendor) -> bool {
    node.needed && node.role.needed_by().as_ref() == Some(vendor)
}

fn denied(facts: &mut Facts<'_>, place: usize, needed: &[SharedNode]) -> Vec<SharedNode> {
    let is_denied = |node: &&SharedNode| {
        facts.verdict(place, (node.major, node.minor), Request::ReadWrite) == Verdict::Deny
    };
    needed.iter().filter(is_denied).cloned().collect()
}

fn report(
    facts: &mut Facts<'_>,
    tenant: &Tenant,
    vendor: &Vendor,
    place: usize,
    denied: &[SharedNode],
) -> Finding {
    let gpus = gpus_of(facts, place, vendor);
    let roles: BTreeSet<String> = denied.iter().map(|node| node.role.to_string()).collect();
    let roles = roles.into_iter().collect::<Vec<_>>().join(" and ");
    let owner = wording::owner(&tenant.sets.owner);
    let api = if *vendor == Vendor::Amd { "ROCm" } else { "CUDA" };
    let summary = format!("{owner} may open {} but not {roles}: {api} cannot start", count(gpus.len()));
    let mut found = about_gpus(facts, &START, place, &[], summary);
    let name = |node: &SharedNode| node.path.strip_prefix("/dev/").unwrap_or(&node.path).to_owned();
    found.devices =
        denied.iter().map(|node| finding::device((node.major, node.minor), Some(&name(node)))).collect();
    found.devices.extend(gpus.iter().map(|at| finding::gpu(&facts.inspection.gpus()[*at])));
    if let Some(node) = denied.first() {
        found.programs = facts.decisions(place, (node.major, node.minor), Request::ReadWrite);
    }
    found.excuses.push("in no other of its cgroups can these GPUs be used".to_owned());
    let held = facts.cgroups()[place].processes.iter().any(|process| !process.held_shared.is_empty());
    if held {
        found
            .evidence
            .push("a process has a shared node open from before: it goes on, new ones fail".to_owned());
    }
    let where_to = if tenant.sets.owner.kind == OwnerKind::Unit {
        "with DeviceAllow= in the unit's file"
    } else {
        "(CDI lists all nodes that a GPU takes)"
    };
    found.advice = format!("allow {roles} too {where_to}, and start it again");
    found
}
