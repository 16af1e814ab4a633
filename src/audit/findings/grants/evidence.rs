//! The devices, processes and deciding programs that these findings name.

use crate::audit::access::capabilities;
use crate::audit::facts::Facts;
use crate::audit::finding;
use crate::model::Request;
use crate::report::{Decision, FindingDevice, FindingProcess, Gpu, MigInstance};

/// An instance as a device of a finding: the node that opens it last.
pub(super) fn instance(gpu: &Gpu, instance: &MigInstance) -> FindingDevice {
    let number = instance.major.zip(instance.ci_minor);
    FindingDevice {
        gpu: instance.key(gpu),
        number: number.map(|(major, minor)| format!("c {major}:{minor}")),
        name: instance.ci_minor.map(|minor| format!("nvidia-caps/nvidia-cap{minor}")),
        ..finding::gpu(gpu)
    }
}

/// The processes of some cgroups, those first that hold the GPU.
pub(super) fn processes(facts: &Facts<'_>, places: &[usize], key: &str) -> Vec<FindingProcess> {
    let cgroups = places.iter().filter_map(|place| facts.cgroups().get(*place));
    let mut all: Vec<_> = cgroups.flat_map(|cgroup| &cgroup.processes).collect();
    all.sort_by_key(|process| {
        let holds = process.held.as_ref().is_some_and(|held| held.iter().any(|held| held == key));
        (!holds, process.pid, process.start_time)
    });
    all.into_iter().take(finding::LISTED).map(finding::process).collect()
}

/// The programs that decided on a GPU in a cgroup.
pub(super) fn decisions(facts: &mut Facts<'_>, place: usize, gpu: &Gpu) -> Vec<Decision> {
    match gpu.major.zip(gpu.minor) {
        Some(number) => facts.decisions(place, number, Request::ReadWrite),
        None => Vec::new(),
    }
}

/// The programs that decided on an instance: on the last of its capabilities, which
/// are opened for reading. Without an instance, those that decided on the GPU.
pub(super) fn decided(
    facts: &mut Facts<'_>,
    place: usize,
    gpu: &Gpu,
    part: Option<&MigInstance>,
) -> Vec<Decision> {
    match part.and_then(capabilities) {
        Some([_, compute]) => facts.decisions(place, compute, Request::Read),
        None => decisions(facts, place, gpu),
    }
}
