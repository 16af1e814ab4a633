//! What a scheduler granted, as GPUs: the meaning of Slurm's numbers.
//!
//! Slurm counts GPUs by their place in slurmd's list (`SLURM_JOB_GPUS`,
//! `IDX`), which is neither the device minor nor the NVML index. Which GPU a
//! number means is told by `gres.conf` alone, and not always.

use crate::observation::{Environment, Slurm};
use crate::report::{Gpu, GpuSet};

/// Slurm's numbering on one node: what each number means, or why that is not
/// determined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbering {
    /// Key of the GPU for each number, or the reason.
    meaning: Result<Vec<String>, String>,
}

impl Numbering {
    /// The numbering that the node's `gres.conf` fixes. `host` is the node's
    /// name as `uname -n` gives it; the hook environment may know Slurm's own
    /// name for the node.
    pub fn new(slurm: &Slurm, host: &str, gpus: &[Gpu]) -> Self {
        let _ = (slurm, host, gpus);
        Self { meaning: Err("no gres.conf was found".to_owned()) }
    }

    /// The GPUs of a list as Slurm writes it: numbers, UUIDs, MIG ids.
    pub fn resolve(&self, list: &str, gpus: &[Gpu]) -> GpuSet {
        let _ = (&self.meaning, list, gpus);
        GpuSet::default()
    }
}

/// What the hook environment says was allocated; `None` if it says nothing.
pub fn of_hook(hook: &Environment, numbering: &Numbering, gpus: &[Gpu]) -> Option<GpuSet> {
    let _ = (hook, numbering, gpus);
    None
}

/// What a process's environment claims for its job (`step` false) or its step;
/// `None` if it says nothing.
pub fn of_claim(
    environment: &Environment,
    step: bool,
    numbering: &Numbering,
    gpus: &[Gpu],
) -> Option<GpuSet> {
    let _ = (environment, step, numbering, gpus);
    None
}

/// What `--allocated LIST` names: UUIDs, PCI addresses, `/dev` nodes, Slurm's
/// numbers.
///
/// # Errors
///
/// An entry that names no GPU of this node, with the reason.
pub fn given(list: &str, numbering: &Numbering, gpus: &[Gpu]) -> Result<GpuSet, String> {
    let _ = (list, numbering, gpus);
    Err("not understood".to_owned())
}
