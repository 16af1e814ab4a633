//! The fields of a shared region.

use super::layout::decide;
use super::layout::{DEVICES, Offsets, SLOTS, UUID_BYTES};
use super::layout::{u32_at, u64_at};
use crate::report::{Region, RegionDevice, RegionProcess};

/// Reads the bytes of a whole file. Of a file whose layout is not known there
/// is only what its first bytes say.
pub fn read(file: &[u8]) -> Region {
    let decision = decide(file);
    let mut region = Region {
        layout: decision.layout,
        why: decision.why,
        file_size: file.len() as u64,
        initialized_flag: u32_at(file, 0),
        ..Region::default()
    };
    if let Some(offsets) = decision.offsets {
        fill(&mut region, file, offsets);
    }
    region
}

fn fill(region: &mut Region, file: &[u8], at: &Offsets) {
    let array = |from: usize| (0..DEVICES).filter_map(|device| u64_at(file, from + device * 8)).collect();
    region.major_version = at.major_version.and_then(|at| u32_at(file, at));
    region.minor_version = at.major_version.and_then(|at| u32_at(file, at + 4));
    region.sm_init_flag = i32_at(file, at.sm_init_flag);
    region.owner_pid = u64_at(file, at.owner_pid);
    // The low half of a semaphore is its value, the high half who waits.
    region.sem_value = at.sem.and_then(|at| u32_at(file, at));
    region.sem_postinit_value = at.sem_postinit.and_then(|at| u32_at(file, at));
    region.device_num = u64_at(file, at.device_num);
    region.uuids = Some((0..DEVICES).map(|device| uuid(file, at.uuids + device * UUID_BYTES)).collect());
    region.limit = Some(array(at.limit));
    region.sm_limit = Some(array(at.sm_limit));
    region.proc_num = i32_at(file, at.proc_num);
    region.utilization_switch = i32_at(file, at.proc_num + 4);
    region.recent_kernel = i32_at(file, at.proc_num + 8);
    region.priority = i32_at(file, at.proc_num + 12);
    region.last_kernel_time = at.last_kernel_time.and_then(|at| u64_at(file, at));
    let counted = usize::try_from(region.proc_num.unwrap_or(0)).unwrap_or(0).min(SLOTS);
    region.procs = Some((0..SLOTS).filter_map(|index| process(file, at, index, counted)).collect());
}

fn i32_at(file: &[u8], at: usize) -> Option<i32> {
    u32_at(file, at).map(u32::cast_signed)
}

/// A text up to its first NUL.
fn uuid(file: &[u8], at: usize) -> String {
    let bytes = file.get(at..at + UUID_BYTES).unwrap_or_default();
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// The entry of a process: those that are counted, and those behind them that
/// are not empty.
fn process(file: &[u8], at: &Offsets, index: usize, counted: usize) -> Option<RegionProcess> {
    let layout = &at.slot;
    let begin = at.procs + index * layout.stride;
    let slot = file.get(begin..begin + layout.stride)?;
    let in_range = index < counted;
    if !in_range && slot.iter().all(|byte| *byte == 0) {
        return None;
    }
    let devices = (0..DEVICES).filter_map(|device| of_device(slot, at, device));
    let devices = devices.filter(|device| !device.is_empty()).collect();
    Some(RegionProcess {
        index,
        in_range,
        pid: i32_at(slot, 0)?,
        hostpid: i32_at(slot, 4)?,
        status: i32_at(slot, layout.status)?,
        seqlock: layout.seqlock.and_then(|at| u64_at(slot, at)),
        devices,
    })
}

fn of_device(slot: &[u8], at: &Offsets, device: usize) -> Option<RegionDevice> {
    let used = at.slot.used + device * at.slot.used_stride;
    let util = at.slot.device_util.map(|(at, stride)| at + device * stride);
    Some(RegionDevice {
        device,
        context_size: u64_at(slot, used)?,
        module_size: u64_at(slot, used + 8)?,
        data_size: u64_at(slot, used + 16)?,
        offset: u64_at(slot, used + 24)?,
        total: u64_at(slot, used + 32)?,
        monitorused: u64_at(slot, at.slot.monitorused + device * 8)?,
        dec_util: util.and_then(|util| u64_at(slot, util)),
        enc_util: util.and_then(|util| u64_at(slot, util + 8)),
        sm_util: util.and_then(|util| u64_at(slot, util + 16)),
    })
}
