//! A node in a few kilobytes: what `node --json --compact` prints, so that ten
//! thousand nodes fit through a pipe.
//!
//! Sets of GPUs are bit masks over one list of devices, owners are columns. Nothing
//! of a single process or cgroup is in it.

use std::collections::BTreeMap;

use crate::model::GpuKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A node without its cgroups and processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompactNode {
    /// The node's GPUs. Bit 0 of every set is the first one.
    pub gpus: Vec<CompactGpu>,
    /// Its MIG compute instances, `KEY/GI/CI`. Their bits follow those of `gpus`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<GpuKey>,
    /// Jobs, containers, pods, virtual machines, what is inside of them, and whoever
    /// else holds a GPU or may hold one.
    pub owners: CompactOwners,
    /// How many owners are left out: services and sessions that hold no GPU.
    pub other_owners: usize,
    /// Versions of the GPU drivers that the node's files name, by driver.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drivers: BTreeMap<String, String>,
    /// The first 16 hex digits of the SHA-256 of `gres.conf`, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gres_conf: Option<String>,
    /// The shapes of the device programs in force, by kind of owner.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, Vec<String>>,
    /// How many problems there are of each code. `errors` of the document has the
    /// first ones of each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub problems: BTreeMap<String, usize>,
}

/// A GPU in the numberings by which people name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompactGpu {
    /// UUID, else PCI address, else `major:minor`.
    pub key: GpuKey,
    /// Model name, else the vendor.
    pub model: String,
    /// Minor number of the node that gates access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor: Option<u32>,
    /// NVML index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvml: Option<u32>,
    /// Slurm's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm: Option<u32>,
}

/// Owners, one column for each property; entry N of all columns is one owner.
///
/// A set is text: hexadecimal digits of a mask over the devices, as in `f` for the
/// first four. `3?c` is a mask of devices that are certainly in the set, and one of
/// those that may be. `~3` is only claimed by the owner's own environment. Null is a
/// set of which nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompactOwners {
    /// Who it is: `slurm job 4711`, `docker 3fa9c1d2e4b5`. Below the first level its
    /// own part alone: `step 0`, `task 1`. `slurm job ~4711` is a number that only
    /// the environment of its processes names.
    pub owner: Vec<String>,
    /// The depth of each: 0 for a job, 1 for its steps, 2 for their tasks. Owners
    /// inside of another follow it.
    pub depth: Vec<u8>,
    /// How many processes each has.
    pub processes: Vec<usize>,
    /// What the scheduler allocated.
    pub allocated: Vec<Option<String>>,
    /// What its processes may open.
    pub allowed: Vec<Option<String>>,
    /// What its processes ask for.
    pub asked: Vec<Option<String>>,
    /// What its processes have open.
    pub held: Vec<Option<String>>,
    /// What they have open although their rules deny it now.
    pub denied: Vec<Option<String>>,
}
