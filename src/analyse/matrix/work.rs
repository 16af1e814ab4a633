//! What rows do with their GPUs, and how much of it in a second.

use std::collections::HashMap;

use crate::model::Owner;
use crate::report::{ActiveProcess, Activity, GpuUse, Matrix, MatrixActivity, Process, RowKey};

/// The activity of a node, to be found.
#[derive(Debug, Default)]
pub(in crate::analyse) struct Works<'a> {
    owners: HashMap<&'a Owner, MatrixActivity>,
    processes: HashMap<(u32, u64), MatrixActivity>,
}

impl<'a> Works<'a> {
    /// What is known of it.
    pub(in crate::analyse) fn of(activity: Option<&'a Activity>) -> Self {
        let Some(activity) = activity else { return Self::default() };
        let owner = |one: &'a crate::report::OwnerActivity| {
            let work = MatrixActivity {
                launches: one.counts.launches.saturating_add(one.counts.graph_launches),
                copied_bytes: one.counts.copied_bytes(),
                memory_bytes: one.memory.now_bytes,
                idle_seconds: one.idle_seconds.filter(|_| one.lost.is_empty()),
                waiting_seconds: one.waiting_seconds,
                partial: !one.lost.is_empty(),
                ..MatrixActivity::default()
            };
            Some((one.owner.as_ref()?, work))
        };
        let processes = activity.processes.iter().map(|one| ((one.pid, one.start_time), of_process(one)));
        Self { owners: activity.owners.iter().filter_map(owner).collect(), processes: processes.collect() }
    }

    /// What a whole owner does.
    pub(in crate::analyse) fn of_owner(&self, owner: &Owner) -> Option<MatrixActivity> {
        self.owners.get(owner).copied()
    }

    /// What a process does.
    pub(super) fn of_process(&self, process: &Process) -> Option<MatrixActivity> {
        self.processes.get(&(process.pid, process.start_time)).copied()
    }
}

/// What a process does on all GPUs.
fn of_process(process: &ActiveProcess) -> MatrixActivity {
    let uses = &process.gpus;
    let partial = !process.lost.is_empty();
    let idle = uses.iter().filter_map(|one| one.idle_seconds).min_by(f64::total_cmp);
    let sum = |of: &dyn Fn(&GpuUse) -> u64| uses.iter().map(of).fold(0, u64::saturating_add);
    MatrixActivity {
        launches: sum(&|one| one.counts.launches.saturating_add(one.counts.graph_launches)),
        copied_bytes: sum(&|one| one.counts.copied_bytes()),
        memory_bytes: sum(&|one| one.memory.now_bytes),
        idle_seconds: idle.filter(|_| !partial),
        waiting_seconds: uses.iter().filter_map(|one| one.waiting_seconds).max_by(f64::total_cmp),
        partial,
        ..MatrixActivity::default()
    }
}

/// Adds what rows did in a second, since the counts of an earlier moment. Where the
/// counts are the same as then, the rates are, too.
pub fn add_rates(matrix: &mut Matrix, earlier: &Matrix) {
    let counted = matrix.counted_at.as_ref().zip(earlier.counted_at.as_ref());
    let Some(seconds) = counted.and_then(|(now, then)| now.since(then)) else { return };
    let seconds = seconds.as_secs_f64();
    let known = earlier.rows.iter().filter_map(|row| Some((row.key(), row.activity?)));
    let known: HashMap<RowKey, MatrixActivity> = known.collect();
    for row in &mut matrix.rows {
        let before = known.get(&row.key()).copied();
        if let Some((activity, before)) = row.activity.as_mut().zip(before) {
            rate(activity, &before, seconds);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "two digits of a rate are shown")]
fn rate(activity: &mut MatrixActivity, before: &MatrixActivity, seconds: f64) {
    if seconds <= 0.0 {
        activity.launches_per_second = before.launches_per_second;
        activity.copied_bytes_per_second = before.copied_bytes_per_second;
        return;
    }
    let per_second = |now: u64, then: u64| now.checked_sub(then).map(|more| more as f64 / seconds);
    activity.launches_per_second = per_second(activity.launches, before.launches);
    activity.copied_bytes_per_second = per_second(activity.copied_bytes, before.copied_bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CountTable;

    /// Make sure that of a process whose calls found no room numbers are marked, and that it
    /// is not said to be idle.
    #[test]
    fn calls_without_room() {
        let gpus = vec![GpuUse { idle_seconds: Some(7200.0), ..GpuUse::default() }];
        let whole = ActiveProcess { gpus, ..ActiveProcess::default() };
        let lossy = ActiveProcess { lost: vec![CountTable::Streams], ..whole.clone() };
        let of = of_process;
        assert_eq!((of(&whole).partial, of(&whole).idle_seconds), (false, Some(7200.0)));
        assert_eq!((of(&lossy).partial, of(&lossy).idle_seconds), (true, None));
    }
}
