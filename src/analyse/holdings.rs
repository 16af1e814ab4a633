//! Finds the GPUs behind device numbers for `watch`, and which of them the rules
//! deny. `held` does the same for a whole observation.

use super::held::Numbers;
use super::joined_node::JoinedNode;
use super::processes::Processes;
use crate::gpu;
use crate::model::{DeviceType, GpuKey};
use crate::observation::{Answer, Detail, GpuFacts, HeldDevice, Observation, Text};
use crate::policy::TimeLimit;
use crate::report::{DevicesEvent, Gpu};

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
