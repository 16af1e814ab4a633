//! What makes an answer incomplete, and with that the exit code 3: something in it is
//! unknown that could be known. The other reason is a problem among its `errors`.
//!
//! `explain`, `check` and `watch` answer one question each and look at its verdict by
//! themselves.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::{CheckState, JobEvidence, RepairState, ValueState, Verdict};
use crate::report::{
    ActivityAnswer, AuditAnswer, Change, CompactAnswer, DiffAnswer, DoctorAnswer, ExplainAnswer, FleetAnswer,
    FreeAnswer, GpuSet, JobsAnswer, JournalsAnswer, KindsAnswer, Leftover, LeftoversAnswer, MatrixAnswer,
    NodeAnswer, NodeDiff, Nothing, OwnerSets, PageAnswer, Policy, Process, ProgramsAnswer, RegionAnswer,
    RepairAnswer, RepairsAnswer, VgpuAnswer,
};

/// The unknown parts, a few words each.
pub fn unknown_parts(payload: &NodeAnswer) -> Vec<&'static str> {
    let parts = [
        (has_unknown_verdict(payload), "what some cgroups may open"),
        (has_unknown_process(payload), "what some processes ask for or hold"),
        (has_unknown_set(payload), "which GPUs some owners may open or hold"),
    ];
    parts.into_iter().filter(|(is_unknown, _)| *is_unknown).map(|(_, what)| what).collect()
}

/// What a command answers.
pub trait CommandAnswer: Serialize {
    /// Whether something that can be known is not.
    fn has_unknown(&self) -> bool {
        false
    }

    /// Its policies: of those without a short form, not all rules are listed.
    fn policies(&self) -> Option<&BTreeMap<String, Policy>> {
        None
    }
}

impl CommandAnswer for NodeAnswer {
    /// An allocation cannot be known outside of Slurm's hooks, so that it is unknown leaves
    /// nothing out.
    fn has_unknown(&self) -> bool {
        has_unknown_verdict(self) || has_unknown_process(self) || has_unknown_set(self)
    }

    fn policies(&self) -> Option<&BTreeMap<String, Policy>> {
        Some(&self.policies)
    }
}

impl CommandAnswer for AuditAnswer {
    fn has_unknown(&self) -> bool {
        self.audit.unknown
    }
}

impl CommandAnswer for ProgramsAnswer {
    fn has_unknown(&self) -> bool {
        self.policies.values().any(is_unknown)
    }

    fn policies(&self) -> Option<&BTreeMap<String, Policy>> {
        Some(&self.policies)
    }
}

impl CommandAnswer for LeftoversAnswer {
    fn has_unknown(&self) -> bool {
        let is_unknown = |it: &Leftover| it.belongs_by == JobEvidence::Unknown || is_unseen(&it.process);
        self.leftovers.iter().any(is_unknown)
    }
}

impl CommandAnswer for ExplainAnswer {
    fn has_unknown(&self) -> bool {
        self.proof.verdict == Verdict::Unknown
    }
}

impl CommandAnswer for VgpuAnswer {
    fn has_unknown(&self) -> bool {
        self.processes.iter().any(has_unknown_limit)
    }
}

impl CommandAnswer for RepairAnswer {
    fn has_unknown(&self) -> bool {
        self.repair.state == RepairState::Unknown
    }
}

impl CommandAnswer for RepairsAnswer {
    fn has_unknown(&self) -> bool {
        self.repairs.iter().any(|repair| repair.state == RepairState::Unknown)
    }
}

impl CommandAnswer for DoctorAnswer {
    fn has_unknown(&self) -> bool {
        self.doctor.iter().any(|check| check.state == CheckState::Unknown)
    }
}

impl CommandAnswer for DiffAnswer {
    fn has_unknown(&self) -> bool {
        let node = self.diff.node.as_ref();
        self.diff.unknown
            || self.diff.changes.iter().any(is_of_unknown)
            || node.is_some_and(is_unknown_change)
    }
}

impl CommandAnswer for FleetAnswer {
    fn has_unknown(&self) -> bool {
        self.fleet.is_incomplete()
    }
}

