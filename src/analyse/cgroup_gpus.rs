//! Keeps the GPUs that the processes of one cgroup may open. `watch` resolves
//! environment after environment against them.

use crate::allocation::Numbering;
use crate::model::{ValueState, Verdict};
use crate::observation::{Answer, Environment, Observation, Process};
use crate::policy::TimeLimit;
use crate::report::{Api, Asked, Cut, Gpu};
use crate::visible::{self, GpuAccess, OpenableGpus};

use super::joined_node::JoinedNode;
use super::moves::{self, MovedReach};

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
