//! Slices of a GPU that Slurm gives out, without SoftMig's limits.

use super::by_cgroup::{About, report};
use super::pages;
use crate::audit::facts::Facts;
use crate::model::{LimitCode, OwnerKind};
use crate::observation::{Answer, Preload, VgpuTraces};
use crate::report::{Finding, Process, Vgpu};

const SLICE: About = About {
    kind: &pages::SLICE,
    summary: "a slice of a GPU without a limit",
    excuses: &[
        "its job was given shards, no whole GPU",
        "SoftMig is set up here: its library is loaded, or the loader is told to load it",
    ],
    advice: "See that the prolog writes /var/run/softmig/JOB.conf for every job with shards, for each task of an \
             array and of a requeued job too, as a regular file of root's; hold such jobs until it does.",
};

const PRELOAD: About = About {
    kind: &pages::PRELOAD,
    summary: "its loader is told to load a library that is not there",
    excuses: &["the path was looked up below the process's own root"],
    advice: "Mount the library at the path that /etc/ld.so.preload names, or take the line out of that file.",
};

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = report(facts, &SLICE, |process, limits| slice(facts, process, limits));
    found.extend(report(facts, &PRELOAD, |process, limits| preload(facts, process, limits)));
    found
}

fn traces<'a>(facts: &Facts<'a>, process: &Process) -> Option<&'a VgpuTraces> {
    facts.observed(process)?.detail.as_ref()?.vgpu.as_deref()
}

fn slice(facts: &Facts<'_>, process: &Process, limits: &Vgpu) -> Option<String> {
    let observed = facts.observed(process)?;
    let environment = observed.detail.as_ref()?.at_exec.known()?;
    let is_slice = environment.get("SLURM_SHARDS_ON_NODE").is_some();
    let owners = facts.cgroups().iter().find(|cgroup| cgroup.path == process.cgroup)?.owner.as_ref();
    let is_job = owners.is_some_and(|owner| owner.kind == OwnerKind::Slurm);
    let has_none = matches!(limits.memory.code, LimitCode::NoJobFile | LimitCode::JobFileRefused)
        || limits.memory.code == LimitCode::NoLimit;
    (is_slice && is_job && has_none && limits.may_use_gpu()).then(|| limits.memory.why.clone())
}

fn preload(facts: &Facts<'_>, process: &Process, limits: &Vgpu) -> Option<String> {
    let Answer::Known(Some(Preload { missing, .. })) = &traces(facts, process)?.preload else { return None };
    let path = missing.first().filter(|_| limits.library.is_none())?;
    Some(format!("/etc/ld.so.preload names {}, which is not there", path.lossy()))
}
