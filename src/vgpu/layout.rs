//! Which build of the library wrote a shared region, and where its fields are; whether the
//! bytes of a region can be what a layout says they are.
//!
//! The size and the version in the file name a candidate. The candidate is
//! dropped where the bytes contradict it: a file that two builds have written
//! to is `mixed`, anything else is `unknown`. No layout is guessed.
//!
//! Builds leave the spare fields of their structures zero. Where a spare field is
//! written, the writer had another structure.
//!
//! The offsets are those of the C headers on x86_64 and, but for SoftMig 2.0,
//! on aarch64: HAMi-core 5d45543 (v0a), 285d649 (v0b), 4a7e11e (1.1), 1d14e3e
//! (1.1-post) and 8f3a89c (1.2); SoftMig 0f6d1aa (1.1) and its branch 2.06
//! (2.0).

use std::ops::Range;

use crate::model::RegionLayout;

/// Fields of another layout's end inside the last slot of 1.1-post: a process of that
/// other build writes there, and one that has this very slot.
const OTHER_END: std::ops::Range<usize> = 2_008_896..2_008_928;

/// What is known of the layout of a file.
#[derive(Debug)]
pub(super) struct Decision {
    /// The layout.
    pub layout: RegionLayout,
    /// Why it is `mixed` or `unknown`.
    pub why: Option<String>,
    pub(super) offsets: Option<&'static Offsets>,
}

impl Decision {
    fn no(layout: RegionLayout, why: impl Into<String>) -> Self {
        Self { layout, why: Some(why.into()), offsets: None }
    }
}

/// Decides which layout the bytes of a whole file have.
pub(super) fn decide(file: &[u8]) -> Decision {
    let candidate = candidate(file);
    let Some(offsets) = candidate.offsets else { return candidate };
    if candidate.layout == RegionLayout::V1_1Post
        && (has_uuids(file, V1_1.uuids) || is_written(file, OTHER_END) && !is_last_slot_taken(file, offsets))
    {
        let why = "two builds of libvgpu.so have written to it: it holds the fields of 1.1-post and of \
                   another layout";
        return Decision::no(RegionLayout::Mixed, why);
    }
    match misfit(file, offsets) {
        None => candidate,
        Some(misfit) => {
            let why = format!("size and version are those of {}, but {misfit}", candidate.layout);
            Decision::no(RegionLayout::Unknown, why)
        }
    }
}

/// The layout that size and version name.
fn candidate(file: &[u8]) -> Decision {
    let unknown = |why: String| Decision::no(RegionLayout::Unknown, why);
    match u32_at(file, 0) {
        Some(MAGIC) => {}
        Some(0) => return unknown("no process has initialized it".to_owned()),
        _ => return unknown("it does not begin as a shared region does".to_owned()),
    }
    let size = file.len();
    let version = (u32_at(file, 4).unwrap_or(0), u32_at(file, 8).unwrap_or(0));
    let (layout, offsets) = match (size, version) {
        (804_680 | 804_681, _) => (RegionLayout::V0a, &V0A),
        (1_197_896 | 1_197_897, _) => (RegionLayout::V0b, &V0B),
        (2_008_953, (1, 1)) => (RegionLayout::V1_1, &V1_1),
        (2_008_953, (1, 2)) => (RegionLayout::V1_2, &V1_2),
        (2_008_952, (1, 1)) => (RegionLayout::Softmig1_1, &V1_1),
        (2_008_985, (1, 1)) => (RegionLayout::V1_1Post, &V1_1_POST),
        (2_008_985, (1, 2)) => {
            let why = "it has the size of 1.1-post and the version of 1.2: two builds have written to it";
            return Decision::no(RegionLayout::Mixed, why);
        }
        (2_140_032 | 2_140_033, (2, 0)) => (RegionLayout::Softmig2_0, &SOFTMIG_2_0),
        (2_140_040 | 2_140_041, (2, 0)) => (RegionLayout::Softmig2_0, &SOFTMIG_2_0_AARCH64),
        (size, (major, minor)) => {
            return unknown(format!("no known build writes {size} bytes with version {major}.{minor}"));
        }
    };
    Decision { layout, why: None, offsets: Some(offsets) }
}

/// The little-endian number at an offset; `None` behind the end.
pub(super) fn u32_at(file: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*file.get(at..)?.first_chunk()?))
}

/// The little-endian number at an offset; `None` behind the end.
pub(super) fn u64_at(file: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*file.get(at..)?.first_chunk()?))
}

/// Whether any byte of a range is other than zero.
pub(super) fn is_written(file: &[u8], range: Range<usize>) -> bool {
    file.get(range).is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0))
}

/// Whether the last slot is that of a process.
pub(super) fn is_last_slot_taken(file: &[u8], offsets: &Offsets) -> bool {
    let last = SLOTS - 1;
    let pid = u32_at(file, offsets.procs + last * offsets.slot.stride);
    pid.is_some_and(|pid| pid != 0) && slot_fits(file, offsets, last)
}

/// Whether UUIDs of GPUs stand where a layout would have them.
pub(super) fn has_uuids(file: &[u8], at: usize) -> bool {
    (0..DEVICES).any(|device| {
        let uuid = file.get(at + device * UUID_BYTES..).unwrap_or_default();
        uuid.starts_with(b"GPU-") || uuid.starts_with(b"MIG-")
    })
}

/// Says what does not fit the layout, if something does not.
pub(super) fn misfit(file: &[u8], offsets: &Offsets) -> Option<String> {
    let devices = u64_at(file, offsets.device_num)?;
    if devices > DEVICES as u64 {
        return Some(format!("it would have {devices} devices"));
    }
    let first = (0..DEVICES).find(|device| {
        let uuid = file.get(offsets.uuids + device * UUID_BYTES..).unwrap_or_default();
        // What a driver leaves behind the end of the text is no text.
        !uuid.iter().take(UUID_BYTES).take_while(|byte| **byte != 0).all(u8::is_ascii_graphic)
    });
    if let Some(device) = first {
        return Some(format!("the UUID of device {device} would not be text"));
    }
    (0..SLOTS)
        .find(|slot| !slot_fits(file, offsets, *slot))
        .map(|slot| format!("the entry of process {slot} has values in fields that this layout does not use"))
}

/// Whether a slot's spare fields are zero and its status is one that exists.
fn slot_fits(file: &[u8], offsets: &Offsets, index: usize) -> bool {
    let layout = &offsets.slot;
    let begin = offsets.procs + index * layout.stride;
    let Some(slot) = file.get(begin..begin + layout.stride) else { return false };
    if slot.iter().all(|byte| *byte == 0) {
        return true;
    }
    let spare = |from: usize, stride: usize, used: usize| {
        (0..DEVICES)
            .all(|device| !is_written(slot, from + device * stride + used..from + (device + 1) * stride))
    };
    // 1.2 has four unused bytes between the status and the lock.
    let gap = layout.seqlock.is_none_or(|at| at < layout.status || !is_written(slot, layout.status + 4..at));
    u32_at(slot, layout.status).is_some_and(|status| status <= 2)
        && gap
        && !is_written(slot, layout.end..layout.stride)
        && spare(layout.used, layout.used_stride, 40)
        && layout.device_util.is_none_or(|(at, stride)| spare(at, stride, 24))
}

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
