//! Finds processes whose environment names another job than their cgroup.

use std::collections::{BTreeMap, BTreeSet};

use super::daemon;
use super::evidence::{Reported, devices, listed, process_name};
use super::pages::{JOB_CLAIM_MISMATCH, PROCESS_OUTSIDE_JOB};
use crate::audit::access::TenantAccess;
use crate::audit::facts::{Facts, Tenant, whole};
use crate::audit::{finding, wording};
use crate::model::Confidence;
use crate::model::Request;
use crate::model::Severity;
use crate::model::{Owner, OwnerKind};
use crate::report::{Claim, Finding, Process};

/// Processes by cgroup and the job they name.
type ByJob<'a> = BTreeMap<(usize, String), Vec<&'a Process>>;

/// Daemons that carry a job's environment outside of it on purpose.
const SERVICE: [&str; 3] = ["slurmd", "slurmstepd", "sshd"];

/// Processes in no job's cgroup that name a job of this node, or that name any
/// job and hold a GPU. A shell of salloc is a process outside of its job, and
/// no concern of a node that the job is not on.
pub(super) fn find(facts: &mut Facts<'_>, access: &TenantAccess, reported: &mut Reported) -> Vec<Finding> {
    let claims = |claim: &Claim| claim.outside;
    let mut found = Vec::new();
    for ((place, job), processes) in by_job(facts, claims) {
        let kept: Vec<Process> = processes
            .iter()
            .filter(|one| !is_service(facts, access, one, place))
            .map(|one| (*one).clone())
            .collect();
        found.push((place, job, kept));
    }
    let mut findings = Vec::new();
    for (place, job, processes) in found {
        let tenant = processes.first().and_then(|process| named(facts, process.claim.as_ref()?)).cloned();
        let holders: Vec<Process> = processes.iter().filter(|process| holds(process)).cloned().collect();
        let concerned = if tenant.is_some() { processes } else { holders };
        let held = concerned.iter().flat_map(|process| {
            let held = process.held.iter().flatten();
            held.map(|key| (process.pid, process.start_time, key.clone()))
        });
        reported.extend(held);
        findings.extend(report(facts, place, &job, &concerned, tenant.as_ref()));
    }
    findings
}

/// Processes in a job's cgroup that name another job.
pub(super) fn mismatches(facts: &mut Facts<'_>, access: &TenantAccess) -> Vec<Finding> {
    let mut by_tenant: BTreeMap<(usize, String), (usize, Vec<Process>)> = BTreeMap::new();
    for ((place, job), processes) in by_job(facts, |claim| claim.agrees == Some(false)) {
        let Some(tenant) = access.innermost.get(place).copied().flatten() else { continue };
        let entry = by_tenant.entry((tenant, job)).or_insert((place, Vec::new()));
        entry.1.extend(processes.into_iter().cloned());
    }
    let entries = by_tenant.into_iter();
    entries.filter_map(|((_, job), (place, processes))| mismatch(facts, place, &job, &processes)).collect()
}

fn by_job<'a>(facts: &'a Facts<'_>, wanted: impl Fn(&Claim) -> bool) -> ByJob<'a> {
    let mut found = ByJob::new();
    for (place, cgroup) in facts.cgroups().iter().enumerate() {
        for process in &cgroup.processes {
            if let Some(claim) = process.claim.as_ref().filter(|claim| wanted(claim)) {
                let job = claim.job_id.map(|id| id.to_string()).or_else(|| claim.sluid.clone());
                found.entry((place, job.unwrap_or_default())).or_default().push(process);
            }
        }
    }
    found
}

/// Whether a process runs outside of its job rightly: root's daemons and hooks in
/// the scheduler's own cgroups, and jobs of schedulers that set Slurm's variables.
fn is_service(facts: &Facts<'_>, access: &TenantAccess, process: &Process, place: usize) -> bool {
    let owner = facts.cgroups().get(place).and_then(|cgroup| cgroup.owner.as_ref());
    let other_job =
        access.innermost.get(place).copied().flatten().and_then(|tenant| facts.tenants.get(tenant));
    if other_job.is_some_and(|tenant| tenant.sets.owner.kind.is_job()) {
        return true;
    }
    let exe = daemon::exe(facts, process).unwrap_or_default();
    let name = exe.rsplit('/').next().unwrap_or_default();
    let own = owner.is_some_and(|owner| owner.part.is_some() || is_slurmd(owner));
    process.uid == 0 && (own || SERVICE.contains(&name) || name.starts_with("sshd-"))
}

fn is_slurmd(owner: &Owner) -> bool {
    let name = owner.name.as_deref().unwrap_or_default();
    owner.kind == OwnerKind::Unit && owner.uid.is_none() && ["slurmd", "slurmd.service"].contains(&name)
}

/// The job of this node that a claim names.
fn named<'a>(facts: &'a Facts<'_>, claim: &Claim) -> Option<&'a Tenant> {
    facts.tenants.iter().find(|tenant| {
        let owner = &tenant.sets.owner;
        let is_slurm = owner.kind.is_slurm();
        let number = claim.job_id.is_some() && claim.job_id == owner.job_id;
        is_slurm && (number || claim.sluid.is_some() && claim.sluid == owner.sluid)
    })
}

