//! Recognises Slurm's jobs, by the layouts of its two cgroup plugins: the path of a
//! job, a step or a task is parsed here.

use super::path_name::{Match, PathName, number, numbered, text, uid};
use super::sluid;
use crate::model::{JobIdSource, Owner, OwnerKind, OwnerPart};

/// The scope that Slurm's cgroup/v2 plugin makes; `NODE_` comes before it in
/// builds with several slurmd on one host. Nothing else tells Slurm's `job_N`
/// from other schedulers' (src/plugins/cgroup/v2/cgroup_v2.c).
const SCOPE: &[u8] = b"slurmstepd.scope";
/// Steps without a number (`log_build_step_id_str` in src/common/log.c).
pub(super) const STEPS: [&str; 5] = ["batch", "extern", "interactive", "TBD", "TDB"];

/// `[NODE_]slurmstepd.scope/{job_N|SLUID}/step_S/{slurm|user/task_T}`, in
/// whatever slice.
pub(super) fn v2(place: PathName<'_, '_>) -> Option<Match> {
    let node = scope(place.name())?;
    let mut owner = Owner { node, ..PathName::owner(OwnerKind::Slurm) };
    let Some(name) = place.ahead(1) else { return Match::plain(owner, 1) };
    owner.part = match name {
        b"system" => Some(OwnerPart::System),
        b"slurmd" => Some(OwnerPart::Slurmd),
        _ => None,
    };
    if owner.part.is_some() {
        return Match::plain(owner, 2);
    }
    if !job(&mut owner, name) {
        return Match::plain(owner, 1);
    }
    let Some(()) = place.ahead(2).and_then(|name| step(&mut owner, name)) else {
        return Match::plain(owner, 2);
    };
    let deeper = match place.ahead(3) {
        Some(b"slurm") => {
            owner.part = Some(OwnerPart::Slurm);
            1
        }
        Some(b"user") => 1 + task(&mut owner, place.ahead(4)),
        _ => 0,
    };
    Match::plain(owner, 3 + deeper)
}

/// `slurm[_NODE]/uid_U/job_N/step_S/task_T`
/// (src/plugins/cgroup/v1/cgroup_v1.c).
pub(super) fn v1(place: PathName<'_, '_>) -> Option<Match> {
    let node = match place.name() {
        b"slurm" => None,
        name => Some(text(name.strip_prefix(b"slurm_")?)),
    };
    let uid = uid(place.ahead(1)?.strip_prefix(b"uid_")?)?;
    let mut owner = Owner { node, uid: Some(uid), ..PathName::owner(OwnerKind::Slurm) };
    let Some(id) = place.ahead(2).and_then(|name| numbered(name, "job_")) else {
        return Match::plain(owner, 2);
    };
    numbered_job(&mut owner, id);
    let Some(()) = place.ahead(3).and_then(|name| step(&mut owner, name)) else {
        return Match::plain(owner, 3);
    };
    let deeper = task(&mut owner, place.ahead(4));
    Match::plain(owner, 4 + deeper)
}

/// The number of a job that the path itself names.
pub(super) fn numbered_job(owner: &mut Owner, id: u64) {
    owner.job_id = Some(id);
    owner.job_id_source = Some(JobIdSource::Path);
}

/// The node of `[NODE_]slurmstepd.scope`; the outer `None` for another name.
fn scope(name: &[u8]) -> Option<Option<String>> {
    match name.strip_suffix(SCOPE)? {
        b"" => Some(None),
        node => node.strip_suffix(b"_").filter(|node| !node.is_empty()).map(|node| Some(text(node))),
    }
}

fn job(owner: &mut Owner, name: &[u8]) -> bool {
    if let Some(id) = numbered(name, "job_") {
        numbered_job(owner, id);
        return true;
    }
    let Some(submitted_at) = sluid::submitted_at(name) else { return false };
    owner.sluid = Some(text(name));
    owner.submitted_at = Some(submitted_at);
    true
}

fn step(owner: &mut Owner, name: &[u8]) -> Option<()> {
    let name = std::str::from_utf8(name.strip_prefix(b"step_")?).ok()?;
    let (step, component) = match name.split_once('+') {
        Some((step, component)) => (step, Some(u32::try_from(number(component.as_bytes())?).ok()?)),
        None => (name, None),
    };
    let known = STEPS.contains(&step) || number(step.as_bytes()).is_some();
    owner.step = Some(known.then(|| step.to_owned())?);
    owner.het_component = component;
    Some(())
}

/// Reads `task_N` or `task_special`: how many names were read.
fn task(owner: &mut Owner, name: Option<&[u8]>) -> usize {
    let task = name.and_then(|name| name.strip_prefix(b"task_"));
    owner.task = task.filter(|task| *task == b"special" || number(task).is_some()).map(text);
    usize::from(owner.task.is_some())
}
