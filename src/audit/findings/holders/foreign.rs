//! Finds processes outside of all jobs that hold a GPU of a job.

use std::collections::{BTreeMap, BTreeSet};

use super::super::grants;
use super::daemon;
use super::evidence::{Reported, having, is_reported, listed, names, owners, process_name};
use super::outside::uids_of;
use super::pages::HELD_BY_FOREIGN;
use crate::audit::access::TenantAccess;
use crate::audit::facts::Facts;
use crate::audit::{finding, wording};
use crate::model::{Confidence, Owner, Request, SharedRole};
use crate::report::{Finding, Gpu, Process};

/// One finding for each cgroup and GPU.
pub(super) fn find(facts: &mut Facts<'_>, access: &TenantAccess, reported: &Reported) -> Vec<Finding> {
    let foreign: Vec<usize> = (0..facts.cgroups().len()).filter(|place| holds(facts, *place)).collect();
    if foreign.is_empty() {
        return Vec::new();
    }
    let unmanaged: BTreeSet<usize> = grants::unmanaged(facts, access).into_iter().collect();
    let granted = access.granted(facts);
    let gpus = facts.inspection.gpus().to_vec();
    let mut findings = Vec::new();
    for place in foreign {
        let processes = outsiders(facts, access, place);
        if processes.is_empty() {
            continue;
        }
        for (index, gpu) in gpus.iter().enumerate() {
            let shared = facts.config.sharing.has_gpu(&gpu.key);
            if shared || unmanaged.contains(&index) {
                continue;
            }
            let having = having(facts, access, &granted, index, None);
            let holders = holders(facts, gpu, &processes, &having, reported);
            findings.extend(report(facts, place, gpu, &holders, &having));
        }
    }
    findings
}

fn holds(facts: &Facts<'_>, place: usize) -> bool {
    let cgroup = facts.cgroups().get(place);
    cgroup.is_some_and(|cgroup| {
        cgroup.processes.iter().any(|one| one.held.as_ref().is_some_and(|held| !held.is_empty()))
    })
}

/// The processes of a cgroup that belong to no job. A container that may open every
/// device counts as no job unless it is root's, because monitoring runs that way,
/// and an engine without root cannot confine.
fn outsiders(facts: &Facts<'_>, access: &TenantAccess, place: usize) -> Vec<Process> {
    let tenant = access.innermost.get(place).copied().flatten();
    let unconfined = tenant.is_some_and(|tenant| {
        let privileged = access.own.get(tenant).is_some_and(|own| own.privileged);
        let owner = facts.tenants.get(tenant).map(|tenant| &tenant.sets.owner);
        privileged && owner.is_some_and(|owner| !owner.kind.is_job() && !is_inside(owner))
    });
    let cgroup = facts.cgroups().get(place);
    let all = cgroup.map(|cgroup| cgroup.processes.as_slice()).unwrap_or_default().iter();
    let all = all.filter(|process| process.held.as_ref().is_some_and(|held| !held.is_empty()));
    let outside = all.filter(|process| tenant.is_none() || unconfined && process.uid != 0);
    let strange = outside.filter(|process| !daemon::is_excused(facts, access, process, place));
    strange.cloned().collect()
}

/// Whether an owner is inside a job, container or machine.
fn is_inside(owner: &Owner) -> bool {
    owner.outer.as_deref().is_some_and(|outer| !outer.kind.is_service() || is_inside(outer))
}

/// The processes that hold a GPU of others; in MIG mode, an instance of others.
fn holders(
    facts: &Facts<'_>,
    gpu: &Gpu,
    processes: &[Process],
    having: &[usize],
    reported: &Reported,
) -> Vec<Process> {
    if having.is_empty() {
        return Vec::new();
    }
    let theirs: BTreeSet<&String> = having
        .iter()
        .filter_map(|tenant| facts.tenants.get(*tenant))
        .flat_map(|tenant| tenant.sets.allowed.instances.iter().chain(&tenant.sets.allocated.instances))
        .collect();
    let holds = |process: &&Process| {
        let node = process.held.as_ref().is_some_and(|held| held.contains(&gpu.key));
        let instance = process.held_instances.iter().any(|instance| theirs.contains(instance));
        node && (gpu.mig.is_empty() || instance) && !is_reported(reported, process, &gpu.key)
    };
    processes.iter().filter(holds).cloned().collect()
}

