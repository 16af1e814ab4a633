//! Words owners, GPUs and lists for the texts of findings.

use std::borrow::Borrow;
use std::collections::BTreeSet;

use crate::model::{Owner, OwnerKind, Verdict};
use crate::report::{Decision, Gpu, Process};

/// The most items of a list that a sentence or a finding has.
pub(super) const SHOWN: usize = 8;

/// The longest name in a sentence: names belong to users.
const NAME: usize = 40;

/// An owner in words: `slurm job 4711`, `docker 3fa9c1d2e4b5`. The kind stands
/// first, so that no name can look like something else.
pub(super) fn owner(owner: &Owner) -> String {
    let job = owner.job_id.map(|id| id.to_string());
    let job = job.or_else(|| owner.job.clone()).or_else(|| owner.sluid.clone());
    if let Some(job) = job {
        return format!("{} job {}", owner.kind, short(&job, NAME));
    }
    let id = owner.container.as_deref().map(|id| short(id, 12));
    let of_pod = || owner.name.clone().filter(|_| owner.kind == OwnerKind::Pod);
    let name = id.or_else(of_pod).or_else(|| owner.pod.clone()).or_else(|| owner.name.clone());
    let name = name.or_else(|| owner.session.clone()).or_else(|| owner.uid.map(|uid| uid.to_string()));
    format!("{} {}", owner.kind, short(&name.unwrap_or_default(), NAME)).trim_end().to_owned()
}

/// A GPU by its node, else by its key: `nvidia3`.
pub(super) fn gpu(gpu: &Gpu) -> String {
    let gate = gpu.nodes.iter().find(|node| node.gate);
    let name = gate.map(|node| node.path.strip_prefix("/dev/").unwrap_or(&node.path));
    name.unwrap_or(&gpu.key).to_owned()
}

/// Some GPUs: `2 GPUs`.
pub(super) fn count(gpus: usize) -> String {
    if gpus == 1 { "1 GPU".to_owned() } else { format!("{gpus} GPUs") }
}

/// GPUs in words.
pub(super) fn gpus<'g>(gpus: impl IntoIterator<Item = &'g Gpu>) -> String {
    let names: Vec<String> = gpus.into_iter().map(gpu).collect();
    if names.is_empty() { "no GPU".to_owned() } else { list(&names) }
}

/// `train (pid 126)`.
pub(super) fn process(process: &Process) -> String {
    format!("{} (pid {})", process.comm, process.pid)
}

/// The first of some processes, and how many more there are.
pub(super) fn processes(processes: &[&Process]) -> String {
    match processes {
        [] => "no process".to_owned(),
        [one] => process(one),
        [first, more @ ..] => format!("{} and {} more", process(first), more.len()),
    }
}

/// `program 17, attached to /a, denies nvidia1 at instruction 12`.
pub(super) fn decision(decision: &Decision, device: &str) -> String {
    let verb = match decision.returns {
        Verdict::Allow => "allows",
        Verdict::Deny => "denies",
        Verdict::Unknown => "cannot be followed for",
    };
    let name = if decision.name.is_empty() { String::new() } else { format!(" ({})", decision.name) };
    let place = if decision.attached_at.is_empty() { "an unknown place" } else { &decision.attached_at };
    let at = decision.decided_at.map(|pc| format!(" at instruction {pc}")).unwrap_or_default();
    format!("program {}{name}, attached to {place}, {verb} {device}{at}", decision.id)
}

/// The first items of a list, and how many more there are.
pub(super) fn list(items: &[impl Borrow<str>]) -> String {
    let shown = items.iter().take(SHOWN).map(Borrow::borrow).collect::<Vec<_>>().join(", ");
    match items.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Evidence clauses of like things, the first of them and a count.
pub(super) fn clauses(mut items: Vec<String>) -> Vec<String> {
    let more = items.len().saturating_sub(SHOWN);
    items.truncate(SHOWN);
    items.extend((more > 0).then(|| format!("{more} more like these are left out")));
    items
}

/// The commands that say to which of these owners something was given.
pub(super) fn asking<'o>(owners: impl IntoIterator<Item = &'o Owner>) -> String {
    let command = |owner: &Owner| match owner.kind {
        OwnerKind::Slurm | OwnerKind::Parastation => "scontrol show job -d",
        OwnerKind::Pod | OwnerKind::Containerd | OwnerKind::CriO => "kubectl describe node",
        OwnerKind::Docker => "docker inspect",
        OwnerKind::Podman => "podman inspect",
        OwnerKind::Oar => "oarstat -f",
        OwnerKind::Pbs => "qstat -f",
        OwnerKind::GridEngine => "qstat -j",
        OwnerKind::Htcondor => "condor_q -long",
        OwnerKind::Lsf => "bjobs -l",
        OwnerKind::Flux => "flux job info",
        OwnerKind::Nomad => "nomad alloc status",
        _ => "the configuration of its owner",
    };
    let commands: BTreeSet<&str> = owners.into_iter().map(command).collect();
    list(&Vec::from_iter(commands))
}

/// Where a scheduler is told which devices it has.
pub(super) fn device_list(owner: &Owner) -> &'static str {
    if owner.kind.is_slurm() { "gres.conf" } else { "the scheduler's configuration" }
}

/// The start of a text.
pub(super) fn short(text: &str, longest: usize) -> String {
    text.chars().take(longest).collect()
}
