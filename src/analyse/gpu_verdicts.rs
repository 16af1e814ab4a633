//! GPUs, MIG instances and shared nodes: what one policy says of each, and which are behind
//! the device numbers that a process has open.
//!
//! Paths do not count, because anyone can make a node with any name.

use std::collections::{BTreeMap, BTreeSet};

use crate::gpu::SharedNode;
use crate::model::{Device, DeviceType, GpuKey, Request, RequestSet, SharedRole, Verdict};
use crate::observation::HeldDevice;
use crate::policy::{Decoder, Policy};
use crate::report::{Gpu, GpuVerdict, InstanceVerdict, MigInstance};
use crate::visible::{GpuAccess, OpenableGpus, SharedAccess};

/// The verdicts of a policy on the node's GPUs.
#[derive(Clone, Debug, Default)]
pub(super) struct GpuVerdicts {
    /// For answers, in inventory order.
    pub(super) verdicts: Vec<GpuVerdict>,
    /// For the meaning of variables.
    pub(super) reach: OpenableGpus,
}

impl GpuVerdicts {
    pub(super) fn new(gpus: &[Gpu], shared: &[SharedNode], policy: Policy, decoder: &Decoder) -> Self {
        let verdicts = gpu_verdicts(gpus, policy, decoder);
        let access = |verdict: &GpuVerdict| GpuAccess {
            verdict: verdict.verdict,
            instances: verdict.instances.iter().map(|instance| instance.verdict).collect(),
        };
        let node = |node: &SharedNode| SharedAccess {
            role: node.role.clone(),
            needed: node.needed,
            verdict: decoder.verdict(policy, char(node.major, node.minor), Request::ReadWrite),
        };
        let reach = OpenableGpus {
            gpus: verdicts.iter().map(access).collect(),
            shared: shared.iter().map(node).collect(),
        };
        Self { verdicts, reach }
    }
}

/// Asks a policy about every GPU.
pub(super) fn gpu_verdicts(gpus: &[Gpu], policy: Policy, decoder: &Decoder) -> Vec<GpuVerdict> {
    gpus.iter().map(|gpu| gpu_verdict(gpu, policy, decoder)).collect()
}

fn gpu_verdict(gpu: &Gpu, policy: Policy, decoder: &Decoder) -> GpuVerdict {
    let mut verdict =
        GpuVerdict { gpu: gpu.key.clone(), major: gpu.major, minor: gpu.minor, ..GpuVerdict::default() };
    let (Some(major), Some(minor)) = (gpu.major, gpu.minor) else {
        verdict.instances = instances(gpu, Verdict::Deny, policy, decoder);
        let why = if gpu.excluded {
            "the driver excludes it: it has no device node"
        } else {
            "it has no device node"
        };
        verdict.verdict = Verdict::Deny;
        verdict.why = Some(why.to_owned());
        return verdict;
    };
    let device = char(major, minor);
    let answer = decoder.verdict(policy, device, Request::ReadWrite);
    let allowed = |request: &Request| decoder.verdict(policy, device, *request) == Verdict::Allow;
    let requests: RequestSet = Request::ALL.into_iter().filter(allowed).collect();
    verdict.verdict = answer;
    verdict.requests = requests.to_string();
    verdict.instances = instances(gpu, answer, policy, decoder);
    if answer == Verdict::Unknown {
        verdict.why = Some(decoder.why(policy, device, Request::ReadWrite).join("; "));
    }
    verdict
}

fn instances(gpu: &Gpu, answer: Verdict, policy: Policy, decoder: &Decoder) -> Vec<InstanceVerdict> {
    let verdict = |part: &MigInstance| InstanceVerdict {
        instance: part.key(gpu),
        verdict: of_instance(part, answer, policy, decoder),
    };
    gpu.mig.iter().map(verdict).collect()
}

