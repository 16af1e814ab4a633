//! Finds processes outside of all jobs that hold a GPU of a job.

use std::collections::BTreeSet;

use super::super::grants;
use super::daemon;
use crate::audit::facts::Facts;
use crate::audit::finding::Reported;
use crate::audit::kind::Kind;
use crate::audit::tenants::{Place, Tenant, holds, names, number, owners};
use crate::audit::{finding, wording};
use crate::model::{Confidence, GpuKey, Owner, Request, Severity, SharedRole};
use crate::report::{Finding, Gpu, Process};

pub(super) const HELD_BY_FOREIGN: Kind = Kind {
    id: "held-by-foreign",
    severity: Severity::Critical,
    title: "a process of no job that holds a GPU which is a job's",
    page: "\
A process has a GPU open that was allocated to another owner, or that another owner's rules grant. The \
process is outside of every job, pod, container and machine, or in a container of an ordinary user that \
nothing confines.

Causes: logins on a node that nothing confines; services; containers of engines that cannot confine \
(rootless).

Excuses, in directories of the system: nvidia-persistenced, nv-hostengine, dcgm-exporter, nv-fabricmanager \
and nvidia-imex in system.slice, as root or in their own unit; nvidia-smi of root; MPS daemons of root or \
of a user who has a job or container here; display servers in user.slice or system.slice, as root or \
without nvidia-uvm; slurmd and slurmstepd in their own cgroups; what the configuration names as a \
[[daemon]] by executable, uid and cgroup; GPUs that the configuration shares. A command name alone excuses \
nothing. With MIG only a process with an instance of the other owner counts. A GPU that no rule names is \
reported as gpu-open-to-all.

What to do: end the process, or move its work into a job; if it belongs there, name it in the configuration.",
};

/// One finding for each cgroup and GPU.
pub(super) fn find(facts: &Facts<'_>, reported: &Reported) -> Vec<Finding> {
    let holding = facts.places.iter().copied().filter(|place| place.holders().next().is_some());
    let holding: Vec<Place<'_>> = holding.collect();
    if holding.is_empty() {
        return Vec::new();
    }
    let unmanaged = grants::unmanaged(facts);
    let mut findings = Vec::new();
    for place in holding {
        let processes = outsiders(facts, place);
        if processes.is_empty() {
            continue;
        }
        for gpu in facts.gpus() {
            if facts.config.sharing.has_gpu(&gpu.key) || unmanaged.contains(&gpu) {
                continue;
            }
            let having = facts.having(gpu, None);
            let holders = holders(gpu, &processes, &having, reported);
            findings.extend(report(facts, place, gpu, &holders, &having));
        }
    }
    findings
}

/// The processes of a cgroup that have a GPU open and belong to no job. A container that
/// may open every device counts as no job unless it is root's, because monitoring runs
/// that way, and an engine without root cannot confine.
fn outsiders<'a>(facts: &Facts<'a>, place: Place<'a>) -> Vec<&'a Process> {
    let tenant = facts.tenant_at(place);
    let unconfined = tenant.is_some_and(|tenant| {
        tenant.privileged && !tenant.owner().kind.is_job() && !is_inside(tenant.owner())
    });
    let outside = place.holders().filter(|process| tenant.is_none() || unconfined && process.uid != 0);
    outside.filter(|process| !daemon::is_excused(facts, process, place)).collect()
}

/// Whether an owner is inside a job, container or machine.
fn is_inside(owner: &Owner) -> bool {
    owner.outer.as_deref().is_some_and(|outer| !outer.kind.is_service() || is_inside(outer))
}

/// The processes that hold a GPU of others; in MIG mode, an instance of others.
fn holders<'a>(
    gpu: &Gpu,
    processes: &[&'a Process],
    having: &[&Tenant<'_>],
    reported: &Reported,
) -> Vec<&'a Process> {
    if having.is_empty() {
        return Vec::new();
    }
    let sets = having.iter().map(|tenant| tenant.sets).flat_map(|sets| [&sets.allowed, &sets.allocated]);
    let theirs: BTreeSet<&GpuKey> = sets.flat_map(|set| &set.instances).collect();
    let is_held = |process: &&&Process| {
        let instance = process.held_instances.iter().any(|instance| theirs.contains(instance));
        holds(process, gpu) && (gpu.mig.is_empty() || instance) && !reported.has(process, &gpu.key)
    };
    processes.iter().filter(is_held).copied().collect()
}

