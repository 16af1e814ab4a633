//! What an owner did with its GPUs from begin to end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::call_error::CallError;
use super::work::Work;
use crate::model::{CountTable, Owner};

/// What an owner did, its processes that have ended included. The numbers never go down
/// as long as the same gpumap counts, or one that goes on with its state file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerWork {
    /// Whose it is: a whole job, pod, container or unit; null where it is nobody's, or where
    /// that is not known.
    pub owner: Option<Owner>,
    /// Whether it is known that these belong to no job, pod, container or unit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_nobodys: bool,
    /// Since when its calls are counted, RFC 3339.
    pub since: String,
    /// When its last process ended, or the reading where one is still there.
    pub until: String,
    /// The seconds from the one to the other.
    pub seconds: f64,
    /// Its processes that made calls.
    pub processes: u64,
    /// Those of them that are still there.
    pub alive: u64,
    /// Whether calls may be missing: then all numbers are the least that it did.
    pub partial: bool,
    /// The tables of the kernel that had no room for something of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<CountTable>,
    /// Errors that its calls returned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<CallError>,
    /// What it did with each GPU.
    pub gpus: Vec<GpuWork>,
}

/// What may belong to owners that were asked for, and is in the numbers of none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unattributed {
    /// Processes of the owner's user that made calls, and of which the owner is not known.
    pub processes: u64,
    /// How often calls of that user found no room; of an owner that is there, those of whole
    /// processes alone: the others mark what they are missing of.
    pub lost: u64,
    /// Processes and files whose calls are not counted.
    pub uncovered: usize,
    /// Owners whose numbers are kept no longer. Of owners that are not there.
    pub forgotten_owners: u64,
    /// Whether only some processes of the node are counted. Of owners that are not there.
    pub is_part_of_node: bool,
}

impl Unattributed {
    /// The larger of each.
    #[must_use]
    pub fn most(&self, other: &Self) -> Self {
        Self {
            processes: self.processes.max(other.processes),
            lost: self.lost.max(other.lost),
            uncovered: self.uncovered.max(other.uncovered),
            forgotten_owners: self.forgotten_owners.max(other.forgotten_owners),
            is_part_of_node: self.is_part_of_node || other.is_part_of_node,
        }
    }
}

/// What an owner did with one GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuWork {
    /// Key of the GPU in the inventory; null for calls of which it is not known.
    pub gpu: Option<String>,
    /// The MIG instance, `KEY/GI/CI`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// What it did.
    pub counts: Work,
    /// Device memory that is allocated now.
    pub now_bytes: u64,
    /// The least that its memory was at its peak: the largest peak of one of its processes,
    /// or what all of them had at a reading.
    pub peak_bytes: u64,
    /// The most that it can have been: the peaks of all its processes together.
    pub peak_at_most_bytes: u64,
    /// How long the intervals between readings were in which it made a call about this GPU,
    /// or a thread of it was in one.
    pub used_seconds: f64,
    /// The share of its time in which it did not; null where it had no time.
    pub idle_share: Option<f64>,
}
