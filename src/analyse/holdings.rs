//! Finds the GPUs behind device numbers for `watch`, and which of them the rules
//! deny. `held` does the same for a whole observation.

use super::held::Numbers;
use super::joined_node::JoinedNode;
use super::processes::Processes;
use crate::gpu;
use std::collections::BTreeSet;

use crate::model::{DeviceType, GpuKey};
use crate::observation::{Answer, Detail, GpuFacts, HeldDevice, Observation, Text};
use crate::policy::TimeLimit;
use crate::report::{DevicesEvent, Gpu, GpuIndexes};

/// The device numbers of a node's GPUs.
#[derive(Debug)]
pub struct Holdings {
    gpus: Vec<Gpu>,
    numbers: Numbers,
}

impl Holdings {
    /// The GPUs that these facts describe.
    pub fn new(facts: &GpuFacts) -> Self {
        let gpus = gpu::inventory(facts);
        let numbers = Numbers::new(&gpus, &gpu::shared_nodes(facts));
        Self { gpus, numbers }
    }

    /// The node's GPUs.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// The major numbers of the node's GPUs, of their instances and of the nodes that they
    /// share, as numbers of character devices.
    pub fn majors(&self) -> BTreeSet<u32> {
        let nodes = self.gpus.iter().flat_map(|gpu| &gpu.nodes).map(|node| node.major);
        self.numbers.majors().chain(nodes).collect()
    }

    /// What a device is that a process was refused: as [`Self::of`], and the node of a MIG
    /// instance's GPU instance, which gates it and by itself gives access to none.
    pub fn of_refused(&self, device: HeldDevice) -> Option<DevicesEvent> {
        let number = (Some(device.major), Some(device.minor));
        let mut instances = self.gpus.iter().flat_map(|gpu| &gpu.mig);
        let is_capability = device.kind == DeviceType::Char
            && instances.any(|instance| (instance.major, instance.gi_minor) == number);
        let alone = || DevicesEvent { numbers: vec![device], ..DevicesEvent::default() };
        self.of(&[device]).or_else(|| is_capability.then(alone))
    }

    /// The numbers of the one GPU that these devices are of; `None` where they are of none
    /// or of several.
    pub fn gpu(&self, devices: &DevicesEvent) -> Option<GpuIndexes> {
        let all = || devices.held.iter().chain(&devices.held_instances);
        let first = all().next()?;
        let gpu = self.gpus.iter().find(|gpu| first.is_of(&gpu.key))?;
        if !all().all(|key| key.is_of(&gpu.key)) {
            return None;
        }
        Some(GpuIndexes {
            key: gpu.key.clone(),
            uuid: gpu.uuid.clone(),
            pci: gpu.pci.clone(),
            minor: gpu.minor,
            nvml_index: gpu.nvml_index,
            slurm_index: gpu.slurm_index,
        })
    }

    /// The devices among these that belong to GPUs, and which GPUs; `None` if no
    /// device does.
    pub fn of(&self, devices: &[HeldDevice]) -> Option<DevicesEvent> {
        let is_gpus = |device: &&HeldDevice| {
            let held = self.numbers.held(std::slice::from_ref(*device), &self.gpus);
            device.kind == DeviceType::Char && held != Default::default()
        };
        let numbers: Vec<HeldDevice> = devices.iter().filter(is_gpus).copied().collect();
        let held = self.numbers.held(&numbers, &self.gpus);
        (!numbers.is_empty()).then_some(DevicesEvent {
            numbers,
            held: held.gpus,
            held_instances: held.instances,
            held_shared: held.shared,
            held_denied: None,
        })
    }
}

/// Which of these devices the rules of process `pid` deny; `None` if the observation
/// does not have the process, or the rules are not known within the limit.
pub fn denied_of(
    observation: &Observation,
    pid: u32,
    devices: &[HeldDevice],
    limit: &TimeLimit,
) -> Option<Vec<GpuKey>> {
    let mut process = observation.processes.iter().find(|process| process.pid == pid)?.clone();
    let unasked = || Answer::Missing(String::new());
    process.detail = Some(Detail {
        title: Text::default(),
        exe: Answer::Missing(String::new()),
        stepd_sockets: Vec::new(),
        at_exec: unasked(),
        live: unasked(),
        devices: Answer::Known(devices.to_vec()),
        devices_cut: None,
        vgpu: None,
    });
    let mut join = JoinedNode::new(observation, limit);
    join.view_of_process(&process)?;
    let denied = Processes::default().report(&process, &mut join).held_denied;
    (!limit.was_missed()).then_some(denied)
}
