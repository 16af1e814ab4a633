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

    /// The node's GPUs.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// What an environment asks for.
    pub fn asked(&self, environment: &Answer<Environment>) -> Asked {
        visible::asked(environment, &self.gpus, &self.reach)
    }
}
