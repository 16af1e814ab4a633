//! GPUs, their device nodes and their MIG instances.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{GpuKey, Vendor};

/// One GPU in every index space the system offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gpu {
    /// UUID, else PCI address, else `major:minor`.
    pub key: GpuKey,
    /// `nvidia`, `amd`, `intel`, or the driver's name.
    pub vendor: Vendor,
    /// Model name, if the driver tells.
    pub model: Option<String>,
    /// `GPU-…`, if the driver tells.
    pub uuid: Option<String>,
    /// PCI address `dddd:bb:dd.f`.
    pub pci: Option<String>,
    /// Major number of the device that gates access; like `minor` it is known
    /// from the driver even where no node exists, and it is what the kernel
    /// asks device programs about.
    #[serde(default)]
    pub major: Option<u32>,
    /// Minor number of the node that gates access (`/dev/nvidiaN`: N; AMD and
    /// Intel: the render node's).
    pub minor: Option<u32>,
    /// Its device nodes.
    pub nodes: Vec<GpuNode>,
    /// NVML index: position in PCI order among all NVIDIA GPUs that are not
    /// excluded; null where that is not determined.
    pub nvml_index: Option<u32>,
    /// Number of an AMD GPU in HIP without any variable: its position in KFD's order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hip_index: Option<u32>,
    /// Number of an AMD GPU in rocm-smi: its position in PCI order; left out where two
    /// have one PCI address, as partitions do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rocm_smi_index: Option<u32>,
    /// Slurm's number: position in slurmd's list, as `gres.conf` fixes it; left
    /// out where that is not determined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_index: Option<u32>,
    /// NUMA node; null if the platform has none.
    pub numa_node: Option<u32>,
    /// Tiles of an Intel GPU, which Level Zero calls sub-devices; left out where the driver
    /// does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiles: Option<u32>,
    /// MIG instances, if MIG is on.
    pub mig: Vec<MigInstance>,
    /// Excluded by the driver (`GPU Excluded: Yes`): has no device node.
    #[serde(default)]
    pub excluded: bool,
}

/// One device node of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuNode {
    /// Path of the node.
    pub path: String,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Whether opening this node gives access to the GPU.
    pub gate: bool,
}

/// One MIG compute instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MigInstance {
    /// GPU instance.
    pub gi: u32,
    /// Compute instance; null for a GPU instance without one.
    pub ci: Option<u32>,
    /// Minor of the GPU instance's capability node.
    pub gi_minor: Option<u32>,
    /// Minor of the compute instance's capability node.
    pub ci_minor: Option<u32>,
    /// Major of the capability nodes.
    pub major: Option<u32>,
    /// `MIG-…`, as a list of `nvidia-smi -L` says that the administrator names; left out
    /// where none tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Whether `uuid` rests on the order of the list: it has several instances of the GPU,
    /// and not their ids.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uuid_assumed: bool,
}

impl MigInstance {
    /// The key of this instance of a GPU.
    pub fn key(&self, gpu: &Gpu) -> GpuKey {
        gpu.key.instance(self.gi, self.ci)
    }

    /// The key of this compute instance of a GPU; `None` for a GPU instance without one.
    pub fn compute_key(&self, gpu: &Gpu) -> Option<GpuKey> {
        self.ci.map(|_| self.key(gpu))
    }
}
