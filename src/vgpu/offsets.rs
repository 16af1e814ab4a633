//! Where the fields of a shared region are.
//!
//! The offsets are those of the C headers on x86_64 and, but for SoftMig 2.0,
//! on aarch64: HAMi-core 5d45543 (v0a), 285d649 (v0b), 4a7e11e (1.1), 1d14e3e
//! (1.1-post) and 8f3a89c (1.2); SoftMig 0f6d1aa (1.1) and its branch 2.06
//! (2.0).

/// `initialized_flag` of a region that is ready to use.
pub(super) const MAGIC: u32 = 19_920_718;
/// Devices that every layout has room for.
pub(super) const DEVICES: usize = 16;
/// Processes that every layout has room for.
pub(super) const SLOTS: usize = 1024;
/// Bytes of a device's UUID, padded with NUL.
pub(super) const UUID_BYTES: usize = 96;
/// Offsets of a layout, in bytes.
#[derive(Debug)]
pub(super) struct Offsets {
    /// The version's two numbers, where the file has them.
    pub major_version: Option<usize>,
    pub sm_init_flag: usize,
    pub owner_pid: usize,
    /// The lock, if it is a semaphore.
    pub sem: Option<usize>,
    pub sem_postinit: Option<usize>,
    pub device_num: usize,
    pub uuids: usize,
    pub limit: usize,
    pub sm_limit: usize,
    pub procs: usize,
    /// `proc_num`, `utilization_switch`, `recent_kernel` and `priority`.
    pub proc_num: usize,
    pub last_kernel_time: Option<usize>,
    pub slot: Slot,
}

/// Offsets inside of the entry of a process.
#[derive(Debug)]
pub(super) struct Slot {
    /// From one entry to the next.
    pub stride: usize,
    pub seqlock: Option<usize>,
    pub used: usize,
    /// From one device's use to the next; its first five numbers are in use.
    pub used_stride: usize,
    pub monitorused: usize,
    /// Utilization of each device and the way to the next; its first three
    /// numbers are in use.
    pub device_util: Option<(usize, usize)>,
    pub status: usize,
    /// End of the last field, where unused bytes begin.
    pub end: usize,
}

const SLOT_0A: Slot = Slot {
    stride: 784,
    seqlock: None,
    used: 8,
    used_stride: 40,
    monitorused: 648,
    device_util: None,
    status: 776,
    end: 780,
};

const SLOT_0B: Slot = Slot { stride: 1168, device_util: Some((776, 24)), status: 1160, end: 1164, ..SLOT_0A };

const SLOT_1_1: Slot = Slot {
    stride: 1960,
    seqlock: None,
    used: 8,
    used_stride: 64,
    monitorused: 1032,
    device_util: Some((1160, 48)),
    status: 1928,
    end: 1932,
};

const SLOT_POST: Slot = Slot {
    seqlock: Some(8),
    used: 16,
    monitorused: 1040,
    device_util: Some((1168, 48)),
    status: 1936,
    end: 1940,
    ..SLOT_1_1
};

const SLOT_1_2: Slot = Slot { seqlock: Some(1936), end: 1944, ..SLOT_1_1 };

/// `pending` stands between utilization and status.
const SLOT_2_0: Slot = Slot { stride: 2088, status: 2056, end: 2060, ..SLOT_1_1 };

pub(super) const V0A: Offsets = Offsets {
    major_version: None,
    sm_init_flag: 4,
    owner_pid: 8,
    sem: Some(16),
    sem_postinit: None,
    device_num: 48,
    uuids: 56,
    limit: 1592,
    sm_limit: 1720,
    procs: 1848,
    proc_num: 804_664,
    last_kernel_time: None,
    slot: SLOT_0A,
};

pub(super) const V0B: Offsets = Offsets { proc_num: 1_197_880, slot: SLOT_0B, ..V0A };

pub(super) const V1_1: Offsets = Offsets {
    major_version: Some(4),
    sm_init_flag: 12,
    owner_pid: 16,
    sem: Some(24),
    sem_postinit: None,
    device_num: 56,
    uuids: 64,
    limit: 1600,
    sm_limit: 1728,
    procs: 1856,
    proc_num: 2_008_896,
    last_kernel_time: Some(2_008_912),
    slot: SLOT_1_1,
};

pub(super) const V1_1_POST: Offsets = Offsets {
    sem_postinit: Some(56),
    device_num: 88,
    uuids: 96,
    limit: 1632,
    sm_limit: 1760,
    procs: 1888,
    proc_num: 2_008_928,
    last_kernel_time: Some(2_008_944),
    slot: SLOT_POST,
    ..V1_1
};

pub(super) const V1_2: Offsets = Offsets { sem_postinit: Some(2_008_920), slot: SLOT_1_2, ..V1_1 };

/// A robust mutex of 40 bytes takes the place of the semaphore.
pub(super) const SOFTMIG_2_0: Offsets = Offsets {
    sem: None,
    device_num: 64,
    uuids: 72,
    limit: 1608,
    sm_limit: 1736,
    procs: 1864,
    proc_num: 2_139_976,
    last_kernel_time: Some(2_139_992),
    slot: SLOT_2_0,
    ..V1_1
};

/// The same with a mutex of 48 bytes.
pub(super) const SOFTMIG_2_0_AARCH64: Offsets = Offsets {
    device_num: 72,
    uuids: 80,
    limit: 1616,
    sm_limit: 1744,
    procs: 1872,
    proc_num: 2_139_984,
    last_kernel_time: Some(2_140_000),
    ..SOFTMIG_2_0
};
