//! Owners in words: `slurm job 4711`, `step 0`, `docker 3fa9c1d2e4b5`.
//!
//! The kind stands first, so that no name of a unit or container can pass for
//! another kind.

use super::sanitize;
use crate::model::{JobIdSource, Owner, OwnerKind};

/// The longest name in a table.
const NAME: usize = 28;
/// The length of a container's id as Docker shows it.
const ID: usize = 12;

/// Hexadecimal digits in a row that can only be a container's id: runc and similar
/// runtimes have 64, others at least 32.
const WHOLE_ID: usize = 32;

/// Text in which every whole container id is as short as Docker shows it.
pub(super) fn with_short_ids(text: &str) -> String {
    let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    let mut short = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_digit) {
        let (before, from) = rest.split_at(start);
        let (run, after) = from.split_at(from.find(|c| !is_digit(c)).unwrap_or(from.len()));
        short.push_str(before);
        match run.get(..ID).filter(|_| run.len() >= WHOLE_ID) {
            Some(id) => short.extend([id, "…"]),
            None => short.push_str(run),
        }
        rest = after;
    }
    short + rest
}

/// An owner in a list: below the first level its innermost part alone.
pub(super) fn label(owner: &Owner, depth: usize) -> String {
    let text = match (depth, &owner.task, &owner.step) {
        (0, ..) => full(owner),
        _ if !owner.claims.is_empty() => owner.claims.last().map(claim).unwrap_or_default(),
        (_, Some(task), _) => format!("task {}", short(task)),
        (_, None, Some(_)) => step(owner).unwrap_or_default(),
        _ => whole(owner),
    };
    format!("{}{text}{}", "  ".repeat(depth), part(owner))
}

/// The same with what squeue calls a job that is a task of an array or a component of
/// another: its user's word.
pub(super) fn label_as_squeue(owner: &Owner, depth: usize, name: Option<&str>) -> String {
    let name = name.map(|name| format!(" (~{})", short(name))).unwrap_or_default();
    label(owner, depth) + &name
}

