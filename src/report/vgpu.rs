//! Answers about libvgpu.so: its shared regions, and whether its limits hold.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{GpuKey, InForce, LimitCode, MeantBy, RegionLayout, Time};

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

/// What HAMi-core or SoftMig does for a process: the limits it was meant to
/// have, those in the shared region, and whether they are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Vgpu {
    /// Whether its memory limits are in force: the worst of the verdicts on its devices.
    pub memory: LimitVerdict,
    /// The same of its SM limits.
    pub sm: LimitVerdict,
    /// Whether it has a GPU open; null where that is not known. A process
    /// without one has nothing that could be limited.
    pub uses_gpu: Option<bool>,
    /// Where the limits it was meant to have were found.
    pub meant_by: MeantBy,
    /// The file or process that named them, where it was not its own
    /// environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meant_in: Option<String>,
    /// The library that it has loaded.
    pub library: Option<VgpuFile>,
    /// The shared region that it maps.
    pub region: Option<VgpuFile>,
    /// Which build's layout the region has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<RegionLayout>,
    /// How many entries the library counts in the region. Builds before April 2026 look
    /// at all of them at each launch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region_processes: Option<usize>,
    /// Its pid in the container, as the region's entries have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inner_pid: Option<u32>,
    /// Its entry in the region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<usize>,
    /// The pid on the node that the library takes for this process's; 0 where
    /// it has found none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_pid: Option<i32>,
    /// Whether SIGUSR2 has suspended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended: Option<bool>,
    /// Priority of the region's processes: 0 is high, 1 low.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Whether launches wait for a task of higher priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<bool>,
    /// When a process of the region launched a kernel last, RFC 3339; left out
    /// where none has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_launch: Option<Time>,
    /// Its devices, in the library's order.
    pub devices: Vec<VgpuDevice>,
}

/// Whether a limit is in force, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LimitVerdict {
    /// `yes`, `no`, `partly` or `unknown`.
    pub in_force: InForce,
    /// Stable code.
    pub code: LimitCode,
    /// The same in one sentence.
    pub why: String,
}

/// A library or a region that a process maps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct VgpuFile {
    /// Path as the process's root shows it.
    pub path: String,
    /// Hex of the path if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_hex: Option<String>,
    /// Major and minor number of the file system.
    pub dev: [u32; 2],
    /// Inode number.
    pub inode: u64,
    /// Whether it was removed or replaced while it was in use.
    pub deleted: bool,
    /// Owner and permission bits; null where they are not known.
    pub uid: Option<u32>,
    /// Permission bits.
    pub mode: Option<u16>,
}

/// One device of a process under HAMi-core or SoftMig.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct VgpuDevice {
    /// The library's number of the device.
    pub device: usize,
    /// Key into the inventory; null where the region does not tell, or names a GPU
    /// that the node does not have or that the process may not open.
    pub gpu: Option<GpuKey>,
    /// The UUID in the region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Memory limit that was meant, in bytes; 0 is none.
    pub memory_meant: Option<u64>,
    /// Memory limit in the region; 0 is none.
    pub memory_limit: Option<u64>,
    /// Memory that the region counts for this process.
    pub memory_used: Option<u64>,
    /// Memory that the region counts for all its processes.
    pub memory_counted: Option<u64>,
    /// SM limit that was meant, in percent; 100 is none.
    pub sm_meant: Option<u64>,
    /// SM limit in the region; 0 and 100 or more are none.
    pub sm_limit: Option<u64>,
    /// Whether the memory limit is in force.
    pub memory: LimitVerdict,
    /// Whether the SM limit is in force.
    pub sm: LimitVerdict,
}

/// A shared region that processes map, and what it says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MappedRegion {
    /// Major and minor number of the file system.
    pub dev: [u32; 2],
    /// Inode number.
    pub inode: u64,
    /// Owner.
    pub uid: u32,
    /// Permission bits.
    pub mode: u16,
    /// Why its contents are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// What it says; null where its contents are not known.
    pub region: Option<Region>,
}

impl Vgpu {
    /// Whether a limit that was meant is not wholly in force.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        let fails = |verdict: &LimitVerdict| matches!(verdict.in_force, InForce::No | InForce::Partly);
        self.devices.iter().any(|device| {
            let memory = device.memory_meant.is_some_and(|meant| meant > 0);
            let sm = device.sm_meant.is_some_and(|meant| (1..100).contains(&meant));
            memory && fails(&device.memory) || sm && fails(&device.sm)
        })
    }

    /// Whether there may be something to limit: the process may have a GPU open,
    /// or the library has it in a region, or may have.
    #[must_use]
    pub fn may_use_gpu(&self) -> bool {
        let may_be_registered = self.entry.is_some() || self.region.is_some() && self.is_unknown();
        self.uses_gpu != Some(false) || may_be_registered
    }

    /// Whether a limit may be in force and may be not.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        [&self.memory, &self.sm].iter().any(|verdict| verdict.in_force == InForce::Unknown)
    }
}
