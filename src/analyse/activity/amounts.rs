//! Computes amounts of work: adds those of several streams or processes, subtracts those of
//! an earlier reading, and says what happened between two readings.

use std::collections::HashMap;

use super::ProcessKey;
use crate::observation::{
    Activity, CallUnderWay, ContextSums, CopiedBytes, DURATION_CLASSES, ErrorCount, FIRST_DURATION_BITS,
    GpuApi, InterceptedCalls, ProcessActivity, StreamSums,
};
use crate::report::{DurationClass, MemoryUse, Rates, Work};

const NANOSECONDS: f64 = 1e9;

/// Nanoseconds as seconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "below 2^53 ns, 104 days, it is exact, and beyond close enough"
)]
pub(super) fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / NANOSECONDS
}

/// What a stream's sums come to.
pub(super) fn of_stream(sums: &StreamSums) -> Work {
    Work {
        launches: sums.launches,
        graph_launches: sums.graph_launches,
        graph_kernels: sums.graph_kernels,
        captured: sums.captured,
        host_functions: sums.host_functions,
        copies: sums.copies,
        to_device_bytes: sums.bytes.to_device,
        from_device_bytes: sums.bytes.from_device,
        on_device_bytes: sums.bytes.on_device,
        unknown_bytes: sums.bytes.unknown,
        fills: sums.fills,
        fill_bytes: sums.fill_bytes,
        waits: sums.waits,
        wait_seconds: seconds(sums.wait_ns),
        copy_wait_seconds: seconds(sums.copy_wait_ns),
        queries: sums.queries,
        failed_calls: sums.errors,
        ..Work::default()
    }
}

/// What a context's sums come to.
pub(super) fn of_context(sums: &ContextSums) -> Work {
    Work {
        allocations: sums.allocations,
        frees: sums.frees,
        failed_allocations: sums.failed,
        waits: sums.waits,
        wait_seconds: seconds(sums.wait_ns),
        ..Work::default()
    }
}

/// The memory of a context.
pub(super) fn memory(sums: &ContextSums) -> MemoryUse {
    MemoryUse {
        now_bytes: sums.bytes,
        peak_bytes: sums.peak_bytes,
        managed_bytes: sums.managed_bytes,
        host_bytes: sums.host_bytes,
        physical_bytes: sums.physical_bytes,
    }
}

/// Both together. Counts of a hostile file may be as large as they like.
pub(super) fn sum(a: Work, b: Work) -> Work {
    Work {
        launches: a.launches.saturating_add(b.launches),
        graph_launches: a.graph_launches.saturating_add(b.graph_launches),
        graph_kernels: a.graph_kernels.saturating_add(b.graph_kernels),
        captured: a.captured.saturating_add(b.captured),
        host_functions: a.host_functions.saturating_add(b.host_functions),
        copies: a.copies.saturating_add(b.copies),
        to_device_bytes: a.to_device_bytes.saturating_add(b.to_device_bytes),
        from_device_bytes: a.from_device_bytes.saturating_add(b.from_device_bytes),
        on_device_bytes: a.on_device_bytes.saturating_add(b.on_device_bytes),
        unknown_bytes: a.unknown_bytes.saturating_add(b.unknown_bytes),
        fills: a.fills.saturating_add(b.fills),
        fill_bytes: a.fill_bytes.saturating_add(b.fill_bytes),
        allocations: a.allocations.saturating_add(b.allocations),
        frees: a.frees.saturating_add(b.frees),
        failed_allocations: a.failed_allocations.saturating_add(b.failed_allocations),
        waits: a.waits.saturating_add(b.waits),
        wait_seconds: a.wait_seconds + b.wait_seconds,
        copy_wait_seconds: a.copy_wait_seconds + b.copy_wait_seconds,
        queries: a.queries.saturating_add(b.queries),
        failed_calls: a.failed_calls.saturating_add(b.failed_calls),
    }
}

