//! Compares what a process may do before and after a move to another cgroup: the
//! owners that it left, and the GPUs that it gained and lost.

use crate::model::Owner;
use crate::model::Verdict;
use crate::report::Gpu;
use crate::visible::OpenableGpus;

use super::gpu_verdicts::instance;

/// GPUs and MIG instances (`KEY/GI/CI`) by what a move does to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovedReach {
    /// They can be opened now and could not before.
    pub gained: Vec<String>,
    /// They can no longer be opened.
    pub lost: Vec<String>,
    /// For these that is unknown on one side alone.
    pub unknown: Vec<String>,
}

/// Whether a process left a job, container, pod or virtual machine: one that the
/// cgroup of before belongs to, and that of now does not. Steps and tasks of one
/// job are one place here.
pub fn left_owner(from: Option<&Owner>, to: Option<&Owner>) -> bool {
    let now: Vec<Owner> = chain(to).map(identity).collect();
    chain(from).filter(|owner| owner.is_workload()).any(|owner| !now.contains(&identity(owner)))
}

fn chain(owner: Option<&Owner>) -> impl Iterator<Item = &Owner> {
    std::iter::successors(owner, |owner| owner.outer.as_deref())
}

/// An owner without the parts of it.
fn identity(owner: &Owner) -> Owner {
    Owner {
        job_id_source: None,
        step: None,
        het_component: None,
        task: None,
        part: None,
        outer: None,
        claims: Vec::new(),
        ..owner.clone()
    }
}

/// GPUs that a process may open after a move and could not before, and the reverse.
/// GPUs that only one side has are left out.
pub(super) fn difference(before: (&[Gpu], &OpenableGpus), after: (&[Gpu], &OpenableGpus)) -> MovedReach {
    let mut found = MovedReach::default();
    let before = verdicts(before);
    for (key, now) in verdicts(after) {
        let Some((_, then)) = before.iter().find(|(known, _)| *known == key) else { continue };
        match (then, now) {
            (then, now) if *then == now => {}
            (Verdict::Deny, Verdict::Allow) => found.gained.push(key),
            (Verdict::Allow, Verdict::Deny) => found.lost.push(key),
            _ => found.unknown.push(key),
        }
    }
    found
}

/// Every GPU and every instance with its verdict.
fn verdicts((gpus, reach): (&[Gpu], &OpenableGpus)) -> Vec<(String, Verdict)> {
    let mut all = Vec::new();
    for (gpu, access) in gpus.iter().zip(&reach.gpus) {
        all.push((gpu.key.clone(), access.verdict));
        let instances = gpu.mig.iter().zip(&access.instances);
        all.extend(instances.map(|(part, verdict)| (instance(gpu, part), *verdict)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::of_path;
    use crate::visible::GpuAccess;

    fn left(from: &str, to: &str) -> bool {
        left_owner(of_path(from.as_bytes()).as_ref(), of_path(to.as_bytes()).as_ref())
    }

    /// Make sure that going from step to step of a job, or deeper into it, is not
    /// leaving it, and that going anywhere else is.
    #[test]
    fn leaving() {
        let job = "/system.slice/slurmstepd.scope/job_7";
        let step = format!("{job}/step_0/user/task_0");
        assert!(!left(&step, &format!("{job}/step_batch/user/task_0")));
        assert!(!left(&step, job));
        assert!(left(&step, "/system.slice/slurmstepd.scope/job_8/step_0/user/task_0"));
        assert!(left(&step, "/system.slice/slurmd.service"));
        assert!(left(&step, "/"));
        assert!(!left("/system.slice/ssh.service", &step));
        assert!(!left("/user.slice/user-1000.slice/session-1.scope", "/"));
    }

    /// Make sure that each change of a verdict is in its list, and no other is.
    #[test]
    fn lists() {
        use Verdict::{Allow, Deny, Unknown};
        let gpu = |key: &str| Gpu { key: key.to_owned(), ..Gpu::default() };
        let gpus: Vec<Gpu> = ["a", "b", "c", "d"].map(gpu).into();
        let reach = |verdicts: [Verdict; 4]| OpenableGpus {
            gpus: verdicts.map(|verdict| GpuAccess { verdict, instances: Vec::new() }).into(),
            shared: Vec::new(),
        };
        let (before, after) = (reach([Allow, Deny, Deny, Unknown]), reach([Allow, Allow, Unknown, Unknown]));
        let found = difference((&gpus, &before), (&gpus, &after));
        assert_eq!((found.gained, found.lost, found.unknown), (vec!["b".into()], vec![], vec!["c".into()]));
        assert_eq!(difference((&gpus, &after), (&gpus, &before)).lost, ["b"]);
    }
}