fn report(
    facts: &Facts<'_>,
    place: Place<'_>,
    gpu: &Gpu,
    holders: &[&Process],
    having: &[&Tenant<'_>],
) -> Option<Finding> {
    if holders.is_empty() {
        return None;
    }
    let name = wording::gpu(gpu);
    let decisions = |number| facts.decisions(place, number, Request::ReadWrite);
    let path = place.path.lossy();
    let who = wording::processes(holders);
    let mut evidence = clauses(facts, holders);
    evidence.push(format!("{path} belongs to no job, pod or container with rules of its own"));
    evidence.extend(wording::clauses(having.iter().map(|tenant| claim(tenant, gpu)).collect()));
    let by_rules = having.iter().any(|tenant| {
        let allowed = tenant.sets.allowed.gpus.as_ref();
        tenant.sets.allocated.is_trusted() || allowed.is_some_and(|gpus| gpus.len() < facts.gpus().len())
    });
    let is_same_user = is_same_user(holders, having);
    evidence.extend(is_same_user.then(|| "a process of that job has the same user".to_owned()));
    let verb = if holders.len() == 1 { "holds" } else { "hold" };
    Some(Finding {
        others: owners(having),
        processes: finding::processes(holders.iter().copied()),
        devices: vec![finding::gpu(gpu)],
        programs: number(gpu).map(decisions).unwrap_or_default(),
        confidence: if by_rules { Confidence::Certain } else { Confidence::Likely },
        evidence,
        excuses: vec![
            "it is none of the driver's daemons, MPS servers, display servers and monitoring that gpumap \
             knows by \
             executable, uid and cgroup"
                .to_owned(),
            "the configuration neither names it as a daemon nor shares the GPU (sharing.gpus)".to_owned(),
        ],
        advice: if is_same_user { START_INSIDE } else { END_IT }.to_owned(),
        ..finding::at(
            &HELD_BY_FOREIGN,
            place.cgroup,
            format!("{who} {verb} {name} of {} from outside of any job", names(having)),
        )
    })
}

const START_INSIDE: &str = "Start it inside the job, whose user it has: outside of the job it keeps the GPU \
                            after the \
                            job's end. End it if the job does not need it.";
const END_IT: &str = "End it, or move what it does into a job; name it as a [[daemon]] in the configuration \
                      if it \
                      belongs there.";

/// Whether all holders are of a user who has processes in one of the jobs. Root is
/// everywhere, and counts as no job's user.
fn is_same_user(holders: &[&Process], having: &[&Tenant<'_>]) -> bool {
    let users: BTreeSet<u32> = holders.iter().map(|process| process.uid).collect();
    !users.contains(&0) && having.iter().any(|tenant| users.is_subset(&tenant.uids()))
}

/// The holders, as evidence.
fn clauses(facts: &Facts<'_>, holders: &[&Process]) -> Vec<String> {
    let clause = |process: &&Process| {
        let exe =
            daemon::exe(facts, process).unwrap_or_else(|| "an executable that could not be read".to_owned());
        let computes = match process.held_shared.iter().any(SharedRole::hints_at_computing) {
            true => "; it also holds what computing takes",
            false => "",
        };
        format!(
            "{} of uid {} is {}{computes}",
            wording::process(process),
            process.uid,
            wording::short(&exe, 120)
        )
    };
    let texts: BTreeSet<String> = holders.iter().map(clause).collect();
    wording::clauses(texts.into_iter().collect())
}

/// Why the GPU is a tenant's.
fn claim(tenant: &Tenant<'_>, gpu: &Gpu) -> String {
    let (owner, name) = (wording::owner(tenant.owner()), wording::gpu(gpu));
    match (tenant.was_allocated(gpu), &tenant.sets.allocated.source) {
        (true, Some(source)) => format!("{owner} was allocated {name} ({source})"),
        _ => format!("the rules of {owner} let it open {name}"),
    }
}