/// The memory of both.
pub(super) fn memory_sum(a: MemoryUse, b: MemoryUse) -> MemoryUse {
    MemoryUse {
        now_bytes: a.now_bytes.saturating_add(b.now_bytes),
        peak_bytes: a.peak_bytes.saturating_add(b.peak_bytes),
        managed_bytes: a.managed_bytes.saturating_add(b.managed_bytes),
        host_bytes: a.host_bytes.saturating_add(b.host_bytes),
        physical_bytes: a.physical_bytes.saturating_add(b.physical_bytes),
    }
}

/// Work per second; `None` for an interval without length.
#[expect(clippy::cast_precision_loss, reason = "a rate is no exact number")]
pub(super) fn rates(work: &Work, seconds: f64) -> Option<Rates> {
    let per = |count: u64| count as f64 / seconds;
    (seconds > 0.0).then(|| Rates {
        launches: per(work.launches),
        graph_launches: per(work.graph_launches),
        graph_kernels: per(work.graph_kernels),
        copies: per(work.copies),
        copied_bytes: per(work.copied_bytes()),
        to_device_bytes: per(work.to_device_bytes),
        from_device_bytes: per(work.from_device_bytes),
        fill_bytes: per(work.fill_bytes),
        waits: per(work.waits),
        wait_seconds: work.wait_seconds / seconds,
        copy_wait_seconds: work.copy_wait_seconds / seconds,
    })
}

/// What a stream did since a reading before. A handle that was given to another
/// stream meanwhile begins again: then that is all of it.
pub(super) fn stream_since(now: &StreamSums, before: &StreamSums) -> StreamSums {
    stream_difference(now, before).unwrap_or_else(|| now.clone())
}

fn stream_difference(now: &StreamSums, before: &StreamSums) -> Option<StreamSums> {
    let mut durations = [0; DURATION_CLASSES];
    for (class, (now, before)) in durations.iter_mut().zip(now.durations.iter().zip(&before.durations)) {
        *class = now.checked_sub(*before)?;
    }
    Some(StreamSums {
        api: now.api,
        context: now.context,
        stream: now.stream,
        launches: now.launches.checked_sub(before.launches)?,
        graph_launches: now.graph_launches.checked_sub(before.graph_launches)?,
        graph_kernels: now.graph_kernels.checked_sub(before.graph_kernels)?,
        captured: now.captured.checked_sub(before.captured)?,
        host_functions: now.host_functions.checked_sub(before.host_functions)?,
        copies: now.copies.checked_sub(before.copies)?,
        bytes: bytes_difference(&now.bytes, &before.bytes)?,
        fills: now.fills.checked_sub(before.fills)?,
        fill_bytes: now.fill_bytes.checked_sub(before.fill_bytes)?,
        waits: now.waits.checked_sub(before.waits)?,
        wait_ns: now.wait_ns.checked_sub(before.wait_ns)?,
        copy_wait_ns: now.copy_wait_ns.checked_sub(before.copy_wait_ns)?,
        queries: now.queries.checked_sub(before.queries)?,
        errors: now.errors.checked_sub(before.errors)?,
        first_ns: now.first_ns,
        last_ns: now.last_ns,
        durations,
    })
}

fn bytes_difference(now: &CopiedBytes, before: &CopiedBytes) -> Option<CopiedBytes> {
    Some(CopiedBytes {
        to_device: now.to_device.checked_sub(before.to_device)?,
        from_device: now.from_device.checked_sub(before.from_device)?,
        on_device: now.on_device.checked_sub(before.on_device)?,
        unknown: now.unknown.checked_sub(before.unknown)?,
    })
}

/// Adds a stream's sums to those of others.
pub(super) fn add_stream(sums: &mut StreamSums, more: &StreamSums) {
    let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
    add(&mut sums.launches, more.launches);
    add(&mut sums.graph_launches, more.graph_launches);
    add(&mut sums.graph_kernels, more.graph_kernels);
    add(&mut sums.captured, more.captured);
    add(&mut sums.host_functions, more.host_functions);
    add(&mut sums.copies, more.copies);
    add(&mut sums.bytes.to_device, more.bytes.to_device);
    add(&mut sums.bytes.from_device, more.bytes.from_device);
    add(&mut sums.bytes.on_device, more.bytes.on_device);
    add(&mut sums.bytes.unknown, more.bytes.unknown);
    add(&mut sums.fills, more.fills);
    add(&mut sums.fill_bytes, more.fill_bytes);
    add(&mut sums.waits, more.waits);
    add(&mut sums.wait_ns, more.wait_ns);
    add(&mut sums.copy_wait_ns, more.copy_wait_ns);
    add(&mut sums.queries, more.queries);
    add(&mut sums.errors, more.errors);
    for (sum, more) in sums.durations.iter_mut().zip(&more.durations) {
        add(sum, *more);
    }
    sums.first_ns = [sums.first_ns, more.first_ns].into_iter().filter(|at| *at != 0).min().unwrap_or(0);
    sums.last_ns = sums.last_ns.max(more.last_ns);
}