fn report(
    facts: &mut Facts<'_>,
    place: usize,
    gpu: &Gpu,
    holders: &[Process],
    having: &[usize],
) -> Option<Finding> {
    let first = holders.first()?;
    let name = wording::gpu(gpu);
    let programs = match gpu.major.zip(gpu.minor) {
        Some(number) => facts.decisions(place, number, Request::ReadWrite),
        None => Vec::new(),
    };
    let path = facts.path(place).lossy().into_owned();
    let who = match holders.len() {
        1 => process_name(first),
        more => format!("{} and {} more", process_name(first), more - 1),
    };
    let mut evidence = clauses(facts, holders);
    evidence.push(format!("{path} belongs to no job, pod or container with rules of its own"));
    evidence
        .extend(wording::clauses(having.iter().filter_map(|tenant| claim(facts, *tenant, gpu)).collect()));
    let granted = having.iter().filter_map(|tenant| facts.tenants.get(*tenant));
    let by_rules = granted.clone().any(|tenant| {
        let is_trusted = tenant.sets.allocated.is_trusted();
        let denied =
            tenant.sets.allowed.gpus.as_ref().is_some_and(|gpus| gpus.len() < facts.inspection.gpus().len());
        is_trusted || denied
    });
    let is_same_user = is_same_user(facts, holders, having);
    evidence.extend(is_same_user.then(|| "a process of that job has the same user".to_owned()));
    let cgroup = facts.cgroups().get(place)?;
    let verb = if holders.len() == 1 { "holds" } else { "hold" };
    Some(Finding {
        others: owners(facts, having),
        processes: listed(&holders.iter().collect::<Vec<_>>()),
        devices: vec![finding::gpu(gpu)],
        programs,
        confidence: if by_rules { Confidence::Certain } else { Confidence::Likely },
        evidence,
        excuses: vec![
            "it is none of the driver's daemons, MPS servers, display servers and monitoring that gpumap knows by \
             executable, uid and cgroup"
                .to_owned(),
            "the configuration neither names it as a daemon nor shares the GPU (sharing.gpus)".to_owned(),
        ],
        advice: if is_same_user { START_INSIDE } else { END_IT }.to_owned(),
        ..finding::at(
            &HELD_BY_FOREIGN,
            cgroup,
            format!("{who} {verb} {name} of {} from outside of any job", names(facts, having)),
        )
    })
}

const START_INSIDE: &str = "Start it inside the job, whose user it has: outside of the job it keeps the GPU after the \
                            job's end. End it if the job does not need it.";
const END_IT: &str = "End it, or move what it does into a job; name it as a [[daemon]] in the configuration if it \
                      belongs there.";

/// Whether all holders are of a user who has processes in one of the jobs. Root is
/// everywhere, and counts as no job's user.
fn is_same_user(facts: &Facts<'_>, holders: &[Process], having: &[usize]) -> bool {
    let users: BTreeSet<u32> = holders.iter().map(|process| process.uid).collect();
    let mut tenants = having.iter().filter_map(|tenant| facts.tenants.get(*tenant));
    !users.contains(&0) && tenants.any(|tenant| users.is_subset(&uids_of(facts, tenant)))
}

/// The holders, as evidence.
fn clauses(facts: &Facts<'_>, holders: &[Process]) -> Vec<String> {
    let clause = |process: &Process| {
        let exe =
            daemon::exe(facts, process).unwrap_or_else(|| "an executable that could not be read".to_owned());
        let computes = match process.held_shared.iter().any(SharedRole::hints_at_computing) {
            true => "; it also holds what computing takes",
            false => "",
        };
        format!("{} of uid {} is {}{computes}", process_name(process), process.uid, wording::short(&exe, 120))
    };
    let mut by_text: BTreeMap<String, ()> = BTreeMap::new();
    by_text.extend(holders.iter().map(|process| (clause(process), ())));
    wording::clauses(by_text.into_keys().collect())
}

/// Why the GPU is a tenant's.
fn claim(facts: &Facts<'_>, tenant: usize, gpu: &Gpu) -> Option<String> {
    let sets = &facts.tenants.get(tenant)?.sets;
    let owner = wording::owner(&sets.owner);
    let allocated = sets.allocated.gpus.as_ref().is_some_and(|gpus| gpus.contains(&gpu.key));
    Some(match (allocated, &sets.allocated.source) {
        (true, Some(source)) => format!("{owner} was allocated {} ({source})", wording::gpu(gpu)),
        _ => format!("the rules of {owner} let it open {}", wording::gpu(gpu)),
    })
}
