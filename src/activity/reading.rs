//! Turns the kernel side's tables into facts.

use std::collections::BTreeMap;

use super::kernel::{Kernel, OF_PROCESSES, TABLES};
use super::layout::{Account, Call, Device, Failure, OTHERS, Process, api};
use super::missed::MissedEnds;
use super::pending;
use super::{ActivityError, cookie, functions, layout};
use crate::model::{CountTable, InOrder as _};
use crate::observation::{
    CallUnderWay, ContextSums, ErrorCount, LostRoom, NamedDevice, ProcessActivity, StreamSums, Text,
};

/// Calls that last longer, in nanoseconds, may have been in a reading before.
const LASTING: u64 = 50_000_000;
/// Handles of streams up to this one are no addresses.
const LAST_DEFAULT: u64 = 3;

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
    contexts: BTreeMap<u64, Vec<ContextSums>>,
    streams: BTreeMap<u64, Vec<StreamSums>>,
    failures: BTreeMap<u64, Vec<Failure>>,
    devices: BTreeMap<u64, Vec<Device>>,
    /// Those that have not returned.
    calls: BTreeMap<u64, Vec<Call>>,
}

impl Tables {
    /// Reads them. The processes come first: one that ends meanwhile is said to
    /// have ended the next time, with all it did.
    pub(super) fn read(
        kernel: &Kernel,
        reported: &mut pending::Reported,
        missed: &mut MissedEnds,
    ) -> Result<Self, ActivityError> {
        let mut tables = Self::default();
        for (key, process) in kernel.entries("processes")? {
            // One without a pid is not filled in yet.
            let process = Process::read(&process).filter(|process| process.pid != 0);
            tables.processes.extend(layout::long(&key).zip(process));
        }
        if tables.processes.is_empty() {
            return Ok(tables);
        }
        let before = calls(kernel)?;
        let mut threads = pending::read(kernel)?;
        // What a thread launched is in the sums once it has gone.
        let unsettled = pending::processes(&threads);
        tables.processes.iter_mut().filter(|(id, _)| unsettled.contains(id)).for_each(|(_, it)| it.ended = 0);
        tables.read_sums(kernel)?;
        let now = calls(kernel)?;
        // One that returned meanwhile is in no list of calls: its time is in the sums, or
        // they were read too early.
        let lasted = |call: &&(u64, Call)| call.1.is_older(LASTING);
        if before.iter().filter(lasted).any(|call| !now.contains(call)) {
            threads = pending::read(kernel)?;
            tables.read_sums(kernel)?;
        }
        let mut after = pending::read(kernel)?;
        missed.complete(&mut threads, &tables.processes);
        missed.complete(&mut after, &tables.processes);
        reported.complete(&mut tables.streams, &threads, &after);
        for (id, call) in now {
            tables.calls.entry(id).or_default().push(call);
        }
        tables.failures = rows(kernel, "errors", Failure::read)?;
        tables.devices = rows(kernel, "devices", Device::read)?;
        Ok(tables)
    }

    fn read_sums(&mut self, kernel: &Kernel) -> Result<(), ActivityError> {
        self.contexts = rows(kernel, "contexts", layout::context)?;
        self.streams = rows(kernel, "streams", layout::stream)?;
        Ok(())
    }