/// Adds a context's sums to those of others, with its memory if that `is_there` still.
pub(super) fn add_context(sums: &mut ContextSums, more: &ContextSums, is_there: bool) {
    let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
    add(&mut sums.allocations, more.allocations);
    add(&mut sums.frees, more.frees);
    add(&mut sums.failed, more.failed);
    add(&mut sums.waits, more.waits);
    add(&mut sums.wait_ns, more.wait_ns);
    if is_there {
        add(&mut sums.bytes, more.bytes);
        add(&mut sums.managed_bytes, more.managed_bytes);
        add(&mut sums.host_bytes, more.host_bytes);
        add(&mut sums.physical_bytes, more.physical_bytes);
    }
}

/// What happened in a context since a reading before; the memory is that of now.
pub(super) fn context_since(now: &ContextSums, before: &ContextSums) -> ContextSums {
    let difference = || {
        Some(ContextSums {
            allocations: now.allocations.checked_sub(before.allocations)?,
            frees: now.frees.checked_sub(before.frees)?,
            failed: now.failed.checked_sub(before.failed)?,
            waits: now.waits.checked_sub(before.waits)?,
            wait_ns: now.wait_ns.checked_sub(before.wait_ns)?,
            ..now.clone()
        })
    };
    difference().unwrap_or_else(|| now.clone())
}

/// The classes of durations that have calls.
pub(super) fn durations(counts: &[u64; DURATION_CLASSES]) -> Vec<DurationClass> {
    let bound = |bits: u32| seconds(1_u64.checked_shl(bits).unwrap_or(u64::MAX));
    let bits = (0..).map(|class: u32| FIRST_DURATION_BITS.saturating_add(class));
    let classes = counts.iter().zip(bits).enumerate();
    let class = |(index, (calls, bits)): (usize, (&u64, u32))| DurationClass {
        from_seconds: if index == 0 { 0.0 } else { bound(bits.saturating_sub(1)) },
        below_seconds: (index + 1 < DURATION_CLASSES).then(|| bound(bits)),
        calls: *calls,
    };
    classes.filter(|(_, (calls, _))| **calls > 0).map(class).collect()
}

/// What was added since a reading before; all of it where the sums began anew.
pub(super) fn intercepted_since(now: &InterceptedCalls, before: &InterceptedCalls) -> InterceptedCalls {
    let of_all = || {
        let mut durations = now.durations;
        for (class, before) in durations.iter_mut().zip(&before.durations) {
            *class = class.checked_sub(*before)?;
        }
        Some(InterceptedCalls {
            function: now.function.clone(),
            calls: now.calls.checked_sub(before.calls)?,
            reached: now.reached.checked_sub(before.reached)?,
            ns: now.ns.checked_sub(before.ns)?,
            durations,
            // Of all, not of these alone.
            quick_ns: now.quick_ns,
            past: now.past.checked_sub(before.past)?,
            past_bytes: now.past_bytes.checked_sub(before.past_bytes)?,
            past_unsized: now.past_unsized.checked_sub(before.past_unsized)?,
        })
    };
    of_all().unwrap_or_else(|| now.clone())
}

/// The sums of the reading before, to be found.
#[derive(Debug)]
pub(super) struct Since<'a> {
    /// `None` where there was no reading before.
    processes: Option<HashMap<ProcessKey, Before<'a>>>,
    /// When it was made.
    pub(super) clock_ns: u64,
}