/// An instance takes its GPU and the capabilities of both levels, which are
/// opened for reading.
fn of_instance(instance: &MigInstance, gpu: Verdict, policy: Policy, decoder: &Decoder) -> Verdict {
    let capability = |minor: Option<u32>| match (instance.major, minor) {
        (Some(major), Some(minor)) => decoder.verdict(policy, char(major, minor), Request::Read),
        _ => Verdict::Unknown,
    };
    let compute = if instance.ci.is_some() { capability(instance.ci_minor) } else { Verdict::Allow };
    let all = [gpu, capability(instance.gi_minor), compute];
    if all.contains(&Verdict::Deny) {
        Verdict::Deny
    } else if all.contains(&Verdict::Unknown) {
        Verdict::Unknown
    } else {
        Verdict::Allow
    }
}

fn char(major: u32, minor: u32) -> Device {
    Device { kind: DeviceType::Char, major, minor }
}

/// The GPU, instance or shared node behind each device number.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    gpus: BTreeMap<(u32, u32), usize>,
    instances: BTreeMap<(u32, u32), GpuKey>,
    shared: BTreeMap<(u32, u32), SharedRole>,
}

/// The GPUs, instances and shared nodes that one process holds, each list in the
/// order of the inventory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) gpus: Vec<GpuKey>,
    pub(super) instances: Vec<GpuKey>,
    pub(super) shared: Vec<SharedRole>,
}

impl Numbers {
    pub(super) fn new(gpus: &[Gpu], shared: &[SharedNode]) -> Self {
        let mut numbers = Self::default();
        for (index, gpu) in gpus.iter().enumerate() {
            numbers.add_others(gpu, index);
            numbers.add_instances(gpu);
        }
        // The number that gates a GPU is that GPU's, whatever else has it.
        for (index, gpu) in gpus.iter().enumerate() {
            numbers.gpus.extend(gpu.major.zip(gpu.minor).map(|number| (number, index)));
        }
        let shared = shared.iter().map(|node| ((node.major, node.minor), node.role.clone()));
        numbers.shared = shared.filter(|(number, _)| !numbers.gpus.contains_key(number)).collect();
        numbers
    }

    /// Adds further nodes of the GPU's own driver (a DRM card node beside the render
    /// node). A node that only has a GPU's name has another major.
    fn add_others(&mut self, gpu: &Gpu, index: usize) {
        let own = gpu.nodes.iter().filter(|node| gpu.major == Some(node.major) && !node.gate);
        let own = own.filter(|node| node.path.starts_with("/dev/dri/"));
        self.gpus.extend(own.map(|node| ((node.major, node.minor), index)));
    }

    fn add_instances(&mut self, gpu: &Gpu) {
        for instance in &gpu.mig {
            let number = instance.major.zip(instance.ci_minor);
            self.instances.extend(number.map(|number| (number, instance.key(gpu))));
        }
    }

    /// The major numbers.
    pub(super) fn majors(&self) -> impl Iterator<Item = u32> {
        let gpus = self.gpus.keys().chain(self.instances.keys());
        gpus.chain(self.shared.keys()).map(|(major, _)| *major)
    }

    /// What a process with these devices open holds.
    pub(super) fn held(&self, devices: &[HeldDevice], gpus: &[Gpu]) -> Held {
        let numbers = || {
            let chars = devices.iter().filter(|device| device.kind == DeviceType::Char);
            chars.map(|device| (device.major, device.minor))
        };
        let mut indices: Vec<usize> =
            numbers().filter_map(|number| self.gpus.get(&number)).copied().collect();
        indices.sort_unstable();
        indices.dedup();
        Held {
            gpus: indices
                .into_iter()
                .filter_map(|index| gpus.get(index))
                .map(|gpu| gpu.key.clone())
                .collect(),
            instances: found(&self.instances, numbers()),
            shared: found(&self.shared, numbers()),
        }
    }
}

/// What these numbers stand for, sorted, each once.
fn found<T: Ord + Clone>(
    known: &BTreeMap<(u32, u32), T>,
    numbers: impl Iterator<Item = (u32, u32)>,
) -> Vec<T> {
    let found: BTreeSet<&T> = numbers.filter_map(|number| known.get(&number)).collect();
    found.into_iter().cloned().collect()
}
