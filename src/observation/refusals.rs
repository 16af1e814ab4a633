//! Devices that the kernel refused to processes, as a running `gpumap denials --state` sums
//! them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Text;
use crate::model::{DeviceType, Time};

/// What was refused lately.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refusals {
    /// When refusals were last read, RFC 3339.
    pub at: Time,
    /// Since when they are seen; what was refused before is not known.
    pub since: Time,
    /// The refusals of GPUs' devices in the last hour.
    pub refused: Vec<RefusedDevice>,
    /// How many refusals since then are not among these for lack of room.
    pub lost: u64,
    /// How many checks of devices since then nobody saw, as far as the kernel counts them:
    /// any of them may be a refusal.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The refusals of one device to one process in one cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedDevice {
    /// Pid.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start_time: u64,
    /// Effective uid, at the first refusal.
    pub uid: u32,
    /// Command name, at the first refusal.
    pub comm: Text,
    /// The id of the cgroup in which it was refused: the inode number of its directory.
    pub cgroup: u64,
    /// The type of the device.
    pub kind: DeviceType,
    /// Its major number.
    pub major: u32,
    /// Its minor number.
    pub minor: u32,
    /// How often it was refused.
    pub count: u64,
    /// When it was refused first, RFC 3339.
    pub first: Time,
    /// When it was refused last.
    pub last: Time,
}
