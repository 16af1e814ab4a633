//! Owners as words, such as `slurm job 4711`: by these, jobs of several nodes are
//! the same.

use crate::model::{JobIdSource, Owner, OwnerKind};

/// The longest word of a name.
const LONGEST: usize = 64;
/// The longest kind of an owner.
const KIND: usize = 40;
/// Characters of a container's id, as Docker shows it.
const ID: usize = 12;

/// The job with this name, if a compact document may name a job so.
pub(super) fn job_of_text(text: &str) -> Option<&str> {
    let (kind, id) = text.split_once(" job ")?;
    // A kind that a site's configuration or a later gpumap has is a word too.
    let is_word = kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let is_kind = is_word && (1..=KIND).contains(&kind.len()) && OwnerKind::of(kind).is_job();
    (is_kind && is_id(id)).then_some(text)
}

fn is_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+:[]@".contains(&byte);
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_plain)
}

/// An owner in a compact document; below the first level its own part alone.
pub(super) fn label(owner: &Owner, depth: usize) -> String {
    match (depth, &owner.task, &owner.step) {
        (1.., Some(task), _) if owner.claims.is_empty() => format!("task {}", cut(task)),
        (1.., None, Some(step)) if owner.claims.is_empty() => {
            let component = owner.het_component.map(|number| format!("+{number}")).unwrap_or_default();
            format!("step {}{component}", cut(step))
        }
        _ => whole(owner),
    }
}

fn whole(owner: &Owner) -> String {
    if let Some(id) = id_of_job(owner).filter(|_| owner.kind.is_job()) {
        return format!("{} job {id}", owner.kind);
    }
    let id = owner.container.as_deref().map(|id| id.chars().take(ID).collect());
    let names = [&owner.pod, &owner.name, &owner.session];
    let other = names.into_iter().flatten().next().map(|name| cut(name));
    let uid = owner.uid.map(|uid| uid.to_string());
    format!("{} {}", owner.kind, id.or(other).or(uid).unwrap_or_default()).trim_end().to_owned()
}

/// The name of a job among those of its kind; `None` if it has none that others can know.
/// A number that only the environment of its processes says, which the user may have
/// invented, begins with `~`.
fn id_of_job(owner: &Owner) -> Option<String> {
    let is_claimed = owner.job_id_source == Some(JobIdSource::Environment);
    match (owner.job_id, owner.job.as_deref().or(owner.sluid.as_deref())) {
        (Some(number), _) if is_claimed => Some(format!("~{number}")),
        (Some(number), _) => Some(number.to_string()),
        (None, text) => text.filter(|text| is_id(text)).map(str::to_owned),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a job has the same name on all nodes, and that no user's word makes
    /// one.
    #[test]
    fn names() {
        let owner = Owner { kind: OwnerKind::Slurm, job_id: Some(7), ..Owner::default() };
        let job = |owner: &Owner| job_of_text(&label(owner, 0)).map(str::to_owned);
        assert_eq!(job(&owner).as_deref(), Some("slurm job 7"));
        let claimed = Owner { job_id_source: Some(JobIdSource::Environment), ..owner.clone() };
        assert_eq!((label(&claimed, 0).as_str(), job(&claimed)), ("slurm job ~7", None));
        assert_eq!(job(&Owner { kind: OwnerKind::Docker, ..owner.clone() }), None);
        let pbs = |text: &str| Owner { kind: OwnerKind::Pbs, job: Some(text.to_owned()), ..Owner::default() };
        assert_eq!(job(&pbs("12.pbs")).as_deref(), Some("pbs job 12.pbs"));
        assert_eq!(job(&pbs("12 \x1b[2J")), None);
        let step = Owner { step: Some("0".to_owned()), het_component: Some(1), ..owner };
        assert_eq!((label(&step, 1).as_str(), label(&step, 0).as_str()), ("step 0+1", "slurm job 7"));
        assert_eq!((job_of_text("docker job 7"), job_of_text("slurm job 7 8")), (None, None));
        assert_eq!(job_of_text("slurm job ~7"), None);
        assert_eq!(job_of_text("acme job 7"), Some("acme job 7"));
        for bad in ["a b job 7", "\x1b[2J job 7", " job 7", "Acme job 7"] {
            assert_eq!(job_of_text(bad), None, "{bad:?}");
        }
    }
}
