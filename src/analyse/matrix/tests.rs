//! Tests of cells and rows.

use super::*;
use crate::model::{AllocationSource, CellState, Membership, Owner, OwnerKind, Severity};
use crate::report::{
    Activity, Cgroup, FindingDevice, GpuSet, MigInstance, NodeAnswer, OwnerActivity, Process, Work,
};

const A: &str = "GPU-a";

fn set(gpus: &[&str]) -> GpuSet {
    GpuSet { gpus: Some(gpus.iter().map(|key| (*key).into()).collect()), ..GpuSet::default() }
}

fn by(source: AllocationSource, gpus: &[&str]) -> GpuSet {
    GpuSet { source: Some(source), ..set(gpus) }
}

fn owner(id: u64) -> Owner {
    Owner { kind: OwnerKind::Slurm, job_id: Some(id), ..Owner::default() }
}

fn sets(allocated: GpuSet, allowed: &[&str], visible: &[&str], held: &[&str]) -> OwnerSets {
    OwnerSets {
        owner: owner(1),
        allocated,
        allowed: set(allowed),
        visible: set(visible),
        held: set(held),
        ..OwnerSets::default()
    }
}

fn node(owners: Vec<OwnerSets>) -> NodeAnswer {
    let gpu = Gpu { key: A.into(), ..Gpu::default() };
    NodeAnswer { gpus: vec![gpu], owners: Some(owners), ..NodeAnswer::default() }
}

fn only_cell(sets: OwnerSets) -> crate::report::MatrixCell {
    matrix(&node(vec![sets]), &[], true).rows[0].cells[0]
}

/// Make sure that every combination of the sets has its own word, and that only a
/// source that nobody can fake makes a contradiction.
#[test]
fn states() {
    let (hook, claim) = (AllocationSource::Hook, AllocationSource::Claimed);
    let (yes, no): (&[&str], &[&str]) = (&[A], &[]);
    let nothing = GpuSet::default;
    for (allocated, allowed, visible, held, expected) in [
        (nothing(), no, no, no, CellState::Nothing),
        (nothing(), yes, no, no, CellState::Allowed),
        (nothing(), yes, yes, no, CellState::Asked),
        (nothing(), yes, yes, yes, CellState::Held),
        (by(hook.clone(), yes), yes, no, no, CellState::Granted),
        (by(hook.clone(), yes), yes, yes, no, CellState::GrantedAsked),
        (by(hook.clone(), yes), yes, yes, yes, CellState::GrantedHeld),
        (by(hook.clone(), yes), no, no, no, CellState::Lost),
        (by(hook.clone(), no), yes, yes, no, CellState::Beyond),
        (by(hook, no), yes, no, yes, CellState::BeyondHeld),
        (by(claim.clone(), yes), no, no, no, CellState::Claimed),
        (by(claim.clone(), yes), yes, no, no, CellState::Allowed),
        (by(claim, no), yes, yes, yes, CellState::Held),
    ] {
        let cell = only_cell(sets(allocated, allowed, visible, held));
        assert_eq!(cell.state, expected, "{cell:?}");
        assert!(!cell.is_unsure(), "{cell:?}");
    }
    let denied = OwnerSets { held_denied: vec![A.into()], ..sets(nothing(), no, no, yes) };
    assert_eq!(only_cell(denied).state, CellState::HeldDenied);
}

/// Make sure that what is not known is never taken for a no, and shows.
#[test]
fn unknown() {
    let blank = OwnerSets { owner: owner(1), ..OwnerSets::default() };
    let cell = only_cell(blank);
    assert_eq!((cell.state, cell.is_unsure()), (CellState::Unknown, true));
    assert_eq!(cell.held, Membership::Unknown);
    let mut maybe = sets(GpuSet::default(), &[A], &[], &[]);
    maybe.held.unknown = vec![A.into()];
    let cell = only_cell(maybe);
    assert_eq!((cell.state, cell.is_unsure(), cell.held), (CellState::Allowed, true, Membership::Unknown));
    // What a process that may not open it asks for cannot matter.
    let mut denied = sets(GpuSet::default(), &[], &[], &[]);
    denied.visible = GpuSet::default();
    assert!(!only_cell(denied).is_unsure());
}

/// Make sure that an instance has a column of its own, and that a GPU which was
/// allocated as a whole says nothing of its instances.
#[test]
fn instances() {
    let mig = MigInstance { gi: 1, ci: Some(0), ..MigInstance::default() };
    let gpu = Gpu { key: A.into(), mig: vec![mig], ..Gpu::default() };
    let mut its = sets(by(AllocationSource::Hook, &[A]), &[A], &[A], &[A]);
    its.allowed.instances = vec!["GPU-a/1/0".into()];
    its.held.instances = vec!["GPU-a/1/0".into()];
    let payload = NodeAnswer { gpus: vec![gpu], owners: Some(vec![its]), ..NodeAnswer::default() };
    let matrix = matrix(&payload, &[], true);
    assert_eq!(matrix.columns, [A, "GPU-a/1/0"]);
    let cell = matrix.rows[0].cells[1];
    assert_eq!(
        (cell.allocated, cell.asked, cell.state),
        (Membership::Unknown, Membership::No, CellState::Held)
    );
}

