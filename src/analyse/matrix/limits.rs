//! The limits of processes under HAMi-core's libvgpu.so or SoftMig.

use std::collections::BTreeSet;

use crate::report::{MatrixLimit, Process, VgpuDevice};

/// The limits of these processes, each once.
pub(super) fn of(processes: &[&Process]) -> Vec<MatrixLimit> {
    let limited = processes.iter().filter_map(|process| process.vgpu.as_ref());
    let limits: BTreeSet<MatrixLimit> = limited.flat_map(|vgpu| &vgpu.devices).filter_map(limit).collect();
    limits.into_iter().collect()
}

/// The limit that counts is that of the region; where there is none, the one that was
/// meant.
fn limit(device: &VgpuDevice) -> Option<MatrixLimit> {
    let memory = device.memory_limit.or(device.memory_meant).filter(|bytes| *bytes > 0);
    let sm = device.sm_limit.or(device.sm_meant).filter(|percent| (1..100).contains(percent));
    (memory.is_some() || sm.is_some()).then(|| MatrixLimit {
        gpu: device.gpu.clone(),
        memory_bytes: memory,
        sm_percent: sm,
        memory_in_force: device.memory.in_force,
        sm_in_force: device.sm.in_force,
    })
}
