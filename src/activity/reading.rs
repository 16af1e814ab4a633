//! Turns the kernel side's tables into facts.

use std::collections::BTreeMap;

use super::kernel::{Kernel, TABLES};
use super::layout::{Context, Device, Failure, HIP_CONTEXT, Process, Stream};
use super::{ActivityError, layout};
use crate::observation::{
    ContextSums, CopiedBytes, ErrorCount, GpuApi, LostRoom, NamedDevice, ProcessActivity, StreamSums, Text,
};

/// What a reading needs to know besides.
pub(super) struct Clocks {
    /// What is added to `CLOCK_MONOTONIC` to have `CLOCK_BOOTTIME`.
    pub(super) asleep: u64,
    /// Clock ticks in a second.
    pub(super) ticks: u64,
}

/// The tables of one moment, by process.
#[derive(Default)]
pub(super) struct Tables {
    processes: BTreeMap<u64, Process>,
    contexts: BTreeMap<u64, Vec<Context>>,
    streams: BTreeMap<u64, Vec<Stream>>,
    failures: BTreeMap<u64, Vec<Failure>>,
    devices: BTreeMap<u64, Vec<Device>>,
    /// The entries of processes that have ended: table and key.
    over: Vec<(&'static str, Vec<u8>)>,
}

impl Tables {
    /// Reads them. The processes come first: one that ends meanwhile is said to
    /// have ended the next time, with all it did.
    pub(super) fn read(kernel: &Kernel) -> Result<Self, ActivityError> {
        let mut tables = Self::default();
        for (key, process) in kernel.entries("processes")? {
            if let Some((id, process)) = layout::long(&key).zip(Process::read(&process)) {
                if process.ended != 0 {
                    tables.over.push(("processes", key));
                }
                tables.processes.insert(id, process);
            }
        }
        if tables.processes.is_empty() {
            return Ok(tables);
        }
        tables.contexts = tables.rows(kernel, "contexts", Context::read)?;
        tables.streams = tables.rows(kernel, "streams", Stream::read)?;
        tables.failures = tables.rows(kernel, "errors", Failure::read)?;
        tables.devices = tables.rows(kernel, "devices", Device::read)?;
        Ok(tables)
    }

    /// The rows of a table by process: its id is the beginning of every key.
    fn rows<R>(
        &mut self,
        kernel: &Kernel,
        table: &'static str,
        read: fn(&[u8], &[u8]) -> Option<R>,
    ) -> Result<BTreeMap<u64, Vec<R>>, ActivityError> {
        let mut rows: BTreeMap<u64, Vec<R>> = BTreeMap::new();
        for (key, value) in kernel.entries(table)? {
            let Some((id, row)) = layout::long(&key).zip(read(&key, &value)) else { continue };
            rows.entry(id).or_default().push(row);
            if self.is_over(id) {
                self.over.push((table, key));
            }
        }
        Ok(rows)
    }

    fn is_over(&self, id: u64) -> bool {
        self.processes.get(&id).is_some_and(|process| process.ended != 0)
    }

    /// Takes what has ended out of the kernel's tables: nothing is added to it any
    /// more. Of allocations that nobody freed there may be many, so they are
    /// listed only where there are some.
    pub(super) fn clear(&self, kernel: &mut Kernel) -> Result<(), ActivityError> {
        let left = |process: &Process| process.ended != 0 && process.blocks != 0;
        if self.processes.values().any(left) {
            for (key, _) in kernel.entries("blocks")? {
                if layout::long(&key).is_some_and(|id| self.is_over(id)) {
                    kernel.remove("blocks", &key)?;
                }
            }
        }
        for (table, key) in &self.over {
            kernel.remove(table, key)?;
        }
        Ok(())
    }

