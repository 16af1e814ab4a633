//! Environment variables that gpumap understands, what each is for, and what an
//! environment says about devices: the state of a variable, and how certain its meaning
//! is.

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

/// Variables of HAMi-core and SoftMig that are kept too, sorted. `watch` does not
/// follow their changes: the libraries read them once.
pub const LIMIT_VARIABLES: [&str; 36] = [
    "CUDA_DEVICE_MEMORY_LIMIT",
    "CUDA_DEVICE_MEMORY_LIMIT_0",
    "CUDA_DEVICE_MEMORY_LIMIT_1",
    "CUDA_DEVICE_MEMORY_LIMIT_10",
    "CUDA_DEVICE_MEMORY_LIMIT_11",
    "CUDA_DEVICE_MEMORY_LIMIT_12",
    "CUDA_DEVICE_MEMORY_LIMIT_13",
    "CUDA_DEVICE_MEMORY_LIMIT_14",
    "CUDA_DEVICE_MEMORY_LIMIT_15",
    "CUDA_DEVICE_MEMORY_LIMIT_2",
    "CUDA_DEVICE_MEMORY_LIMIT_3",
    "CUDA_DEVICE_MEMORY_LIMIT_4",
    "CUDA_DEVICE_MEMORY_LIMIT_5",
    "CUDA_DEVICE_MEMORY_LIMIT_6",
    "CUDA_DEVICE_MEMORY_LIMIT_7",
    "CUDA_DEVICE_MEMORY_LIMIT_8",
    "CUDA_DEVICE_MEMORY_LIMIT_9",
    "CUDA_DEVICE_MEMORY_SHARED_CACHE",
    "CUDA_DEVICE_SM_LIMIT",
    "CUDA_DEVICE_SM_LIMIT_0",
    "CUDA_DEVICE_SM_LIMIT_1",
    "CUDA_DEVICE_SM_LIMIT_10",
    "CUDA_DEVICE_SM_LIMIT_11",
    "CUDA_DEVICE_SM_LIMIT_12",
    "CUDA_DEVICE_SM_LIMIT_13",
    "CUDA_DEVICE_SM_LIMIT_14",
    "CUDA_DEVICE_SM_LIMIT_15",
    "CUDA_DEVICE_SM_LIMIT_2",
    "CUDA_DEVICE_SM_LIMIT_3",
    "CUDA_DEVICE_SM_LIMIT_4",
    "CUDA_DEVICE_SM_LIMIT_5",
    "CUDA_DEVICE_SM_LIMIT_6",
    "CUDA_DEVICE_SM_LIMIT_7",
    "CUDA_DEVICE_SM_LIMIT_8",
    "CUDA_DEVICE_SM_LIMIT_9",
    "GPU_CORE_UTILIZATION_POLICY",
];

/// The numbers of the components of a heterogeneous job, by the component's place; sorted.
/// sbatch and srun set them (`set_env_from_opts` and `_set_env_vars` of Slurm), and they alone
/// say which component a job is: neither its cgroup nor `SLURM_JOB_ID`, the leader's, does.
/// Slurm takes 128 components; these are more than anybody uses.
pub const COMPONENT_VARIABLES: [&str; 16] = [
    "SLURM_JOB_ID_HET_GROUP_0",
    "SLURM_JOB_ID_HET_GROUP_1",
    "SLURM_JOB_ID_HET_GROUP_10",
    "SLURM_JOB_ID_HET_GROUP_11",
    "SLURM_JOB_ID_HET_GROUP_12",
    "SLURM_JOB_ID_HET_GROUP_13",
    "SLURM_JOB_ID_HET_GROUP_14",
    "SLURM_JOB_ID_HET_GROUP_15",
    "SLURM_JOB_ID_HET_GROUP_2",
    "SLURM_JOB_ID_HET_GROUP_3",
    "SLURM_JOB_ID_HET_GROUP_4",
    "SLURM_JOB_ID_HET_GROUP_5",
    "SLURM_JOB_ID_HET_GROUP_6",
    "SLURM_JOB_ID_HET_GROUP_7",
    "SLURM_JOB_ID_HET_GROUP_8",
    "SLURM_JOB_ID_HET_GROUP_9",
];

