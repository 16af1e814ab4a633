//! Decides which leftovers `leftovers --kill` may end: those that belong to the job
//! by facts that no user can make up.
//!
//! Such facts are the cgroup, the uid, the start time, and the GPU that is
//! held. The environment is not among them, because a user can write any.

use jiff::Timestamp;

use crate::model::JobEvidence;
use crate::observation::Environment;
use crate::report::{GpuSet, Leftover};

/// Seconds by which a start time may be wrong: the kernel tells the time of the
/// boot in whole seconds.
const SLACK: i64 = 1;

/// Why `leftovers --kill` spares a process; `None` if the process demonstrably
/// belongs to the job.
///
/// `hook` is the environment of the job's own hook. `gpus` are those allocated to
/// the job, as far as the hook or the caller says.
pub(super) fn spared_because(
    leftover: &Leftover,
    hook: Option<&Environment>,
    gpus: Option<&GpuSet>,
) -> Option<&'static str> {
    let uid = hook.and_then(|hook| number(hook, "SLURM_JOB_UID"));
    let process = &leftover.process;
    if leftover.belongs_by == JobEvidence::Unknown {
        return Some("nothing tells whether it is the job's: its environment is not known");
    }
    if process.uid == 0 {
        return Some("it is root's");
    }
    if process.held.is_none() {
        return Some("what it holds is not known");
    }
    if leftover.gpus.is_empty() {
        return Some("it holds no GPU of the job");
    }
    if uid.is_some_and(|uid| uid != i64::from(process.uid)) {
        return Some("it is not the job's user's");
    }
    if leftover.owner.as_ref().is_some_and(|owner| owner.part.is_some()) {
        return Some("it is the scheduler's own");
    }
    if leftover.belongs_by == JobEvidence::Cgroup {
        return None;
    }
    let known = gpus.and_then(|set| set.gpus.as_ref()).map(Vec::as_slice).unwrap_or_default();
    if uid.is_none() || !leftover.gpus.iter().any(|gpu| known.contains(gpu)) {
        return Some(
            "nothing but its environment says that it is the job's: give the job's GPUs and user as Slurm's Epilog does (--from-env)",
        );
    }
    let Some(began) = hook.and_then(|hook| number(hook, "SLURM_JOB_START_TIME")) else {
        return Some(
            "it left the job's cgroup, and only Slurm's hook environment (SLURM_JOB_START_TIME) tells when the job began",
        );
    };
    let started = process.started_at.as_ref().and_then(|text| text.parse::<Timestamp>().ok());
    match started.map(|started| started.as_second().saturating_add(SLACK) >= began) {
        Some(true) => None,
        Some(false) => Some("it is older than the job"),
        None => Some("it left the job's cgroup, and when it started is not known"),
    }
}

/// A number of the hook, which root's daemon wrote.
fn number(hook: &Environment, name: &str) -> Option<i64> {
    hook.get(name).filter(|variable| !variable.cut)?.value.lossy().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Owner;
    use crate::observation::Variable;
    use crate::report::Process;

    fn hook(pairs: &[(&str, &str)]) -> Environment {
        let variable = |(name, value): &(&str, &str)| Variable {
            name: (*name).to_owned(),
            value: (*value).into(),
            cut: false,
        };
        Environment { variables: pairs.iter().map(variable).collect(), cut: None }
    }

    fn leftover(by: &str, uid: u32) -> Leftover {
        let held = Some(vec!["GPU-1".to_owned()]);
        let started_at = Some("2026-01-01T00:00:10Z".to_owned());
        let process = Process { uid, held, started_at, ..Process::default() };
        let gpus = vec!["GPU-1".to_owned()];
        Leftover { process, gpus, belongs_by: JobEvidence::of(by), ..Leftover::default() }
    }

    fn granted(gpu: &str) -> GpuSet {
        GpuSet { gpus: Some(vec![gpu.to_owned()]), ..GpuSet::default() }
    }

    /// Make sure that processes in the job's cgroup are ended, and that those of
    /// root, the scheduler and other users are not.
    #[test]
    fn in_the_cgroup() {
        let mine = hook(&[("SLURM_JOB_UID", "1000")]);
        assert_eq!(spared_because(&leftover("cgroup", 1000), Some(&mine), None), None);
        assert_eq!(spared_because(&leftover("cgroup", 1000), None, None), None);
        assert!(spared_because(&leftover("cgroup", 0), None, None).is_some());
        assert!(spared_because(&leftover("cgroup", 1001), Some(&mine), None).is_some());
        let owner = Some(Owner { part: Some(crate::model::OwnerPart::Slurm), ..Owner::default() });
        assert!(spared_because(&Leftover { owner, ..leftover("cgroup", 1000) }, Some(&mine), None).is_some());
        let idle = Leftover { gpus: Vec::new(), ..leftover("cgroup", 1000) };
        assert!(spared_because(&idle, Some(&mine), None).is_some());
        let mut unseen = leftover("cgroup", 1000);
        unseen.process.held = None;
        assert!(spared_because(&unseen, Some(&mine), None).is_some());
    }

    /// Make sure that an environment alone never ends a process: user, GPU and time
    /// have to be the job's too, and root's daemon has to confirm all three.
    #[test]
    fn by_environment() {
        // 2026-01-01T00:00:10Z, when the process started.
        let began = |at: i64| {
            let at = (1_767_225_610 + at).to_string();
            hook(&[("SLURM_JOB_START_TIME", &at), ("SLURM_JOB_UID", "1000")])
        };
        let one = granted("GPU-1");
        let told =
            |hook: &Environment| spared_because(&leftover("environment", 1000), Some(hook), Some(&one));
        assert_eq!((told(&began(-10)), told(&began(0))), (None, None));
        assert!(told(&began(60)).is_some());
        assert!(told(&hook(&[("SLURM_JOB_UID", "1000")])).is_some());
        assert!(told(&hook(&[("SLURM_JOB_START_TIME", "0")])).is_some());
        assert!(spared_because(&leftover("environment", 1000), None, Some(&one)).is_some());
        let other = granted("GPU-2");
        assert!(spared_because(&leftover("environment", 1000), Some(&began(-10)), Some(&other)).is_some());
        assert!(spared_because(&leftover("environment", 1000), Some(&began(-10)), None).is_some());
        assert!(spared_because(&leftover("environment", 1001), Some(&began(-10)), Some(&one)).is_some());
        assert!(spared_because(&leftover("environment", 0), Some(&began(-10)), Some(&one)).is_some());
    }
}