fn holds(process: &Process) -> bool {
    process.held.as_ref().is_some_and(|held| !held.is_empty())
}

fn held(processes: &[Process]) -> BTreeSet<&String> {
    processes.iter().filter_map(|process| process.held.as_ref()).flatten().collect()
}

fn report(
    facts: &mut Facts<'_>,
    place: usize,
    job: &str,
    processes: &[Process],
    tenant: Option<&Tenant>,
) -> Option<Finding> {
    let first = processes.first()?;
    let keys = held(processes);
    let devices = devices(facts, &keys);
    let gpu = facts.inspection.gpus().iter().find(|gpu| keys.contains(&gpu.key)).cloned();
    let number = gpu.and_then(|gpu| gpu.major.zip(gpu.minor));
    let programs =
        number.map(|number| facts.decisions(place, number, Request::ReadWrite)).unwrap_or_default();
    let uids: BTreeSet<u32> = processes.iter().map(|process| process.uid).collect();
    let same_user = tenant.is_some_and(|tenant| uids_of(facts, tenant).intersection(&uids).next().is_some());
    let path = facts.path(place).lossy().into_owned();
    let mut evidence = vec![
        format!("the environment of {} names Slurm job {}", people(processes), wording::short(job, 40)),
        format!("{path} is no job's cgroup"),
    ];
    evidence.push(match (tenant, same_user) {
        (Some(_), true) => "that job is on this node and has processes of the same user".to_owned(),
        (Some(_), false) => "that job is on this node, without processes of the same user".to_owned(),
        (None, _) => "that job has no cgroup on this node, so that its user is not known".to_owned(),
    });
    evidence.extend(holding(&devices));
    let cgroup = facts.cgroups().get(place)?;
    let severity = if devices.is_empty() { PROCESS_OUTSIDE_JOB.severity } else { Severity::Critical };
    let gpus = if devices.is_empty() { "" } else { " and holds a GPU" };
    let summary = format!(
        "{}, whose environment names job {}, runs outside of that job's cgroup{gpus}",
        process_name(first),
        wording::short(job, 40)
    );
    Some(Finding {
        others: tenant.map(|tenant| tenant.sets.owner.clone()).into_iter().collect(),
        processes: listed(&processes.iter().collect::<Vec<_>>()),
        devices,
        programs,
        severity,
        confidence: if same_user { Confidence::Likely } else { Confidence::Claimed },
        evidence,
        excuses: vec!["it is neither slurmd, slurmstepd or sshd of root nor a hook of theirs".to_owned()],
        advice: "Check that ssh sessions are adopted (pam_slurm_adopt last in the account stack, without pam_systemd \
                 after it) and that containers start inside the job; end what the job left behind."
            .to_owned(),
        ..finding::at(&PROCESS_OUTSIDE_JOB, cgroup, summary)
    })
}

fn mismatch(facts: &mut Facts<'_>, place: usize, job: &str, processes: &[Process]) -> Option<Finding> {
    let first = processes.first()?;
    let tenant = named(facts, first.claim.as_ref()?).cloned();
    let cgroup = facts.cgroups().get(place)?;
    let owner = cgroup.owner.as_ref().map(whole);
    let own = owner.as_ref().map(wording::owner).unwrap_or_default();
    let job = wording::short(job, 40);
    let here = if tenant.is_some() { "is on this node" } else { "has no cgroup on this node" };
    let severity = if tenant.is_some() { Severity::Warning } else { JOB_CLAIM_MISMATCH.severity };
    let devices = devices(facts, &held(processes));
    let mut evidence =
        vec![format!("the environment of {} names Slurm job {job}, which {here}", people(processes))];
    evidence.extend(holding(&devices));
    let summary =
        format!("{} is in the cgroup of {own}, and its environment names job {job}", process_name(first));
    Some(Finding {
        owner,
        others: tenant.map(|tenant| tenant.sets.owner).into_iter().collect(),
        processes: listed(&processes.iter().collect::<Vec<_>>()),
        devices,
        severity,
        confidence: Confidence::Claimed,
        evidence,
        excuses: vec!["it is no component of a heterogeneous job, whose environment names the leader".to_owned()],
        advice: "Rules follow the cgroup: count the process for that job. Ask the user who set the variable if it matters."
            .to_owned(),
        ..finding::at(&JOB_CLAIM_MISMATCH, cgroup, summary)
    })
}

pub(super) fn uids_of(facts: &Facts<'_>, tenant: &Tenant) -> BTreeSet<u32> {
    let cgroups = tenant.cgroups.iter().filter_map(|place| facts.cgroups().get(*place));
    cgroups.flat_map(|cgroup| &cgroup.processes).map(|process| process.uid).collect()
}

fn people(processes: &[Process]) -> String {
    let names: Vec<String> = processes.iter().map(process_name).collect();
    wording::list(&names)
}

fn holding(devices: &[crate::report::FindingDevice]) -> Option<String> {
    let names: Vec<String> =
        devices.iter().filter_map(|device| device.name.clone().or_else(|| device.gpu.clone())).collect();
    (!names.is_empty()).then(|| format!("together they have {} open", wording::list(&names)))
}
