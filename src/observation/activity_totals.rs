//! What owners did with each GPU from their first call on: kept from reading to reading,
//! also when their processes have ended, and they are gone themselves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ContextSums, ErrorCount, StreamSums};
use crate::model::{CountTable, GpuKey, Owner};

/// Everything that one owner did until a reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerTotals {
    /// Whose processes these are or were: a whole job, pod, container or unit. `None`:
    /// nobody's, or of processes of which that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// Whether it is known that these belong to no job, pod, container or unit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_nobodys: bool,
    /// The user who answers for its first process, as in [`super::LostRoom::uid`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<u32>,
    /// Since when its calls are counted (`CLOCK_BOOTTIME`, as all times here).
    pub since_ns: u64,
    /// When its last process ended, or the reading where one is still there.
    pub until_ns: u64,
    /// Its processes that made calls.
    pub processes: u64,
    /// Those of them that are still there.
    pub alive: u64,
    /// Whether calls may be missing: made before counting began, while nobody counted, or
    /// without room. Then all numbers are the least that it did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The tables that had no room for something of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<CountTable>,
    /// Results of its calls that are errors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ErrorCount>,
    /// What it did with each GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuTotals>,
}

/// What one owner did with one GPU until a reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuTotals {
    /// Key of the GPU; `None`: calls of which it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuKey>,
    /// The MIG instance, `KEY/GI/CI`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<GpuKey>,
    /// The sums of all streams. Context and stream are 0.
    pub streams: StreamSums,
    /// The sums of all contexts; of memory, what is allocated now. Context is 0.
    pub contexts: ContextSums,
    /// The least that its memory was at its peak: the largest peak of one process, or what
    /// all of them had at one reading.
    pub peak_bytes: u64,
    /// The most that it can have been: the peaks of all processes together.
    pub most_bytes: u64,
    /// How long the intervals between readings were in which it made a call about this GPU,
    /// or a thread of it was in one.
    pub used_ns: u64,
}