    /// The facts of each process. `attached` says when a library was attached to,
    /// by the number of the attachment; `is_whole`, whether a process (pid, start)
    /// that is older than that, and made its first counted call at a moment, had called
    /// nothing before that attachment.
    pub(super) fn facts(
        &self,
        clocks: &Clocks,
        attached: &BTreeMap<u32, u64>,
        is_whole: impl Fn(u32, u64, u64, u64) -> bool,
    ) -> Vec<ProcessActivity> {
        let facts = self.processes.iter().map(|(id, process)| {
            let boot = |at: u64| at.saturating_add(clocks.asleep);
            let start_time = process.start / (1_000_000_000 / clocks.ticks.max(1)).max(1);
            let since = attached.get(&process.link).copied().unwrap_or(boot(process.first));
            ProcessActivity {
                id: *id,
                pid: process.pid,
                start_time,
                cgroup_id: process.cgroup,
                comm: Text::from(layout::text(&process.comm)),
                uid: process.uid,
                first_ns: boot(process.first),
                partial: process.outside
                    || process.start <= since
                        && !is_whole(process.pid, start_time, since, boot(process.first)),
                since_ns: since.max(process.start),
                ended_ns: (process.ended != 0).then(|| boot(process.ended)),
                executed: process.executed,
                contexts: sums(&self.contexts, *id, context),
                streams: sums(&self.streams, *id, |row| stream(row, clocks.asleep)),
                errors: sums(&self.failures, *id, failure),
                devices: sums(&self.devices, *id, device).into_iter().flatten().collect(),
                intercepted: Vec::new(),
            }
        });
        facts.collect()
    }
}

fn sums<R, S>(rows: &BTreeMap<u64, Vec<R>>, id: u64, sum: impl Fn(&R) -> S) -> Vec<S> {
    rows.get(&id).into_iter().flatten().map(sum).collect()
}

fn api(hip: bool) -> GpuApi {
    if hip { GpuApi::Hip } else { GpuApi::Cuda }
}

fn context(row: &Context) -> ContextSums {
    let [bytes, managed_bytes, host_bytes, physical_bytes] = row.bytes;
    ContextSums {
        api: api(row.context & HIP_CONTEXT != 0),
        context: row.context & !HIP_CONTEXT,
        device: row.device,
        allocations: row.allocations,
        frees: row.frees,
        failed: row.failed,
        bytes,
        peak_bytes: row.peak,
        managed_bytes,
        host_bytes,
        physical_bytes,
        waits: row.waits,
        wait_ns: row.wait_ns,
    }
}

fn stream(row: &Stream, asleep: u64) -> StreamSums {
    let [to_device, from_device, on_device, unknown] = row.copied;
    let boot = |at: u64| if at == 0 { 0 } else { at.saturating_add(asleep) };
    StreamSums {
        api: api(row.context & HIP_CONTEXT != 0),
        context: row.context & !HIP_CONTEXT,
        stream: row.stream,
        launches: row.launches,
        graph_launches: row.graph_launches,
        graph_kernels: row.graph_kernels,
        captured: row.captured,
        host_functions: row.host_functions,
        copies: row.copies,
        bytes: CopiedBytes { to_device, from_device, on_device, unknown },
        fills: row.fills,
        fill_bytes: row.fill_bytes,
        waits: row.waits,
        wait_ns: row.wait_ns,
        copy_wait_ns: row.copy_wait_ns,
        queries: row.queries,
        errors: row.errors,
        first_ns: boot(row.first),
        last_ns: boot(row.last),
        durations: row.durations,
    }
}

fn failure(row: &Failure) -> ErrorCount {
    ErrorCount { api: api(row.hip), code: row.code, count: row.count }
}

fn device(row: &Device) -> Option<NamedDevice> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let parts = [0..4, 4..6, 6..8, 8..10, 10..16].map(|part| hex(row.uuid.get(part).unwrap_or_default()));
    (row.named != 0).then(|| NamedDevice {
        api: api(row.hip),
        ordinal: row.ordinal,
        uuid: parts.join("-"),
        names_instance: row.named == 2,
    })
}

/// The tables that lost something.
pub(super) fn lost(counts: &[u64]) -> Vec<LostRoom> {
    let lost = TABLES.iter().zip(counts).filter(|(_, count)| **count != 0);
    lost.map(|(table, count)| LostRoom { map: table.clone(), count: *count }).collect()
}