/// The variables of Prolog, Epilog and task hooks that gpumap uses; the others
/// (user, partition, exit codes) are not kept.
pub const HOOK_VARIABLES: [&str; 18] = [
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ROCR_VISIBLE_DEVICES",
    "SLURMD_NODENAME",
    "SLURM_CLUSTER_NAME",
    "SLURM_HET_SIZE",
    "SLURM_JOB_GPUS",
    "SLURM_JOB_ID",
    "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_SLUID",
    "SLURM_JOB_START_TIME",
    "SLURM_JOB_UID",
    "SLURM_LOCALID",
    "SLURM_SCRIPT_CONTEXT",
    "SLURM_SHARDS_ON_NODE",
    "SLURM_STEP_GPUS",
    "SLURM_STEP_ID",
];

/// Variables that name devices, in the order in which they are shown, and
/// whether it is the process that reads them: the NVIDIA container runtime
/// reads its own when it makes a container.
const OF_DEVICES: [(&str, bool); 13] = [
    ("CUDA_VISIBLE_DEVICES", true),
    ("CUDA_DEVICE_ORDER", true),
    ("NVIDIA_VISIBLE_DEVICES", false),
    ("ROCR_VISIBLE_DEVICES", true),
    ("HIP_VISIBLE_DEVICES", true),
    ("GPU_DEVICE_ORDINAL", true),
    ("ZE_AFFINITY_MASK", true),
    ("ZE_FLAT_DEVICE_HIERARCHY", true),
    ("ZE_ENABLE_PCI_ID_DEVICE_ORDER", true),
    ("ASCEND_RT_VISIBLE_DEVICES", true),
    ("HABANA_VISIBLE_DEVICES", true),
    ("NEURON_RT_VISIBLE_CORES", true),
    ("TPU_VISIBLE_CHIPS", true),
];

/// Variables that are shown where they are set, in that order.
pub fn device_variables() -> impl Iterator<Item = &'static str> {
    OF_DEVICES.into_iter().map(|(name, _)| name)
}

/// Variables by which a process chooses its devices or their order.
pub fn choosing_variables() -> impl Iterator<Item = &'static str> {
    OF_DEVICES.into_iter().filter(|(_, chooses)| *chooses).map(|(name, _)| name)
}

words! {
    /// How certain it is which devices a variable means, the most certain first.
    pub enum Certainty {
        /// A document of the vendor settles it, or the source of an open runtime.
        Documented,
        /// No document does; the independent models of the driver agree.
        Modelled,
        /// Neither.
        #[default]
        Unknown,
    }
}

words! {
    /// Whether a variable is set, and to what.
    pub enum ValueState {
        /// It is not set: all devices.
        Unset,
        /// It is set to nothing: no device, the opposite of unset.
        Empty,
        /// It has a value.
        Value,
        /// The environment could not be read.
        #[default]
        Unknown,
    }
}

open_words! {
    /// An interface to GPUs that reads its own variables.
    pub enum ApiName {
        /// NVIDIA's.
        #[default]
        Cuda,
        /// AMD's, on top of `rocr`.
        Hip,
        /// Intel's.
        LevelZero,
        /// AMD's OpenCL, on top of `rocr`.
        Opencl,
        /// AMD's runtime, below `hip` and `opencl`.
        Rocr,
    }
}

open_words! {
    /// Why a list of devices ends before its end.
    pub enum CutCode {
        /// The entry fits several GPUs.
        Ambiguous,
        /// It names a device that is already in the list.
        Duplicate,
        /// It is empty.
        EmptyEntry,
        /// It names a GPU that the driver excludes.
        Excluded,
        /// It is nothing that this interface understands.
        #[default]
        Invalid,
        /// It is an ordinal among UUIDs or the reverse.
        MixedKinds,
        /// It names a GPU that this node does not have.
        NoSuchGpu,
        /// It names a GPU that the cgroup denies.
        NotAllowed,
        /// It is a second MIG instance: CUDA uses one.
        OneInstance,
        /// It is an ordinal that is too large.
        OutOfRange,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that every list names variables that are kept, and that those
    /// can be searched.
    #[test]
    fn lists() {
        assert!(VARIABLES.is_sorted() && HOOK_VARIABLES.is_sorted());
        assert!(LIMIT_VARIABLES.is_sorted() && COMPONENT_VARIABLES.is_sorted());
        for name in device_variables().chain(HOOK_VARIABLES) {
            assert!(VARIABLES.binary_search(&name).is_ok(), "{name}");
        }
    }
}
