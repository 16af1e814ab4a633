//! What `watch` asks of one cgroup and one process at a time: the GPUs that the processes
//! of a cgroup may open, against which it resolves environment after environment; and the
//! GPUs behind device numbers, with those that the rules deny. `held` does the same for a
//! whole observation.

use std::collections::BTreeSet;

use super::gpu_verdicts::Numbers;
use super::joined_node::JoinedNode;
use super::moves::{self, MovedReach};
use super::processes::Processes;
use crate::allocation::Numbering;
use crate::gpu;
use crate::model::{DeviceType, GpuKey, ValueState, Verdict};
use crate::observation::{Answer, Detail, Environment, GpuFacts, HeldDevice, Observation, Process, Text};
use crate::policy::TimeLimit;
use crate::report::{Api, Asked, Cut, DevicesEvent, Gpu, GpuIndexes};
use crate::visible::{self, GpuAccess, OpenableGpus};

/// The node's GPUs, and what a process may reach of them.
#[derive(Clone, Debug)]
pub struct CgroupGpus {
    gpus: Vec<Gpu>,
    reach: OpenableGpus,
}

impl CgroupGpus {
    /// The selection for a process in a cgroup of the observation; `None` if the
    /// cgroup was not observed. Where the v1 controller is mounted, the v1 group of
    /// the process counts too.
    pub fn new(observation: &Observation, process: &Process, limit: &TimeLimit) -> Option<Self> {
        let mut join = JoinedNode::new(observation, limit);
        let view = join.view_of_process(process)?;
        let numbering = Numbering::new(&observation.slurm, &observation.host.name, &join.gpus);
        for gpu in &mut join.gpus {
            gpu.slurm_index = numbering.index_of(&gpu.key);
        }
        Some(Self { gpus: join.gpus, reach: view.reach.clone() })
    }

    /// The selection for a process of which it is unknown which of these GPUs it may
    /// open.
    pub fn nowhere(gpus: Vec<Gpu>) -> Self {
        Self { gpus, reach: OpenableGpus::default() }
    }

    /// The node's GPUs.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// The GPUs that a process gains and loses by a move between two cgroups.
    pub fn difference(before: &Self, after: &Self) -> MovedReach {
        moves::difference((&before.gpus, &before.reach), (&after.gpus, &after.reach))
    }

    /// Why the environment selects no GPU. The interface that reads this variable
    /// gives the reason, else the first one. `None` if a GPU is selected, if that is
    /// unknown, or if the node has no GPU.
    pub fn why_none(&self, asked: &Asked, variable: Option<&str>) -> Option<String> {
        let reads = |api: &&Api| variable == Some(api.variable.as_str());
        let api = asked.apis.iter().find(reads).or(asked.apis.first())?;
        if api.gpus.as_ref().is_none_or(|gpus| !gpus.is_empty()) {
            return None;
        }
        let is_denied = |access: &GpuAccess| access.verdict == Verdict::Deny;
        if !self.reach.gpus.is_empty() && self.reach.gpus.iter().all(is_denied) {
            return Some("the cgroup allows no GPU of this node".to_owned());
        }
        let cut =
            |cut: &Cut| format!("the list ends at entry {}, \"{}\": {}", cut.position, cut.entry, cut.why);
        let empty = || (api.state == ValueState::Empty).then(|| "an empty value selects none".to_owned());
        api.cut.as_ref().map(cut).or_else(|| api.why.clone()).or_else(empty).or_else(|| self.parted())
    }

    /// The reason that only GPUs in MIG mode are left, and none of their instances.
    fn parted(&self) -> Option<String> {
        let allowed =
            self.gpus.iter().zip(&self.reach.gpus).filter(|(_, access)| access.verdict == Verdict::Allow);
        let mut allowed = allowed.peekable();
        let is_any = allowed.peek().is_some();
        let why = "MIG is on for every GPU that the cgroup allows, and it allows no instance of them";
        (is_any && allowed.all(|(gpu, _)| !gpu.mig.is_empty())).then(|| why.to_owned())
    }

    /// The GPUs that an environment selects.
    pub fn asked(&self, environment: &Answer<Environment>) -> Asked {
        visible::asked(environment, &self.gpus, &self.reach)
    }
}

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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::analyse::{CallerAllocation, node};
    use crate::observation::Variable;

    /// Make sure that a watch says what `gpumap node` says, of every process of
    /// every saved node.
    #[test]
    fn as_in_node() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/nodes");
        let mut compared = 0;
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "json") {
                compared += compare(&serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap());
            }
        }
        assert!(compared > 0);
    }

    /// Make sure that each way to select no GPU has its reason, and that a value
    /// that selects one has none.
    #[test]
    fn reasons() {
        let gpu = |minor: u32| Gpu {
            key: format!("GPU-{minor}{minor}").into(),
            uuid: Some(format!("GPU-{minor}{minor}")),
            vendor: crate::model::Vendor::Nvidia,
            minor: Some(minor),
            ..Gpu::default()
        };
        let cgroup_gpus = |verdicts: [Verdict; 2]| CgroupGpus {
            gpus: vec![gpu(0), gpu(1)],
            reach: OpenableGpus {
                gpus: verdicts.map(|verdict| GpuAccess { verdict, instances: Vec::new() }).into(),
                shared: Vec::new(),
            },
        };
        let why = |verdicts, value: &str| {
            let name = "CUDA_VISIBLE_DEVICES".to_owned();
            let variables = vec![Variable { name, value: value.into(), cut: false }];
            let cgroup_gpus = cgroup_gpus(verdicts);
            let asked = cgroup_gpus.asked(&Answer::Known(Environment { variables, cut: None }));
            cgroup_gpus.why_none(&asked, Some("CUDA_VISIBLE_DEVICES")).unwrap_or_default()
        };
        let (both, one) = ([Verdict::Allow; 2], [Verdict::Allow, Verdict::Deny]);
        assert_eq!(why(both, "1"), "");
        for (verdicts, value, part) in [
            (both, "7", "entry 0, \"7\""),
            (both, "-1", "a negative number ends the list"),
            (both, "", "an empty value selects none"),
            (both, "GPU-ffff", "entry 0, \"GPU-ffff\""),
            (one, "1", "entry 0, \"1\""),
            (one, "GPU-11", "entry 0, \"GPU-11\""),
            ([Verdict::Deny; 2], "0", "the cgroup allows no GPU"),
        ] {
            let why = why(verdicts, value);
            println!("{value:?}: {why}");
            assert!(why.contains(part), "{value:?}: {why}");
        }
    }

    fn compare(observation: &Observation) -> usize {
        let answer = node(observation, &CallerAllocation::default(), &TimeLimit::default()).unwrap();
        let reported: Vec<_> = answer.cgroups.iter().flat_map(|one| &one.processes).collect();
        let details = observation.processes.iter().filter_map(|one| Some((one, one.detail.as_ref()?)));
        let mut compared = 0;
        for (process, detail) in details {
            let Some(one) = reported.iter().find(|one| one.pid == process.pid) else { continue };
            let cgroup_gpus = CgroupGpus::new(observation, process, &TimeLimit::default()).unwrap();
            assert_eq!(
                Some(cgroup_gpus.asked(&detail.live)),
                one.visible.as_ref().map(|one| one.live.clone())
            );
            assert_eq!(cgroup_gpus.gpus(), answer.gpus);
            compared += 1;
        }
        compared
    }
}
