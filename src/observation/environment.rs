//! The part of an environment that gpumap understands. Nothing else is kept:
//! environments hold secrets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Text;

/// The variables that are kept, sorted.
pub const VARIABLES: [&str; 34] = [
    "ASCEND_RT_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "HABANA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "NEURON_RT_VISIBLE_CORES",
    "NVIDIA_VISIBLE_DEVICES",
    "ONEAPI_DEVICE_SELECTOR",
    "ROCR_VISIBLE_DEVICES",
    "SLURMD_NODENAME",
    "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_CLUSTER_NAME",
    "SLURM_GPUS_ON_NODE",
    "SLURM_HET_SIZE",
    "SLURM_JOB_GPUS",
    "SLURM_JOB_ID",
    "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_SLUID",
    "SLURM_JOB_START_TIME",
    "SLURM_JOB_UID",
    "SLURM_LOCALID",
    "SLURM_PROCID",
    "SLURM_SCRIPT_CONTEXT",
    "SLURM_SHARDS_ON_NODE",
    "SLURM_STEP_GPUS",
    "SLURM_STEP_ID",
    "TPU_VISIBLE_CHIPS",
    "ZE_AFFINITY_MASK",
    "ZE_ENABLE_PCI_ID_DEVICE_ORDER",
    "ZE_FLAT_DEVICE_HIERARCHY",
];

/// An environment's known variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// In the order of the environment, repeated ones too: `getenv` takes the
    /// first.
    pub variables: Vec<Variable>,
    /// Why the environment was not read to its end. A variable that is listed
    /// is right all the same; one that is not may follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// One variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Variable {
    /// One of [`VARIABLES`].
    pub name: String,
    /// Its value.
    pub value: Text,
    /// Whether the value is longer than what was kept of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

impl Environment {
    /// The variable that `getenv` finds: the first with this name.
    pub fn get(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().find(|variable| variable.name == name)
    }
}

#[cfg(test)]
mod tests {
    /// Make sure that names can be found by binary search.
    #[test]
    fn variables_are_sorted() {
        assert!(super::VARIABLES.is_sorted());
    }
}
