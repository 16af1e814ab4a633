//! What environments ask for in one cgroup: for a watch, which asks again and
//! again.

use crate::allocation::Numbering;
use crate::observation::{Answer, Environment, Observation, Process};
use crate::report::{Asked, Gpu};
use crate::visible::{self, Reach};

use super::join::Join;

/// The node's GPUs, and what a process may reach of them.
#[derive(Clone, Debug)]
pub struct Asker {
    gpus: Vec<Gpu>,
    reach: Reach,
}

impl Asker {
    /// For a process in a cgroup of the observation, whose place in the v1
    /// hierarchy it has if that matters; `None` where the cgroup was not
    /// observed.
    pub fn new(observation: &Observation, process: &Process) -> Option<Self> {
        let mut join = Join::new(observation);
        let view = join.view_of_process(process)?;
        let numbering = Numbering::new(&observation.slurm, &observation.host.name, &join.gpus);
        for gpu in &mut join.gpus {
            gpu.slurm_index = numbering.index_of(&gpu.key);
        }
        Some(Self { gpus: join.gpus, reach: view.reach.clone() })
    }

    /// For a process of which nobody can tell what it may reach of these GPUs.
    pub fn nowhere(gpus: Vec<Gpu>) -> Self {
        Self { gpus, reach: Reach::default() }
    }

    /// The node's GPUs.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// What an environment asks for.
    pub fn asked(&self, environment: &Answer<Environment>) -> Asked {
        visible::asked(environment, &self.gpus, &self.reach)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::analyse::{Granted, node};

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

    fn compare(observation: &Observation) -> usize {
        let answer = node(observation, &Granted::default()).unwrap();
        let reported: Vec<_> = answer.cgroups.iter().flatten().flat_map(|one| &one.processes).collect();
        let details = observation.processes.iter().filter_map(|one| Some((one, one.detail.as_ref()?)));
        let mut compared = 0;
        for (process, detail) in details {
            let Some(one) = reported.iter().find(|one| one.pid == process.pid) else { continue };
            let asker = Asker::new(observation, process).unwrap();
            assert_eq!(Some(asker.asked(&detail.live)), one.visible.as_ref().map(|one| one.live.clone()));
            assert_eq!(Some(asker.gpus()), answer.gpus.as_deref());
            compared += 1;
        }
        compared
    }
}
