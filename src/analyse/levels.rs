//! Lists the owners that a cgroup belongs to, from the outside in: a task's cgroup
//! also belongs to its step and its job, a container's to its pod.

use crate::model::{CgroupPath, Owner, OwnerKind};

/// An owner for each level, the outermost first; empty for cgroups of a scheduler
/// itself. A cgroup without a known owner is its own owner, by its `path`.
pub(super) fn of(owner: Option<&Owner>, path: &str) -> Vec<Owner> {
    match owner {
        Some(owner) => {
            let mut levels = Vec::new();
            push(owner, &mut levels);
            claims(owner, &mut levels);
            levels
        }
        None => {
            let name = Some(path.to_owned());
            vec![Owner { kind: OwnerKind::Cgroup, name, ..Owner::default() }]
        }
    }
}

/// Whether a cgroup is the scheduler's or runtime's own (`slurmstepd`, a
/// container's monitor), so that what it may do says nothing of the owner.
pub(super) fn is_service(owner: Option<&Owner>) -> bool {
    owner.is_some_and(|owner| owner.part.is_some())
}

/// Whether an owner got its GPUs from a scheduler whose environment tells
/// them: a job, or a step of one.
pub(super) fn is_job(owner: &Owner) -> bool {
    is_scheduled(owner) && owner.step.is_none() && owner.task.is_none()
}

/// Whether a cgroup of a job with programs of its own is none of those that Slurm makes:
/// it attaches programs to the cgroups of jobs and tasks, and to the `user` of steps.
pub(super) fn may_have_inner(owner: &Owner, path: CgroupPath<'_>) -> bool {
    is_scheduled(owner) && owner.part.is_none() && path.name() != b"user"
}

/// Whether an owner is a step of a job.
pub(super) fn is_step(owner: &Owner) -> bool {
    is_scheduled(owner) && owner.step.is_some() && owner.task.is_none()
}

/// Whether an owner is a task of a step.
pub(super) fn is_task(owner: &Owner) -> bool {
    is_scheduled(owner) && owner.task.is_some()
}

fn is_scheduled(owner: &Owner) -> bool {
    owner.kind.is_slurm() && has_job(owner) && owner.claims.is_empty()
}

fn has_job(owner: &Owner) -> bool {
    owner.job_id.is_some() || owner.sluid.is_some() || owner.job.is_some()
}

/// Adds the levels of each claim, so that parts of an owner can be distinguished:
/// a job of a Slurm inside a container, its step and its task. They still belong to
/// the owner.
fn claims(owner: &Owner, levels: &mut Vec<Owner>) {
    let Some(identity) = levels.last().cloned() else { return };
    for (at, claim) in owner.claims.iter().enumerate() {
        let before = owner.claims.get(..at).unwrap_or_default();
        let mut inner = Vec::new();
        push(claim, &mut inner);
        let claimed = |claim| Owner { claims: [before, &[claim]].concat(), ..identity.clone() };
        levels.extend(inner.into_iter().map(claimed));
    }
}

fn push(owner: &Owner, levels: &mut Vec<Owner>) {
    if let Some(outer) = &owner.outer {
        push(outer, levels);
    }
    let whole = Owner { part: None, ..owner.identity() };
    let has_parts = owner.step.is_some() || owner.task.is_some();
    let takes_steps = has_parts || owner.kind.is_slurm() || owner.kind == OwnerKind::Crane;
    if !takes_steps {
        // A container of which the path tells only the pod.
        let in_pod = owner.kind == OwnerKind::Pod && owner.container.is_some();
        levels.extend(in_pod.then(|| Owner { container: None, ..whole.clone() }));
        return levels.push(whole);
    }
    if !has_job(owner) {
        return;
    }
    let job = Owner { step: None, het_component: None, task: None, ..whole.clone() };
    let step = Owner { task: None, ..whole.clone() };
    levels.push(job);
    levels.extend(owner.step.is_some().then_some(step));
    levels.extend(owner.task.is_some().then_some(whole));
}
