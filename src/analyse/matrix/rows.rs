//! What a row of the matrix is about: the processes of an owner, the findings about it,
//! the limits of its processes under HAMi-core's libvgpu.so or SoftMig, and what it does
//! with its GPUs, how much of it in a second.

use std::collections::{BTreeSet, HashMap};

use crate::analyse::levels;
use crate::model::{Owner, Severity};
use crate::report::{
    ActiveProcess, Activity, Cgroup, Finding, GpuUse, Matrix, MatrixActivity, MatrixLimit, MatrixProcess,
    NodeAnswer, OwnerSets, Process, RowKey, VgpuDevice,
};

/// A process and its cgroup.
type Member<'a> = (&'a Cgroup, &'a Process);

/// The processes by owner: without those of the scheduler itself, which say nothing of
/// what its jobs do.
#[derive(Debug, Default)]
pub(super) struct Members<'a> {
    /// By the innermost owner.
    direct: HashMap<Owner, Vec<Member<'a>>>,
    /// By each owner around them.
    all: HashMap<Owner, Vec<&'a Process>>,
}

impl<'a> Members<'a> {
    /// The processes of an answer of `node`.
    pub(super) fn of(payload: &'a NodeAnswer) -> Self {
        let mut members = Self::default();
        for cgroup in payload.cgroups.iter() {
            if cgroup.processes.is_empty() || levels::is_service(cgroup.owner.as_ref()) {
                continue;
            }
            let levels = levels::of(cgroup.owner.as_ref(), &cgroup.path);
            for owner in &levels {
                members.all.entry(owner.clone()).or_default().extend(&cgroup.processes);
            }
            if let Some(owner) = levels.into_iter().next_back() {
                let its = cgroup.processes.iter().map(|process| (cgroup, process));
                members.direct.entry(owner).or_default().extend(its);
            }
        }
        members
    }

    /// All processes of an owner.
    pub(super) fn within(&self, sets: &OwnerSets) -> Vec<&'a Process> {
        self.all.get(&sets.owner).cloned().unwrap_or_default()
    }

    /// Those of them that are in no owner inside it.
    pub(super) fn directly(&self, sets: &OwnerSets) -> &[Member<'a>] {
        self.direct.get(&sets.owner).map(Vec::as_slice).unwrap_or_default()
    }
}

/// The name of a process's user, else the uid.
pub(super) fn user(process: &Process) -> String {
    process.user.clone().unwrap_or_else(|| process.uid.to_string())
}

/// What the matrix says of a process.
pub(super) fn process(process: &Process) -> MatrixProcess {
    MatrixProcess {
        pid: process.pid,
        start_time: process.start_time,
        uid: process.uid,
        comm: process.comm.clone(),
        comm_hex: process.comm_hex.clone(),
        state: process.state.clone(),
        age_seconds: process.age_seconds,
    }
}

/// The findings of an audit that count, to be found.
#[derive(Debug, Default)]
pub(in crate::analyse) struct Severities<'a> {
    by_owner: HashMap<Owner, Vec<&'a Finding>>,
    by_process: HashMap<(u32, u64), Vec<&'a Finding>>,
}

impl<'a> Severities<'a> {
    /// Those of these findings that the configuration does not accept.
    pub(in crate::analyse) fn of(findings: &'a [Finding]) -> Self {
        let mut severities = Self::default();
        for finding in findings.iter().filter(|finding| finding.ignored.is_none()) {
            for owner in finding.owner.iter().chain(&finding.others).flat_map(around) {
                severities.by_owner.entry(owner).or_default().push(finding);
            }
            for process in &finding.processes {
                severities.by_process.entry((process.pid, process.start_time)).or_default().push(finding);
            }
        }
        severities
    }

    /// Those about an owner, or about something inside it.
    pub(in crate::analyse) fn about_owner(&self, sets: &OwnerSets) -> Vec<&'a Finding> {
        self.by_owner.get(&sets.owner).cloned().unwrap_or_default()
    }

    /// Those about a process.
    pub(super) fn about_process(&self, process: &Process) -> Vec<&'a Finding> {
        self.by_process.get(&(process.pid, process.start_time)).cloned().unwrap_or_default()
    }
}

/// An owner with those around it.
fn around(owner: &Owner) -> Vec<Owner> {
    crate::analyse::levels::of(Some(owner), "")
}

/// The worst severity of some findings: of those about a GPU or an instance, or of all.
pub(in crate::analyse) fn worst(findings: &[&Finding], column: Option<&str>) -> Option<Severity> {
    let is_about = |finding: &&&Finding| match column {
        None => true,
        Some(key) => finding.devices.iter().any(|device| device.gpu.as_deref() == Some(key)),
    };
    findings.iter().filter(is_about).map(|finding| finding.severity).max()
}

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
