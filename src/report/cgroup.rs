//! Cgroups: their programs, and what may be opened from them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::process::Process;
use crate::model::{AttachFlag, Owner, Verdict};
use crate::observation::UnseenProcesses;

/// One cgroup and what may be opened from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cgroup {
    /// Relative to the cgroup root, `/` first.
    pub path: String,
    /// Hex of the path's bytes if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_hex: Option<String>,
    /// Cgroup id (inode number of the directory).
    pub id: u64,
    /// The owner; null if it was not recognised.
    pub owner: Option<Owner>,
    /// Programs in force, in run order.
    pub programs: Vec<Effective>,
    /// Why the programs in force could not be asked; then `programs` is empty, but
    /// there may be programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs_unknown: Option<String>,
    /// Key into `policies`.
    pub policy: String,
    /// Every GPU of the node.
    pub gpus: Vec<GpuVerdict>,
    /// Its processes.
    pub processes: Vec<Process>,
    /// Processes in it that cannot be seen from where gpumap runs; left out where there
    /// are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<UnseenProcesses>,
}

/// A program in force on a cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Effective {
    /// Key into `programs`.
    pub id: u32,
    /// The cgroup it is attached to; empty if that could not be asked.
    pub attached_at: String,
    /// `multi`, `override`, `preorder`, `link`; none is `[]`.
    pub flags: Vec<AttachFlag>,
    /// Whether it is not known if a link holds it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub link_unknown: bool,
}

/// One GPU as seen from one cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuVerdict {
    /// Key into the inventory.
    pub gpu: String,
    /// Major of the node asked about; null if the GPU has no node.
    pub major: Option<u32>,
    /// Minor of the node asked about.
    pub minor: Option<u32>,
    /// Verdict for `rw`, which is what using the GPU takes.
    pub verdict: Verdict,
    /// All requests that are allowed.
    pub requests: String,
    /// Why the verdict is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Its MIG instances, in the order of [`Gpu::mig`](super::Gpu::mig).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<InstanceVerdict>,
}

/// One MIG instance as seen from one cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceVerdict {
    /// `KEY/GI/CI`.
    pub instance: String,
    /// Verdict for using it: for its GPU and the capabilities of both levels.
    pub verdict: Verdict,
}
