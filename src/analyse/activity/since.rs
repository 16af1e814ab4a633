//! What happened between two readings.

use std::collections::HashMap;

use super::ProcessKey;
use super::amounts::{context_since, intercepted_since, stream_since};
use crate::observation::{
    Activity, CallUnderWay, ContextSums, ErrorCount, GpuApi, InterceptedCalls, ProcessActivity, StreamSums,
};

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
