//! Checks whether the bytes of a region can be what a layout says they are.
//!
//! Builds leave the spare fields of their structures zero. Where a spare field is
//! written, the writer had another structure.

use std::ops::Range;

use super::offsets::{DEVICES, Offsets, SLOTS, UUID_BYTES};

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