impl CommandAnswer for ActivityAnswer {}
impl CommandAnswer for CompactAnswer {}
impl CommandAnswer for FreeAnswer {}
impl CommandAnswer for JobsAnswer {}
impl CommandAnswer for JournalsAnswer {}
impl CommandAnswer for KindsAnswer {}
impl CommandAnswer for MatrixAnswer {}
impl CommandAnswer for Nothing {}
impl CommandAnswer for PageAnswer {}
impl CommandAnswer for RegionAnswer {}

fn has_unknown_process(payload: &NodeAnswer) -> bool {
    let mut cgroups = payload.cgroups.iter();
    cgroups.any(|cgroup| cgroup.unseen.is_some() || cgroup.processes.iter().any(is_unseen))
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

fn has_unknown_set(payload: &NodeAnswer) -> bool {
    let sets = |owner: &OwnerSets| is_unknown_set(&owner.allowed) || is_unknown_set(&owner.held);
    payload.owners.iter().flatten().any(sets)
}

fn is_unknown_set(set: &GpuSet) -> bool {
    set.gpus.is_none() || !set.unknown.is_empty()
}

fn has_unknown_verdict(payload: &NodeAnswer) -> bool {
    let mut cgroups = payload.cgroups.iter().flat_map(|cgroup| &cgroup.gpus);
    payload.policies.values().any(is_unknown) || cgroups.any(|gpu| gpu.verdict == Verdict::Unknown)
}

fn is_unknown_change(node: &NodeDiff) -> bool {
    node.gpus.iter().any(|owner| !owner.unknown.is_empty())
        || node.policies.iter().flat_map(|policy| &policy.changes).any(is_of_unknown)
}

fn is_of_unknown(change: &Change) -> bool {
    [change.from, change.to].contains(&Verdict::Unknown)
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

    fn owner(allocated: GpuSet, allowed: GpuSet, held: GpuSet) -> NodeAnswer {
        let sets = OwnerSets { allocated, allowed, held, ..OwnerSets::default() };
        NodeAnswer { owners: Some(vec![sets]), ..NodeAnswer::default() }
    }

    fn process(at_exec: ValueState, live: ValueState, held_unknown: Option<&str>) -> NodeAnswer {
        let asked = |state| Asked { state, ..Asked::default() };
        let visible = Visible { at_exec: asked(at_exec), live: asked(live), ..Visible::default() };
        let held_unknown = held_unknown.map(str::to_owned);
        let process = Process { visible: Some(visible), held_unknown, ..Process::default() };
        let cgroup = Cgroup { processes: vec![process], ..Cgroup::default() };
        NodeAnswer { cgroups: vec![cgroup], ..NodeAnswer::default() }
    }

    /// Make sure that an allocation may be unknown and the other sets may not.
    #[test]
    fn unknown_sets() {
        let maybe = || GpuSet { unknown: vec!["GPU-1".into()], ..known() };
        assert!(!owner(GpuSet::default(), known(), known()).has_unknown());
        assert!(!owner(maybe(), known(), known()).has_unknown());
        assert!(owner(known(), GpuSet::default(), known()).has_unknown());
        assert!(owner(known(), known(), maybe()).has_unknown());
    }

    /// Make sure that one readable environment is enough, and that descriptors
    /// have to be seen.
    #[test]
    fn unknown_processes() {
        assert!(!process(ValueState::Value, ValueState::Unknown, None).has_unknown());
        assert!(!process(ValueState::Unknown, ValueState::Unset, None).has_unknown());
        assert!(process(ValueState::Unknown, ValueState::Unknown, None).has_unknown());
        assert!(process(ValueState::Unset, ValueState::Unset, Some("no right")).has_unknown());
        let mut ended = process(ValueState::Unknown, ValueState::Unknown, None);
        ended.cgroups.iter_mut().flat_map(|one| &mut one.processes).for_each(|one| {
            one.state = Some(crate::model::ProcessState::Zombie);
        });
        assert!(!ended.has_unknown());
    }
}