/// The sums of one process.
#[derive(Debug)]
struct Before<'a> {
    streams: HashMap<(GpuApi, u64, u64), &'a StreamSums>,
    contexts: HashMap<(GpuApi, u64), &'a ContextSums>,
    errors: HashMap<(GpuApi, u32), u64>,
    intercepted: HashMap<&'a str, &'a InterceptedCalls>,
    calls: &'a [CallUnderWay],
}

impl<'a> Since<'a> {
    /// Since this reading.
    pub(super) fn new(before: Option<&'a Activity>) -> Self {
        let entry = |process: &'a ProcessActivity| {
            ((process.pid, process.start_time, process.id), Before::of(process))
        };
        Self {
            processes: before.map(|before| before.processes.iter().map(entry).collect()),
            clock_ns: before.map_or(0, |before| before.clock_ns),
        }
    }

    /// What a stream did since then; `None` where there was no reading before.
    pub(super) fn stream(&self, process: &ProcessActivity, now: &StreamSums) -> Option<StreamSums> {
        let key = (now.api, now.context, now.stream);
        let before = self.processes.as_ref()?.get(&key_of(process));
        let before = before.and_then(|before| before.streams.get(&key));
        Some(before.map_or_else(|| now.clone(), |before| stream_since(now, before)))
    }

    /// What happened in a context since then.
    pub(super) fn context(&self, process: &ProcessActivity, now: &ContextSums) -> Option<ContextSums> {
        let before = self.processes.as_ref()?.get(&key_of(process));
        let before = before.and_then(|before| before.contexts.get(&(now.api, now.context)));
        Some(before.map_or_else(|| now.clone(), |before| context_since(now, before)))
    }

    /// The calls that a process was in then.
    pub(super) fn calls(&self, process: &ProcessActivity) -> &'a [CallUnderWay] {
        let before = self.processes.as_ref().and_then(|before| before.get(&key_of(process)));
        before.map_or(&[], |before| before.calls)
    }

    /// How often an error was returned since then.
    pub(super) fn error(&self, process: &ProcessActivity, now: &ErrorCount) -> Option<u64> {
        let before = self.processes.as_ref()?.get(&key_of(process));
        let before = before.and_then(|before| before.errors.get(&(now.api, now.code)));
        Some(before.and_then(|before| now.count.checked_sub(*before)).unwrap_or(now.count))
    }
}

impl Since<'_> {
    /// The calls through a library before the driver since then.
    pub(super) fn intercepted(
        &self,
        process: &ProcessActivity,
        now: &InterceptedCalls,
    ) -> Option<InterceptedCalls> {
        let before = self.processes.as_ref()?.get(&key_of(process));
        let before = before.and_then(|before| before.intercepted.get(now.function.as_str()));
        Some(before.map_or_else(|| now.clone(), |before| intercepted_since(now, before)))
    }
}

impl<'a> Before<'a> {
    fn of(process: &'a ProcessActivity) -> Self {
        let streams = process.streams.iter().map(|sums| ((sums.api, sums.context, sums.stream), sums));
        let contexts = process.contexts.iter().map(|sums| ((sums.api, sums.context), sums));
        let errors = process.errors.iter().map(|error| ((error.api, error.code), error.count));
        let intercepted = process.intercepted.iter().map(|calls| (calls.function.as_str(), calls));
        Self {
            streams: streams.collect(),
            contexts: contexts.collect(),
            errors: errors.collect(),
            intercepted: intercepted.collect(),
            calls: &process.calls,
        }
    }
}

fn key_of(process: &ProcessActivity) -> ProcessKey {
    (process.pid, process.start_time, process.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that what lies between two readings is their difference, and that sums
    /// which began anew count as they are.
    #[test]
    fn differences() {
        let calls = |calls, ns| InterceptedCalls {
            function: "cuLaunchKernel".to_owned(),
            calls,
            reached: calls,
            ns,
            durations: [calls; 16],
            ..InterceptedCalls::default()
        };
        assert_eq!(intercepted_since(&calls(7, 90), &calls(3, 40)), calls(4, 50));
        assert_eq!(intercepted_since(&calls(2, 20), &calls(3, 40)), calls(2, 20));
    }
}
