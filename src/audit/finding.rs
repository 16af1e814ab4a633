//! Builds findings, orders them and computes their fingerprints.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

use super::config::Config;
use super::facts::Facts;
use super::kind::Kind;
use super::tenants::{Place, capabilities, number};
use crate::model::{Confidence, InOrder as _, Request};
use crate::report::{Cgroup, Decision, Finding, FindingDevice, FindingProcess, Gpu, MigInstance, Process};

/// The most processes that a finding lists.
pub(super) const LISTED: usize = 50;

/// The most processes that a finding about a whole cgroup lists; more are counted in its
/// evidence.
const OF_CGROUP: usize = 32;

/// A finding of a kind, about nothing yet.
pub(super) fn new(kind: &Kind, summary: String) -> Finding {
    Finding {
        id: kind.id.to_owned(),
        severity: kind.severity,
        summary,
        confidence: Confidence::Certain,
        ..Finding::default()
    }
}

/// A finding about a cgroup.
pub(super) fn at(kind: &Kind, cgroup: &Cgroup, summary: String) -> Finding {
    Finding {
        cgroup: Some(cgroup.path.clone()),
        cgroup_hex: cgroup.path_hex.clone(),
        owner: cgroup.owner.clone(),
        ..new(kind, summary)
    }
}

/// A finding about a cgroup and its processes.
pub(super) fn about(kind: &Kind, place: Place<'_>, summary: String) -> Finding {
    let processes = &place.cgroup.processes;
    let mut found = at(kind, place.cgroup, summary);
    found.processes = processes.iter().take(OF_CGROUP).map(process).collect();
    if processes.len() > OF_CGROUP {
        let count = processes.len();
        found.evidence.push(format!("{count} processes are there, of which {OF_CGROUP} are listed"));
    }
    found
}

/// A finding about GPUs in a cgroup, with its processes and what decided on the first GPU.
pub(super) fn about_gpus(
    facts: &Facts<'_>,
    kind: &Kind,
    place: Place<'_>,
    gpus: &[&Gpu],
    summary: String,
) -> Finding {
    let first = gpus.first().and_then(|first| number(first));
    let decisions = |first| facts.decisions(place, first, Request::ReadWrite);
    Finding {
        devices: gpus.iter().map(|one| gpu(one)).collect(),
        programs: first.map(decisions).unwrap_or_default(),
        ..about(kind, place, summary)
    }
}

/// A GPU as a device of a finding.
pub(super) fn gpu(gpu: &Gpu) -> FindingDevice {
    let number = gpu.major.zip(gpu.minor);
    let gate = gpu.nodes.iter().find(|node| node.gate);
    FindingDevice {
        gpu: Some(gpu.key.clone()),
        number: number.map(|(major, minor)| format!("c {major}:{minor}")),
        name: gate.map(|node| node.path.strip_prefix("/dev/").unwrap_or(&node.path).to_owned()),
        pci: gpu.pci.clone(),
        nvml_index: gpu.nvml_index,
    }
}

/// Another device.
pub(super) fn device((major, minor): (u32, u32), name: Option<&str>) -> FindingDevice {
    FindingDevice {
        number: Some(format!("c {major}:{minor}")),
        name: name.map(str::to_owned),
        ..FindingDevice::default()
    }
}

/// A process of a finding.
pub(super) fn process(process: &Process) -> FindingProcess {
    FindingProcess {
        pid: process.pid,
        start_time: process.start_time,
        started_at: process.started_at.clone(),
        age_seconds: process.age_seconds,
        uid: process.uid,
        user: process.user.clone(),
        state: process.state.clone(),
        comm: process.comm.clone(),
    }
}

/// The first of some processes, as many as a finding lists.
pub(super) fn processes<'p>(processes: impl IntoIterator<Item = &'p Process>) -> Vec<FindingProcess> {
    processes.into_iter().take(LISTED).map(process).collect()
}

/// An instance as a device of a finding: the node that opens it last.
pub(super) fn instance(gpu: &Gpu, instance: &MigInstance) -> FindingDevice {
    let number = instance.major.zip(instance.ci_minor);
    FindingDevice {
        gpu: instance.compute_key(gpu),
        number: number.map(|(major, minor)| format!("c {major}:{minor}")),
        name: instance.ci_minor.map(|minor| format!("nvidia-caps/nvidia-cap{minor}")),
        ..self::gpu(gpu)
    }
}

/// The processes of some cgroups, those first that hold the GPU.
pub(super) fn holders_first(places: &[Place<'_>], key: &str) -> Vec<FindingProcess> {
    let mut all: Vec<_> = places.iter().flat_map(|place| &place.cgroup.processes).collect();
    all.order_by_key(|process| {
        let holds = process.held.as_ref().is_some_and(|held| held.iter().any(|held| **held == *key));
        (!holds, process.pid, process.start_time)
    });
    all.into_iter().take(LISTED).map(process).collect()
}

/// The programs that decided on a GPU in a cgroup.
pub(super) fn decisions(facts: &Facts<'_>, place: Place<'_>, gpu: &Gpu) -> Vec<Decision> {
    match number(gpu) {
        Some(number) => facts.decisions(place, number, Request::ReadWrite),
        None => Vec::new(),
    }
}

/// The programs that decided on an instance: on the last of its capabilities, which
/// are opened for reading. Without an instance, those that decided on the GPU.
pub(super) fn decided(
    facts: &Facts<'_>,
    place: Place<'_>,
    gpu: &Gpu,
    part: Option<&MigInstance>,
) -> Vec<Decision> {
    match part.and_then(capabilities) {
        Some([_, compute]) => facts.decisions(place, compute, Request::Read),
        None => decisions(facts, place, gpu),
    }
}

/// Computes a finding's fingerprint, and sets the severity that the configuration
/// has for its id.
pub(super) fn settle(finding: &mut Finding, config: &Config) {
    if let Some(severity) = config.severity.get(&finding.id) {
        finding.severity = *severity;
    }
    finding.fingerprint = fingerprint(finding);
}

/// The fingerprint: findings of different moments with the same one are the same
/// finding.
pub(super) fn fingerprint(finding: &Finding) -> String {
    let mut hash = Sha256::new();
    let owner =
        serde_json::to_string(&(&finding.owner, &finding.others, &finding.cgroup)).unwrap_or_default();
    let devices = serde_json::to_string(&finding.devices).unwrap_or_default();
    for part in [&finding.id, &owner, &devices] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let digest = hash.finalize();
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The worst first, then by id, place and device.
pub(super) fn order(a: &Finding, b: &Finding) -> Ordering {
    let key = |finding: &Finding| (finding.ignored.is_some(), Reverse(finding.severity));
    let place = |finding: &Finding| (finding.id.clone(), finding.cgroup.clone(), finding.devices.clone());
    key(a).cmp(&key(b)).then_with(|| place(a).cmp(&place(b))).then_with(|| a.summary.cmp(&b.summary))
}

/// Processes, with the GPU, that already have a finding: one cause, one finding.
#[derive(Debug, Default)]
pub(super) struct Reported(BTreeSet<(u32, u64, String)>);

impl Reported {
    pub(super) fn add(&mut self, process: &Process, gpu: &str) {
        self.0.insert((process.pid, process.start_time, gpu.to_owned()));
    }

    pub(super) fn has(&self, process: &Process, gpu: &str) -> bool {
        self.0.contains(&(process.pid, process.start_time, gpu.to_owned()))
    }
}