    /// Takes what has ended out of the kernel's tables: nothing is added to it any more. A
    /// table is listed only where one that has ended left something there. The process
    /// itself goes last: what fails is done again at the next reading.
    pub(super) fn clear(&self, kernel: &mut Kernel) -> Result<(), ActivityError> {
        let over: BTreeMap<u64, &Process> =
            self.processes.iter().filter(|(_, it)| it.ended != 0).map(|(id, it)| (*id, it)).collect();
        for (table, map) in OF_PROCESSES {
            let has_some = |it: &&&Process| it.held.get(table).is_some_and(|held| *held != 0);
            if !over.values().any(|it| has_some(&it)) {
                continue;
            }
            for (key, _) in kernel.entries(map)? {
                if layout::long(&key).is_some_and(|id| over.contains_key(&id)) {
                    kernel.remove(map, &key)?;
                }
            }
        }
        for (id, process) in over {
            kernel.remove("processes", &id.to_ne_bytes())?;
            kernel.returned(process)?;
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
                cgroup: None,
                comm: Text::from(layout::text(&process.comm)),
                uid: process.uid,
                first_ns: boot(process.first),
                account: Some(process.account).filter(|account| *account != OTHERS),
                lost: lost_tables(process.lost),
                partial: process.outside
                    || process.lost != 0
                    || process.start <= since
                        && !is_whole(process.pid, start_time, since, boot(process.first)),
                since_ns: since.max(process.start),
                ended_ns: (process.ended != 0).then(|| boot(process.ended)),
                executed: process.executed,
                contexts: self.contexts.get(id).cloned().unwrap_or_default(),
                streams: sums(&self.streams, *id, |row| since_boot(row, clocks.asleep)),
                errors: sums(&self.failures, *id, failure),
                devices: sums(&self.devices, *id, device).into_iter().flatten().collect(),
                resolved: Vec::new(),
                intercepted: Vec::new(),
                interception_unseen: false,
                calls: self.calls_of(*id, clocks.asleep),
            }
        });
        facts.collect()
    }

    /// The calls of a process that have not returned, the oldest first.
    fn calls_of(&self, id: u64, asleep: u64) -> Vec<CallUnderWay> {
        let streams = self.streams.get(&id);
        let of_stream = |call: &Call| {
            let found = streams?.iter().find(|row| row.stream > LAST_DEFAULT && row.stream == call.stream);
            found.map(|row| row.context)
        };
        let one = |call: &Call| {
            let context = of_stream(call).unwrap_or(layout::api_and_handle(call.context).1);
            Some(CallUnderWay {
                tid: call.tid,
                function: functions::name_of(call.cookie)?.to_owned(),
                since_ns: call.entered.saturating_add(asleep),
                waits: cookie::waits(call.cookie),
                api: api(cookie::is_hip(call.cookie)),
                context,
            })
        };
        let mut calls: Vec<_> = self.calls.get(&id).into_iter().flatten().filter_map(one).collect();
        calls.order_by_key(|call| (call.since_ns, call.tid));
        calls
    }
}

/// The calls that have not returned, with their processes.
fn calls(kernel: &Kernel) -> Result<Vec<(u64, Call)>, ActivityError> {
    let threads = kernel.entries("threads")?;
    Ok(threads.iter().filter_map(|(key, thread)| Call::read(key, thread)).collect())
}

/// The rows of a table by process: its id is the beginning of every key.
fn rows<R>(
    kernel: &Kernel,
    table: &'static str,
    read: fn(&[u8], &[u8]) -> Option<R>,
) -> Result<BTreeMap<u64, Vec<R>>, ActivityError> {
    let mut rows: BTreeMap<u64, Vec<R>> = BTreeMap::new();
    for (key, value) in kernel.entries(table)? {
        let Some((id, row)) = layout::long(&key).zip(read(&key, &value)) else { continue };
        rows.entry(id).or_default().push(row);
    }
    Ok(rows)
}

fn sums<R, S>(rows: &BTreeMap<u64, Vec<R>>, id: u64, sum: impl Fn(&R) -> S) -> Vec<S> {
    rows.get(&id).into_iter().flatten().map(sum).collect()
}

/// The sums of a stream, with times since boot.
fn since_boot(row: &StreamSums, asleep: u64) -> StreamSums {
    let boot = |at: u64| if at == 0 { 0 } else { at.saturating_add(asleep) };
    StreamSums { first_ns: boot(row.first_ns), last_ns: boot(row.last_ns), ..row.clone() }
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

/// The tables of some bits.
fn lost_tables(bits: u32) -> Vec<CountTable> {
    let mut tables: Vec<CountTable> = Vec::new();
    for table in (0..).zip(&TABLES).filter(|(bit, _)| bits >> bit & 1 == 1).filter_map(|(_, it)| it.clone()) {
        if !tables.contains(&table) {
            tables.push(table);
        }
    }
    tables
}

/// What found no room, by table and user.
pub(super) fn lost(accounts: &[Account]) -> Vec<LostRoom> {
    let mut lost: Vec<LostRoom> = Vec::new();
    for account in accounts {
        let uid = Some(account.number).filter(|number| *number != OTHERS);
        for (table, count) in TABLES.iter().zip(account.lost).filter(|(_, count)| *count != 0) {
            let Some(map) = table.clone() else { continue };
            match lost.iter_mut().find(|one| one.map == map && one.uid == uid) {
                Some(one) => one.count = one.count.saturating_add(count),
                None => lost.push(LostRoom { map, count, uid }),
            }
        }
    }
    let place = |map: &CountTable| TABLES.iter().position(|table| table.as_ref() == Some(map));
    lost.order_by_key(|one| (place(&one.map), one.uid));
    lost
}