/// Make sure that processes stand below their innermost owner, with their users, and
/// that a scheduler's own do not.
#[test]
fn members() {
    let process = |pid, user: &str| Process { pid, user: Some(user.into()), ..Process::default() };
    let step = Owner { step: Some("0".into()), ..owner(1) };
    let daemon = Owner { part: Some(crate::model::OwnerPart::Slurm), ..step.clone() };
    let cgroup =
        |owner: &Owner, processes| Cgroup { owner: Some(owner.clone()), processes, ..Cgroup::default() };
    let cgroups = vec![
        cgroup(&step, vec![process(7, "bob"), process(8, "alice")]),
        cgroup(&daemon, vec![process(9, "root")]),
    ];
    let job = sets(GpuSet::default(), &[A], &[], &[]);
    let inner = OwnerSets { owner: step, depth: 1, ..job.clone() };
    let payload = NodeAnswer { cgroups, ..node(vec![job, inner]) };
    let matrix = matrix(&payload, &[], false);
    let depths: Vec<usize> = matrix.rows.iter().map(|row| row.depth).collect();
    assert_eq!(depths, [0, 1, 2, 2]);
    assert_eq!(matrix.rows[0].users, ["alice", "bob"]);
    assert_eq!(matrix.rows[2].process.as_ref().map(|process| process.pid), Some(7));
}

/// Make sure that a finding marks its owner, all owners around it, and the GPU that it
/// is about; and that one that is accepted marks nothing.
#[test]
fn findings() {
    let device = FindingDevice { gpu: Some(A.into()), ..FindingDevice::default() };
    let step = Owner { step: Some("0".into()), ..owner(1) };
    let finding = |severity, ignored: Option<&str>| Finding {
        severity,
        owner: Some(step.clone()),
        devices: vec![device.clone()],
        ignored: ignored.map(str::to_owned),
        ..Finding::default()
    };
    let job = || node(vec![sets(GpuSet::default(), &[A], &[], &[])]);
    let row = matrix(&job(), &[finding(Severity::Warning, None)], true).rows.remove(0);
    assert_eq!((row.finding, row.cells[0].finding), (Some(Severity::Warning), Some(Severity::Warning)));
    let row = matrix(&job(), &[finding(Severity::Critical, Some("meant so"))], true).rows.remove(0);
    assert_eq!((row.finding, row.cells[0].finding), (None, None));
}

/// Make sure that rates are those between two readings, stay while no new one comes,
/// and are not made up where there was no reading before.
#[test]
fn rates() {
    let at = |at: &str, launches| {
        let counts = Work { launches, ..Work::default() };
        let its = OwnerActivity { owner: Some(owner(1)), counts, ..OwnerActivity::default() };
        let activity = Activity { at: at.into(), owners: vec![its], ..Activity::default() };
        let payload = node(vec![sets(GpuSet::default(), &[A], &[], &[])]);
        matrix(&NodeAnswer { activity: Some(Box::new(activity)), ..payload }, &[], true)
    };
    let rate = |matrix: &Matrix| matrix.rows[0].activity.unwrap().launches_per_second;
    let first = at("2026-11-23T10:00:00Z", 100);
    assert_eq!(rate(&first), None);
    let mut second = at("2026-11-23T10:00:02Z", 300);
    add_rates(&mut second, &first);
    assert_eq!(rate(&second), Some(100.0));
    let mut same = at("2026-11-23T10:00:02Z", 300);
    add_rates(&mut same, &second);
    assert_eq!(rate(&same), Some(100.0));
    // Counting began anew.
    let mut less = at("2026-11-23T10:00:04Z", 10);
    add_rates(&mut less, &same);
    assert_eq!(rate(&less), None);
}

/// Make sure that services are left out unless they are asked for or hold a GPU, and
/// that those are counted apart whose GPUs nobody saw.
#[test]
fn left_out() {
    let unit = |held: GpuSet| OwnerSets {
        owner: Owner { kind: OwnerKind::Unit, ..Owner::default() },
        held,
        ..sets(GpuSet::default(), &[A], &[], &[])
    };
    let payload = node(vec![unit(set(&[])), unit(set(&[A])), unit(GpuSet::default())]);
    let shown = matrix(&payload, &[], false);
    assert_eq!((shown.rows.len(), shown.left_out, shown.left_out_unseen), (1, 1, 1));
    assert_eq!(matrix(&payload, &[], true).rows.len(), 3);
}