/// An owner with the owners around it of the same kind: `slurm job 4711, step 0,
/// task 1`.
pub(super) fn full(owner: &Owner) -> String {
    let task = owner.task.as_ref().map(|task| format!("task {}", short(task)));
    let parts = [Some(whole(owner)), step(owner), task, claimed(owner)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn whole(owner: &Owner) -> String {
    let kind = owner.kind.to_string();
    let kind = sanitize::text(&kind);
    match (job(owner), &owner.kind) {
        (Some(job), _) => format!("{kind} job {job}"),
        (None, OwnerKind::User) => format!("user {}", number(owner.uid).unwrap_or_else(|| name(owner))),
        (None, OwnerKind::Session) => match &owner.session {
            Some(session) => format!("session {}", short(session)),
            None => format!("session {}", name(owner)),
        },
        (None, OwnerKind::Pod) => format!("pod {}", name(owner)),
        _ => format!("{kind} {}", name(owner)).trim_end().to_owned(),
    }
}

/// The claim of the innermost name in an owner, which the owner itself may have
/// invented.
fn claimed(owner: &Owner) -> Option<String> {
    let claim = owner.claims.last()?;
    let task = claim.task.as_ref().map(|task| format!("task {}", short(task)));
    let parts = [Some(whole(claim)), step(claim), task];
    Some(format!("calling itself {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", ")))
}

/// A claim in a list, below the owner inside which it was made.
fn claim(claim: &Owner) -> String {
    match (&claim.task, step_name(claim)) {
        // Its end is what tells it from others, and a narrow table cuts the end. The step's
        // row stands above it.
        (Some(task), _) => format!("task {}", short(task)),
        (None, Some(step)) => format!("claims {}.{step}", job(claim).unwrap_or_default()),
        (None, None) => match job(claim) {
            Some(job) => format!("claims job {job}"),
            None => format!("claims {}", whole(claim)),
        },
    }
}

/// A job's number, marked where only the user says so; else its other names.
fn job(owner: &Owner) -> Option<String> {
    let mark = if owner.job_id_source == Some(JobIdSource::Environment) { "~" } else { "" };
    let number = owner.job_id.map(|id| format!("{mark}{id}"));
    number.or_else(|| owner.job.as_deref().or(owner.sluid.as_deref()).map(short))
}

fn step(owner: &Owner) -> Option<String> {
    step_name(owner).map(|name| format!("step {name}"))
}

/// A step's name with its component of a heterogeneous job: `0+1`.
pub(super) fn step_name(owner: &Owner) -> Option<String> {
    let step = short(owner.step.as_ref()?);
    let component = owner.het_component.map(|number| format!("+{number}")).unwrap_or_default();
    Some(format!("{step}{component}"))
}

fn name(owner: &Owner) -> String {
    let id = owner.container.as_deref().map(|id| sanitize::short(id, ID, ""));
    let pod = owner.pod.as_deref().map(|pod| sanitize::short(pod, ID + 1, "…"));
    let name = owner.name.as_deref().map(short);
    // A pod's name says more than its uid.
    let name_or_uid = if owner.kind == OwnerKind::Pod { name.or(pod) } else { pod.or(name) };
    id.or(name_or_uid).unwrap_or_default()
}

fn part(owner: &Owner) -> String {
    owner.part.as_ref().map(|part| format!(" ({})", short(&part.to_string()))).unwrap_or_default()
}

fn number(uid: Option<u32>) -> Option<String> {
    uid.map(|uid| uid.to_string())
}

fn short(text: &(impl AsRef<str> + ?Sized)) -> String {
    sanitize::short(text.as_ref(), NAME, "…")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(kind: &str) -> Owner {
        Owner { kind: OwnerKind::of(kind), ..Owner::default() }
    }

    /// Make sure that whole ids are cut, and nothing else.
    #[test]
    fn ids() {
        let id = "3f1c".repeat(16);
        let text =
            format!("/system.slice/docker-{id}.scope and cafe, GPU-11111111-2222-3333-4444-555555555555");
        let expected =
            "/system.slice/docker-3f1c3f1c3f1c….scope and cafe, GPU-11111111-2222-3333-4444-555555555555";
        assert_eq!(with_short_ids(&text), expected);
        assert_eq!(with_short_ids("/köln/ß"), "/köln/ß");
        assert_eq!((with_short_ids(""), with_short_ids(&id)), (String::new(), "3f1c3f1c3f1c…".to_owned()));
    }

    /// Make sure that what a name inside an owner says is told as a claim, and that
    /// jobs, steps and tasks differ.
    #[test]
    fn claims() {
        let docker = Owner { container: Some("3fa9c1d2e4b5".repeat(4)), ..owner("docker") };
        let job = Owner { job_id: Some(12), ..owner("slurm") };
        let step = Owner { step: Some("0".to_owned()), ..job.clone() };
        let task = Owner { task: Some("1".to_owned()), ..step.clone() };
        let claiming = |claim: &Owner| Owner { claims: vec![claim.clone()], ..docker.clone() };
        let labels = [&job, &step, &task].map(|claim| label(&claiming(claim), 1));
        assert_eq!(labels, ["  claims job 12", "  claims 12.0", "  task 1"]);
        let text = "docker 3fa9c1d2e4b5, calling itself slurm job 12, step 0, task 1";
        assert_eq!(full(&claiming(&task)), text);
    }

    /// Make sure that every kind reads as people call it.
    #[test]
    fn labels() {
        let text = |text: &str| Some(text.to_owned());
        let job = Owner { job_id: Some(4711), ..owner("slurm") };
        let step = Owner { step: text("0"), het_component: Some(1), ..job.clone() };
        let task = Owner { task: text("special"), ..step.clone() };
        assert_eq!(label(&job, 0), "slurm job 4711");
        assert_eq!(label(&step, 1), "  step 0+1");
        assert_eq!(label(&task, 2), "    task special");
        assert_eq!(full(&task), "slurm job 4711, step 0+1, task special");
        let fake = Owner { job_id_source: Some(JobIdSource::Environment), ..job };
        assert_eq!(label(&fake, 0), "slurm job ~4711");
        let docker = Owner { container: text(&"3fa9c1d2e4b5".repeat(4)), ..owner("docker") };
        assert_eq!(label(&docker, 1), "  docker 3fa9c1d2e4b5");
        let pod = Owner { pod: text("1a2b3c4d-5e6f-7081"), ..owner("pod") };
        assert_eq!(label(&pod, 0), "pod 1a2b3c4d-5e6…");
        assert_eq!(label(&Owner { uid: Some(1000), ..owner("user") }, 0), "user 1000");
        assert_eq!(label(&Owner { session: text("3"), ..owner("session") }, 1), "  session 3");
        let unit = Owner { name: text("slurm job 1\x1b[2J.service"), ..owner("unit") };
        assert_eq!(label(&unit, 0), "unit slurm job 1\\x1b[2J.service");
        let daemon = Owner { part: Some(crate::model::OwnerPart::Slurmd), ..owner("slurm") };
        assert_eq!(label(&daemon, 0), "slurm (slurmd)");
        assert!(!daemon.is_workload() && !unit.is_workload() && docker.is_workload());
        assert_eq!(label(&Owner { job: text("12.pbs"), ..owner("pbs") }, 0), "pbs job 12.pbs");
    }
}
