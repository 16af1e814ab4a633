//! Answers about shared regions of libvgpu.so.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::RegionLayout;

/// A shared region. Fields have the names of the library's C header; those that
/// its layout lacks, and all of them where the layout is `mixed` or `unknown`,
/// are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Region {
    /// Which build's layout it has.
    pub layout: RegionLayout,
    /// Why the layout is `mixed` or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Size of the file in bytes.
    pub file_size: u64,
    /// 19920718 once the region can be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialized_flag: Option<u32>,
    /// First number of the file's own version; the layouts of 2024 have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub major_version: Option<u32>,
    /// Second number of the version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minor_version: Option<u32>,
    /// Whether SM utilization is being watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm_init_flag: Option<i32>,
    /// The process in the container that holds the lock; 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_pid: Option<u64>,
    /// Value of the lock's semaphore; 0 is locked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sem_value: Option<u32>,
    /// Value of the semaphore that makes processes start one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sem_postinit_value: Option<u32>,
    /// Devices of the container; 0 until a process has initialized NVML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_num: Option<u64>,
    /// UUIDs of the devices, "" for those that are not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuids: Option<Vec<String>>,
    /// Memory limit of each device in bytes; 0 is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Vec<u64>>,
    /// SM limit of each device in percent; 0 and 100 or more are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm_limit: Option<Vec<u64>>,
    /// Entries of `procs` that the library counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proc_num: Option<i32>,
    /// Whether SM limits are in force: 0 is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization_switch: Option<i32>,
    /// 2 after a launch, counted down by HAMi's monitor; -1: launches wait for
    /// a task of higher priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent_kernel: Option<i32>,
    /// 0 is high, 1 low.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// When the last kernel was launched, in seconds since 1970; 0 for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_kernel_time: Option<u64>,
    /// Processes: all that are counted, and what is left in entries behind
    /// them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub procs: Option<Vec<RegionProcess>>,
}

/// A process in a shared region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RegionProcess {
    /// Place in the table, from 0.
    pub index: usize,
    /// Whether the library counts this entry (`index` < `proc_num`).
    pub in_range: bool,
    /// Pid in the container; 0 after an exit.
    pub pid: i32,
    /// Pid on the node; 0 if the library has not found it.
    pub hostpid: i32,
    /// 1 running, 2 suspended, 0 gone.
    pub status: i32,
    /// Number of the last write; odd while the process writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seqlock: Option<u64>,
    /// Devices of which anything is noted.
    pub devices: Vec<RegionDevice>,
}

/// What a process uses of a device, as the library counts it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RegionDevice {
    /// The library's index of the device.
    pub device: usize,
    /// Bytes of contexts.
    pub context_size: u64,
    /// Bytes of modules.
    pub module_size: u64,
    /// Bytes that were allocated.
    pub data_size: u64,
    /// Bytes of other use.
    pub offset: u64,
    /// Bytes in all.
    pub total: u64,
    /// Bytes as NVML reports them.
    pub monitorused: u64,
    /// Decoder utilization in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dec_util: Option<u64>,
    /// Encoder utilization in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enc_util: Option<u64>,
    /// SM utilization in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm_util: Option<u64>,
}

impl RegionDevice {
    /// Whether nothing is noted.
    pub fn is_empty(&self) -> bool {
        let used = self.context_size | self.module_size | self.data_size | self.offset | self.total;
        let util = [self.dec_util, self.enc_util, self.sm_util].into_iter().flatten();
        used | self.monitorused | util.fold(0, |all, one| all | one) == 0
    }
}
