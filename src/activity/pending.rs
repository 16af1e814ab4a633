//! Launches that living threads have not added to the sums of a stream yet: see
//! `bpf/activity_launches.h`.
//!
//! The threads are read before the streams and after them. What a thread has is added if it
//! added nothing to a stream meanwhile: else that may be in the sums or not. So the sums are
//! never too high, and what they were at an earlier reading they are at least.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::ActivityError;
use super::kernel::Kernel;
use super::layout::{Pending, api_and_handle};
use crate::observation::{GpuApi, StreamSums};

/// The stream whose sums have launches that are not kept apart (`STREAM_OTHERS`).
const OTHERS: u64 = 3;

/// The threads of one moment, by number and process.
pub(super) type Threads = BTreeMap<(u32, u64), Pending>;

/// The launches of all threads.
pub(super) fn read(kernel: &Kernel) -> Result<Threads, ActivityError> {
    let entries = kernel.entries("threads")?;
    let threads = entries.iter().filter_map(|(key, value)| Pending::read(key, value));
    Ok(threads.map(|(tid, process, pending)| ((tid, process), pending)).collect())
}

/// The processes that have threads: what these launched may be in no sums yet.
pub(super) fn processes(threads: &Threads) -> BTreeSet<u64> {
    threads.keys().map(|(_, process)| *process).collect()
}

/// Launches by process and context that were reported before.
#[derive(Debug, Default)]
pub(super) struct Reported(HashMap<(u64, GpuApi, u64), StreamSums>);

impl Reported {
    /// Adds what threads have to the sums of the streams between the two looks at them.
    pub(super) fn complete(
        &mut self,
        streams: &mut BTreeMap<u64, Vec<StreamSums>>,
        before: &Threads,
        after: &Threads,
    ) {
        let is_whole = |(thread, pending): &(&(u32, u64), &Pending)| {
            let flushes = before.get(*thread).map_or(0, |before| before.flushes);
            pending.flushes == flushes && flushes.is_multiple_of(2) && pending.launches > 0
        };
        for ((_, process), pending) in after.iter().filter(is_whole) {
            add(sums(streams.entry(*process).or_default(), pending.context), pending);
        }
        let mut reported = HashMap::new();
        for (process, rows) in streams.iter_mut() {
            for row in rows.iter_mut().filter(|row| row.stream == OTHERS) {
                let key = (*process, row.api, row.context);
                if let Some(before) = self.0.get(&key) {
                    raise(row, before);
                }
                reported.insert(key, row.clone());
            }
        }
        self.0 = reported;
    }
}

/// The row of a context's launches.
fn sums(rows: &mut Vec<StreamSums>, context: u64) -> &mut StreamSums {
    let (api, context) = api_and_handle(context);
    let is_it = |row: &StreamSums| (row.stream, row.api, row.context) == (OTHERS, api, context);
    let place = rows.iter().position(is_it).unwrap_or(rows.len());
    if place == rows.len() {
        rows.push(StreamSums { api, context, stream: OTHERS, ..StreamSums::default() });
    }
    // It is there now.
    &mut rows[place]
}

fn add(row: &mut StreamSums, pending: &Pending) {
    row.launches = row.launches.saturating_add(pending.launches);
    for (sum, more) in row.durations.iter_mut().zip(pending.durations) {
        *sum = sum.saturating_add(more);
    }
    row.last_ns = row.last_ns.max(pending.last);
    row.first_ns = [row.first_ns, pending.first].into_iter().filter(|at| *at != 0).min().unwrap_or(0);
}

fn raise(row: &mut StreamSums, before: &StreamSums) {
    row.launches = row.launches.max(before.launches);
    for (sum, before) in row.durations.iter_mut().zip(before.durations) {
        *sum = (*sum).max(before);
    }
    row.last_ns = row.last_ns.max(before.last_ns);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(flushes: u64, launches: u64) -> Pending {
        Pending { flushes, context: 7, launches, first: 5, last: 9, durations: [0; 16] }
    }

    /// Make sure that launches of a thread which adds them to a stream at that moment count
    /// once or not at all, and that sums never go down.
    #[test]
    fn moments() {
        let all =
            |of: &[(u32, Pending)]| -> Threads { of.iter().map(|(tid, it)| ((*tid, 1), *it)).collect() };
        let mut reported = Reported::default();
        let mut reading = |counted: u64, before: Threads, after: Threads| {
            let other = StreamSums { context: 7, stream: OTHERS, ..StreamSums::default() };
            let row = StreamSums { launches: counted, ..other };
            let mut streams = BTreeMap::from([(1, vec![row])]);
            reported.complete(&mut streams, &before, &after);
            streams[&1][0].launches
        };
        let two = [(1, pending(0, 10)), (2, pending(2, 5))];
        assert_eq!(reading(100, all(&two), all(&two)), 115);
        // The first one adds its own, before or after the streams were read.
        assert_eq!(reading(100, all(&two), all(&[(1, pending(1, 10)), (2, pending(2, 6))])), 115);
        assert_eq!(reading(110, all(&two), all(&[(1, pending(2, 3)), (2, pending(2, 6))])), 116);
        // A new one, and one that ended.
        assert_eq!(reading(110, all(&two), all(&[(2, pending(2, 6)), (3, pending(0, 4))])), 120);
    }
}
