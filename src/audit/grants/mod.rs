//! GPUs that are granted to the wrong one, to two at once, to everybody, or
//! not to whom they were allocated.

mod allocation;
mod double;
mod open;
mod pages;

use std::collections::BTreeSet;

use super::access::Access;
use super::catalogue::Family;
use super::facts::Facts;
use super::finding;
use crate::model::Request;
use crate::report::{Decision, Finding, FindingDevice, FindingProcess, Gpu, MigInstance};

pub(super) use open::unmanaged;

/// As many processes as a finding lists.
pub(super) const LISTED: usize = 50;

/// What this file looks for.
pub(super) const FAMILY: Family = Family {
    kinds: &[pages::OPEN_TO_ALL, pages::DOUBLE_GRANT, pages::GRANT_WITHOUT_ALLOC, pages::ALLOC_WITHOUT_GRANT],
    find,
};

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    let access = Access::new(facts);
    let open = open::find(facts, &access);
    let unmanaged: BTreeSet<usize> = open.iter().map(|(gpu, _)| *gpu).collect();
    let doubles = double::find(facts, &access, &unmanaged);
    let covered: BTreeSet<(usize, String)> =
        doubles.iter().flat_map(|double| &double.covers).cloned().collect();
    let mut findings: Vec<Finding> = open.into_iter().filter_map(|(_, finding)| finding).collect();
    findings.extend(doubles.into_iter().map(|double| double.finding));
    findings.extend(allocation::find(facts, &access, &unmanaged, &covered));
    findings
}

/// Whether the configuration says that a GPU has several owners on purpose.
fn is_shared(facts: &Facts<'_>, gpu: &Gpu) -> bool {
    facts.config.sharing.gpus.iter().any(|key| key == "*" || *key == gpu.key)
}

/// An instance as a device of a finding: the node that opens it last.
fn instance(gpu: &Gpu, instance: &MigInstance) -> FindingDevice {
    let number = instance.major.zip(instance.ci_minor);
    FindingDevice {
        gpu: super::access::instance_key(gpu, instance),
        number: number.map(|(major, minor)| format!("c {major}:{minor}")),
        name: instance.ci_minor.map(|minor| format!("nvidia-caps/nvidia-cap{minor}")),
        ..finding::gpu(gpu)
    }
}

/// The processes of some cgroups, those first that hold the GPU.
fn processes(facts: &Facts<'_>, places: &[usize], key: &str) -> Vec<FindingProcess> {
    let cgroups = places.iter().filter_map(|place| facts.cgroups().get(*place));
    let mut all: Vec<_> = cgroups.flat_map(|cgroup| &cgroup.processes).collect();
    all.sort_by_key(|process| {
        let holds = process.held.as_ref().is_some_and(|held| held.iter().any(|held| held == key));
        (!holds, process.pid, process.start_time)
    });
    all.into_iter().take(LISTED).map(finding::process).collect()
}

/// What decided on a GPU in a cgroup.
fn decisions(facts: &mut Facts<'_>, place: usize, gpu: &Gpu) -> Vec<Decision> {
    match gpu.major.zip(gpu.minor) {
        Some(number) => facts.decisions(place, number, Request::ReadWrite),
        None => Vec::new(),
    }
}

/// What decided on an instance: on the last of its capabilities, which are
/// opened for reading; on the GPU where there is no instance.
fn decided(facts: &mut Facts<'_>, place: usize, gpu: &Gpu, part: Option<&MigInstance>) -> Vec<Decision> {
    match part.and_then(super::access::capabilities) {
        Some([_, compute]) => facts.decisions(place, compute, Request::Read),
        None => decisions(facts, place, gpu),
    }
}
