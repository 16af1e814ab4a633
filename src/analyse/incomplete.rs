//! What makes an answer incomplete, and with that the exit code 3: something in it is
//! unknown that could be known. The other reason is a problem among its `errors`.
//!
//! `explain`, `check` and `watch` answer one question each and look at its verdict by
//! themselves.

use crate::model::{CheckState, JobEvidence, RepairState, ValueState, Verdict, Verdicts};
use crate::report::{GpuSet, NodeDiff, OwnerSets, Payload, Policy, Process};

/// The unknown parts, a few words each.
pub fn unknown_parts(payload: &Payload) -> Vec<&'static str> {
    let parts = [
        (has_unknown_verdict(payload), "what some cgroups may open"),
        (has_unknown_process(payload), "what some processes ask for or hold"),
        (has_unknown_set(payload), "which GPUs some owners may open or hold"),
    ];
    parts.into_iter().filter(|(is_unknown, _)| *is_unknown).map(|(_, what)| what).collect()
}

/// Whether something that can be known is not. An allocation cannot be known outside of
/// Slurm's hooks, so that it is unknown leaves nothing out.
pub fn has_unknown(payload: &Payload) -> bool {
    has_unknown_verdict(payload)
        || has_unknown_process(payload)
        || has_unknown_set(payload)
        || payload.doctor.iter().flatten().any(|check| check.state == CheckState::Unknown)
        || payload.audit.as_ref().is_some_and(|audit| audit.unknown)
        || payload.repair.as_ref().is_some_and(|repair| repair.state == RepairState::Unknown)
        || payload.processes.iter().flatten().any(has_unknown_limit)
        || payload.fleet.as_ref().is_some_and(|fleet| fleet.is_incomplete())
}

fn has_unknown_process(payload: &Payload) -> bool {
    if payload.cgroups.iter().flatten().any(|cgroup| cgroup.unseen.is_some()) {
        return true;
    }
    let cgroups = payload.cgroups.iter().flatten().flat_map(|cgroup| &cgroup.processes);
    let leftovers = payload.leftovers.iter().flatten();
    leftovers.clone().any(|leftover| leftover.belongs_by == JobEvidence::Unknown)
        || cgroups.chain(leftovers.map(|leftover| &leftover.process)).any(is_unseen)
}

/// Whether a process could not be looked into. An environment in memory that cannot
/// be found is normal (static programs have none in the usual place), and so is a
/// value whose meaning no document settles: both are only mentioned. A process that
/// has ended has no environment, so nothing is missing.
fn is_unseen(process: &Process) -> bool {
    let visible = process.visible.as_ref();
    let asks = visible
        .is_some_and(|it| it.live.state == ValueState::Unknown && it.at_exec.state == ValueState::Unknown);
    (asks && !process.has_ended()) || process.held_unknown.is_some()
}

/// Whether limits of a process are unknown that may use a GPU.
fn has_unknown_limit(process: &Process) -> bool {
    process.vgpu.as_ref().is_some_and(|limits| limits.is_unknown() && limits.may_use_gpu())
}

fn has_unknown_set(payload: &Payload) -> bool {
    let sets = |owner: &OwnerSets| is_unknown_set(&owner.allowed) || is_unknown_set(&owner.held);
    payload.owners.iter().flatten().any(sets)
}

fn is_unknown_set(set: &GpuSet) -> bool {
    set.gpus.is_none() || !set.unknown.is_empty()
}

fn has_unknown_verdict(payload: &Payload) -> bool {
    let mut cgroups = payload.cgroups.iter().flatten().flat_map(|cgroup| &cgroup.gpus);
    let mut checks = payload.checks.iter().flatten();
    let changes = payload.diff.iter().flat_map(|diff| &diff.changes);
    payload.policies.iter().flatten().any(|(_, policy)| is_unknown(policy))
        || cgroups.any(|gpu| gpu.verdict == Verdict::Unknown)
        || checks.any(|check| check.verdict == Verdicts::Unknown)
        || payload.proof.iter().any(|proof| proof.verdict == Verdict::Unknown)
        || payload.diff.iter().any(|diff| diff.unknown)
        || payload.diff.iter().filter_map(|diff| diff.node.as_ref()).any(is_unknown_change)
        || changes.flat_map(|change| [change.from, change.to]).any(|verdict| verdict == Verdict::Unknown)
}

fn is_unknown_change(node: &NodeDiff) -> bool {
    let changes = node.policies.iter().flat_map(|policy| &policy.changes);
    node.gpus.iter().any(|owner| !owner.unknown.is_empty())
        || changes.flat_map(|change| [change.from, change.to]).any(|verdict| verdict == Verdict::Unknown)
}

fn is_unknown(policy: &Policy) -> bool {
    policy.default == Verdict::Unknown || !policy.unknown.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Asked, Cgroup, Visible};

    fn known() -> GpuSet {
        GpuSet { gpus: Some(Vec::new()), ..GpuSet::default() }
    }

    fn owner(allocated: GpuSet, allowed: GpuSet, held: GpuSet) -> Payload {
        let sets = OwnerSets { allocated, allowed, held, ..OwnerSets::default() };
        Payload { owners: Some(vec![sets]), ..Payload::default() }
    }

    fn process(at_exec: ValueState, live: ValueState, held_unknown: Option<&str>) -> Payload {
        let asked = |state| Asked { state, ..Asked::default() };
        let visible = Visible { at_exec: asked(at_exec), live: asked(live), ..Visible::default() };
        let held_unknown = held_unknown.map(str::to_owned);
        let process = Process { visible: Some(visible), held_unknown, ..Process::default() };
        let cgroup = Cgroup { processes: vec![process], ..Cgroup::default() };
        Payload { cgroups: Some(vec![cgroup]), ..Payload::default() }
    }

    /// Make sure that an allocation may be unknown and the other sets may not.
    #[test]
    fn unknown_sets() {
        let maybe = || GpuSet { unknown: vec!["GPU-1".into()], ..known() };
        assert!(!has_unknown(&owner(GpuSet::default(), known(), known())));
        assert!(!has_unknown(&owner(maybe(), known(), known())));
        assert!(has_unknown(&owner(known(), GpuSet::default(), known())));
        assert!(has_unknown(&owner(known(), known(), maybe())));
    }

    /// Make sure that one readable environment is enough, and that descriptors
    /// have to be seen.
    #[test]
    fn unknown_processes() {
        assert!(!has_unknown(&process(ValueState::Value, ValueState::Unknown, None)));
        assert!(!has_unknown(&process(ValueState::Unknown, ValueState::Unset, None)));
        assert!(has_unknown(&process(ValueState::Unknown, ValueState::Unknown, None)));
        assert!(has_unknown(&process(ValueState::Unset, ValueState::Unset, Some("no right"))));
        let mut ended = process(ValueState::Unknown, ValueState::Unknown, None);
        ended.cgroups.iter_mut().flatten().flat_map(|one| &mut one.processes).for_each(|one| {
            one.state = Some(crate::model::ProcessState::Zombie);
        });
        assert!(!has_unknown(&ended));
    }
}
