//! Finds the GPUs behind the device numbers that a process has open.
//!
//! Paths do not count, because anyone can make a node with any name.

use std::collections::{BTreeMap, BTreeSet};

use crate::gpu::SharedNode;
use crate::model::{DeviceType, GpuKey, SharedRole};
use crate::observation::HeldDevice;
use crate::report::Gpu;

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
