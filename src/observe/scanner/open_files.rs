//! Turns open files into devices of processes. A thread that no longer shares the
//! descriptor table of its main thread can share another, which each of its sharers
//! shows.

use std::collections::HashMap;

use super::record::Open;
use crate::observe::processes::devices::HeldDevices;

/// Devices by process.
pub(super) type Devices = HashMap<(u32, u64), ProcessDevices>;

/// The open devices of one process.
#[derive(Debug, Default)]
pub(super) struct ProcessDevices {
    pub(super) held: HeldDevices,
    /// The first thread that showed each table. A process can have as many tables as
    /// threads, so that a list of them would have to be searched too often.
    tables: HashMap<u64, u32>,
}

/// Counts an open device, unless its table was shown by another thread.
pub(super) fn add(devices: &mut Devices, open: &Open) {
    let process = devices.entry((open.pid, open.start_time)).or_default();
    let thread = *process.tables.entry(open.table).or_insert(open.thread);
    if thread == open.thread {
        process.held.open(open.kind, open.rdev);
    }
}
