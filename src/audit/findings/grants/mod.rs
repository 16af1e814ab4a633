//! Finds GPUs that the rules grant to everybody, to two owners, to an owner they
//! were not allocated to, or not to the owner they were allocated to.

mod allocation;
mod double;
mod open;

pub(super) use open::unmanaged;

use crate::audit::facts::{Facts, Place};
use crate::audit::finding;
use crate::audit::kind::Family;
use crate::audit::tenants::{capabilities, number};
use crate::model::{Owner, Request};
use crate::report::{Decision, Finding, FindingDevice, FindingProcess, Gpu, MigInstance};

/// The kinds of this family.
pub(super) const FAMILY: Family = Family {
    kinds: &[
        open::OPEN_TO_ALL,
        double::DOUBLE_GRANT,
        allocation::GRANT_WITHOUT_ALLOC,
        allocation::ALLOC_WITHOUT_GRANT,
    ],
    find,
};

fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let open = open::find(facts);
    let unmanaged: Vec<&Gpu> = open.iter().map(|(gpu, _)| *gpu).collect();
    let doubles = double::find(facts, &unmanaged);
    let covered: Vec<Covered<'_>> = doubles.iter().flat_map(|double| &double.covers).cloned().collect();
    let mut findings: Vec<Finding> = open.into_iter().filter_map(|(_, finding)| finding).collect();
    findings.extend(doubles.into_iter().map(|double| double.finding));
    findings.extend(allocation::find(facts, &unmanaged, &covered));
    findings
}

/// A tenant, and a device whose access by it another finding explains.
type Covered<'a> = (&'a Owner, String);

/// An instance as a device of a finding: the node that opens it last.
fn instance(gpu: &Gpu, instance: &MigInstance) -> FindingDevice {
    let number = instance.major.zip(instance.ci_minor);
    FindingDevice {
        gpu: instance.key(gpu),
        number: number.map(|(major, minor)| format!("c {major}:{minor}")),
        name: instance.ci_minor.map(|minor| format!("nvidia-caps/nvidia-cap{minor}")),
        ..finding::gpu(gpu)
    }
}

/// The processes of some cgroups, those first that hold the GPU.
fn processes(places: &[Place<'_>], key: &str) -> Vec<FindingProcess> {
    let mut all: Vec<_> = places.iter().flat_map(|place| &place.cgroup.processes).collect();
    all.sort_by_key(|process| {
        let holds = process.held.as_ref().is_some_and(|held| held.iter().any(|held| held == key));
        (!holds, process.pid, process.start_time)
    });
    all.into_iter().take(finding::LISTED).map(finding::process).collect()
}

/// The programs that decided on a GPU in a cgroup.
fn decisions(facts: &Facts<'_>, place: Place<'_>, gpu: &Gpu) -> Vec<Decision> {
    match number(gpu) {
        Some(number) => facts.decisions(place, number, Request::ReadWrite),
        None => Vec::new(),
    }
}

/// The programs that decided on an instance: on the last of its capabilities, which
/// are opened for reading. Without an instance, those that decided on the GPU.
fn decided(facts: &Facts<'_>, place: Place<'_>, gpu: &Gpu, part: Option<&MigInstance>) -> Vec<Decision> {
    match part.and_then(capabilities) {
        Some([_, compute]) => facts.decisions(place, compute, Request::Read),
        None => decisions(facts, place, gpu),
    }
}
