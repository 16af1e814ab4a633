//! Finds processes whose environment names another job than their cgroup.
//!
//! In a container that runs a Slurm of its own an environment names a job of that
//! Slurm: the node's job of the same number has nothing to do with it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::daemon;
use crate::audit::facts::Facts;
use crate::audit::finding::Reported;
use crate::audit::kind::Kind;
use crate::audit::tenants::{Place, number, uids_at, whole};
use crate::audit::{finding, tenants, wording};
use crate::model::{Confidence, GpuKey, Owner, OwnerKind, Request, Severity};
use crate::owner::{JobName, inner_job, runs_slurm};
use crate::report::{Claim, Finding, FindingDevice, Gpu, Process};

pub(super) const PROCESS_OUTSIDE_JOB: Kind = Kind {
    id: "process-outside-job",
    severity: Severity::Warning,
    title: "a process of a job outside of the job's cgroup",
    page: "\
The environment of a process names a Slurm job (SLURM_JOB_ID), but the process is in no job's cgroup: no \
rule of the job applies to it, it is not accounted, and it stays when the job ends. If it holds a GPU the \
finding is critical.

Causes: ssh sessions that pam_slurm_adopt did not adopt, or that pam_systemd moved away again; containers \
that a daemon (Docker) started for the job; user services; daemons that left the cgroup.

Excuses: slurmd, slurmstepd and sshd of root with their hooks; jobs of other schedulers. Users can write \
any environment, so confidence is never certain: it is likely if the job has processes of the same user \
here, else claimed. A process that names a job which is not on this node is reported only if it holds a \
GPU, because a shell of salloc is such a process.

In a container that runs a Slurm of its own an environment names a job of that Slurm, and is compared with \
the names of cgroups inside the container.

What to do: put pam_slurm_adopt last in the account stack and remove pam_systemd from it, start containers \
inside of the job, and end what a finished job left (gpumap leftovers).",
};

pub(super) const JOB_CLAIM_MISMATCH: Kind = Kind {
    id: "job-claim-mismatch",
    severity: Severity::Note,
    title: "a process whose environment names another job than its cgroup",
    page: "\
SLURM_JOB_ID (or SLURM_JOB_SLUID) in the environment of a process is not the job whose cgroup the process \
is in. Only the cgroup decides about access and accounting; tools that trust the environment count the \
process for the wrong job.

Causes: variables that were inherited (srun inside a login to another job, a server that one job started \
and the next one uses), and users who set them. It is a warning if the job it names is on this node.

Excuses: a component of a heterogeneous job, which names its leader; a job whose number is known from the \
environment alone.

What to do: nothing, isolation holds.",
};

/// Processes by cgroup and the job they name.
type ByJob<'a> = BTreeMap<(Place<'a>, String), Vec<&'a Process>>;

/// Daemons that carry a job's environment outside of it on purpose.
const SERVICE: [&str; 3] = ["slurmd", "slurmstepd", "sshd"];

/// Processes in no job's cgroup that name a job of this node, or that name any
/// job and hold a GPU. A shell of salloc is a process outside of its job, and
/// no concern of a node that the job is not on.
pub(super) fn find(facts: &Facts<'_>, reported: &mut Reported) -> Vec<Finding> {
    let inner = InnerJobs::of(facts);
    let mut findings = Vec::new();
    for ((place, job), mut processes) in by_job(facts, |claim| claim.outside) {
        processes.retain(|one| !is_service(facts, one, place));
        // A container's slurmd and its hooks may be anywhere in it.
        processes.retain(|one| holds(one) || one.uid != 0 || inner.container(place).is_none());
        let claim = processes.first().and_then(|process| process.claim.as_ref());
        let named = claim.and_then(|claim| inner.named(facts, place, claim));
        processes.retain(|process| named.is_some() || holds(process));
        for process in &processes {
            process.held.iter().flatten().for_each(|key| reported.add(process, key));
        }
        findings.extend(report(facts, &inner, place, &job, &processes, named.as_ref()));
    }
    findings
}

/// A tenant, the job of a Slurm inside it, and the job that processes name.
type Mismatch<'a> = (&'a Owner, Option<Owner>, String);

/// Processes in a job's cgroup that name another job.
pub(super) fn mismatches(facts: &Facts<'_>) -> Vec<Finding> {
    let mut groups: BTreeMap<Mismatch<'_>, (Place<'_>, Vec<&Process>)> = BTreeMap::new();
    for ((place, job), processes) in by_job(facts, |claim| claim.agrees == Some(false)) {
        let Some(tenant) = facts.tenant_at(place) else { continue };
        let inner = place.cgroup.owner.as_ref().and_then(inner_job).map(whole);
        let group = groups.entry((tenant.owner(), inner, job)).or_insert((place, Vec::new()));
        group.1.extend(processes);
    }
    let inner = InnerJobs::of(facts);
    let groups = groups.into_iter();
    groups.filter_map(|((.., job), (place, all))| mismatch(facts, &inner, place, &job, &all)).collect()
}

fn by_job<'a>(facts: &Facts<'a>, wanted: impl Fn(&Claim) -> bool) -> ByJob<'a> {
    let mut found = ByJob::new();
    for place in &facts.places {
        for process in &place.cgroup.processes {
            if let Some(claim) = process.claim.as_ref().filter(|claim| wanted(claim)) {
                let job = claim.job_id.map(|id| id.to_string()).or_else(|| claim.sluid.clone());
                found.entry((*place, job.unwrap_or_default())).or_default().push(process);
            }
        }
    }
    found
}

/// Whether a process runs outside of its job rightly: root's daemons and hooks in
/// the scheduler's own cgroups, and jobs of schedulers that set Slurm's variables.
fn is_service(facts: &Facts<'_>, process: &Process, place: Place<'_>) -> bool {
    if facts.tenant_at(place).is_some_and(|tenant| tenant.owner().kind.is_job()) {
        return true;
    }
    let exe = daemon::exe(facts, process).unwrap_or_default();
    let name = exe.rsplit('/').next().unwrap_or_default();
    let owner = place.cgroup.owner.as_ref();
    let own = owner.is_some_and(|owner| owner.part.is_some() || is_slurmd(owner));
    process.uid == 0 && (own || SERVICE.contains(&name) || name.starts_with("sshd-"))
}

fn is_slurmd(owner: &Owner) -> bool {
    let name = owner.name.as_deref().unwrap_or_default();
    owner.kind == OwnerKind::Unit && owner.uid.is_none() && ["slurmd", "slurmd.service"].contains(&name)
}

fn holds(process: &Process) -> bool {
    process.held.as_ref().is_some_and(|held| !held.is_empty())
}

/// The GPUs that processes have open.
fn held<'a>(facts: &Facts<'a>, processes: &[&Process]) -> Vec<&'a Gpu> {
    let is_held = |gpu: &&Gpu| processes.iter().any(|process| tenants::holds(process, gpu));
    facts.gpus().iter().filter(is_held).collect()
}

fn report(
    facts: &Facts<'_>,
    inner: &InnerJobs<'_>,
    place: Place<'_>,
    job: &str,
    processes: &[&Process],
    named: Option<&NamedJob<'_>>,
) -> Option<Finding> {
    let first = processes.first()?;
    let held = held(facts, processes);
    let decisions = |number| facts.decisions(place, number, Request::ReadWrite);
    let programs = held.first().and_then(|gpu| number(gpu)).map(decisions).unwrap_or_default();
    let devices: Vec<FindingDevice> = held.into_iter().map(finding::gpu).collect();
    let uids: BTreeSet<u32> = processes.iter().map(|process| process.uid).collect();
    let same_user = named.is_some_and(|job| uids_at(&job.cgroups).intersection(&uids).next().is_some());
    let path = place.path.lossy();
    let mut evidence = vec![
        format!("the environment of {} names Slurm job {}", people(processes), wording::short(job, 40)),
        format!("{path} is no job's cgroup"),
    ];
    let place_of_job = inner.place(place);
    evidence.push(match (named, same_user) {
        (Some(_), true) => format!("that job is {place_of_job} and has processes of the same user"),
        (Some(_), false) => format!("that job is {place_of_job}, without processes of the same user"),
        (None, _) => format!("that job has no cgroup {place_of_job}, so that its user is not known"),
    });
    evidence.extend(holding(&devices));
    let severity = if devices.is_empty() { PROCESS_OUTSIDE_JOB.severity } else { Severity::Critical };
    let gpus = if devices.is_empty() { "" } else { " and holds a GPU" };
    let summary = format!(
        "{}, whose environment names job {}, runs outside of that job's cgroup{gpus}",
        wording::process(first),
        wording::short(job, 40)
    );
    Some(Finding {
        others: named.map(|job| job.owner.clone()).into_iter().collect(),
        processes: finding::processes(processes.iter().copied()),
        devices,
        programs,
        severity,
        confidence: if same_user { Confidence::Likely } else { Confidence::Claimed },
        evidence,
        excuses: vec!["it is neither slurmd, slurmstepd or sshd of root nor a hook of theirs".to_owned()],
        advice: "Check that ssh sessions are adopted (pam_slurm_adopt last in the account stack, without \
                 pam_systemd \
                 after it) and that containers start inside the job; end what the job left behind."
            .to_owned(),
        ..finding::at(&PROCESS_OUTSIDE_JOB, place.cgroup, summary)
    })
}

fn mismatch(
    facts: &Facts<'_>,
    inner: &InnerJobs<'_>,
    place: Place<'_>,
    job: &str,
    processes: &[&Process],
) -> Option<Finding> {
    let first = processes.first()?;
    let named = inner.named(facts, place, first.claim.as_ref()?);
    let cgroup = place.cgroup;
    let owner = cgroup.owner.as_ref().map(whole);
    let own = owner.as_ref().map(wording::owner).unwrap_or_default();
    let own = match cgroup.owner.as_ref().and_then(inner_job) {
        Some(job) => format!("{}, which {own} calls so", wording::owner(job)),
        None => own,
    };
    let job = wording::short(job, 40);
    let place_of_job = inner.place(place);
    let here = if named.is_some() { "is" } else { "has no cgroup" };
    let severity = if named.is_some() { Severity::Warning } else { JOB_CLAIM_MISMATCH.severity };
    let devices: Vec<FindingDevice> = held(facts, processes).into_iter().map(finding::gpu).collect();
    let mut evidence = vec![format!(
        "the environment of {} names Slurm job {job}, which {here} {place_of_job}",
        people(processes)
    )];
    evidence.extend(holding(&devices));
    let summary =
        format!("{} is in the cgroup of {own}, and its environment names job {job}", wording::process(first));
    Some(Finding {
        owner,
        others: named.map(|job| job.owner).into_iter().collect(),
        processes: finding::processes(processes.iter().copied()),
        devices,
        severity,
        confidence: Confidence::Claimed,
        evidence,
        excuses: vec![
            "it is no component of a heterogeneous job, whose environment names the \
                       leader"
                .to_owned(),
        ],
        advice: "Rules follow the cgroup: count the process for that job. Ask the user who set the variable \
                 if it matters."
            .to_owned(),
        ..finding::at(&JOB_CLAIM_MISMATCH, cgroup, summary)
    })
}

fn people(processes: &[&Process]) -> String {
    let names: Vec<String> = processes.iter().map(|process| wording::process(process)).collect();
    wording::list(&names)
}

fn holding(devices: &[FindingDevice]) -> Option<String> {
    let names: Vec<String> = devices
        .iter()
        .filter_map(|device| device.name.clone().or_else(|| device.gpu.as_ref().map(GpuKey::to_string)))
        .collect();
    (!names.is_empty()).then(|| format!("together they have {} open", wording::list(&names)))
}

/// A job that an environment names: one of the node, or, inside a container that runs a
/// Slurm of its own, one of that Slurm.
#[derive(Clone, Debug)]
struct NamedJob<'a> {
    /// The job; one of a container as the container's claim.
    owner: Owner,
    cgroups: Vec<Place<'a>>,
}

/// Jobs by number or SLUID: whichever their paths have.
type Jobs<'a> = BTreeMap<JobName, NamedJob<'a>>;

/// Containers that run a Slurm, with that Slurm's jobs.
#[derive(Debug)]
struct InnerJobs<'a> {
    by_container: HashMap<Owner, Jobs<'a>>,
}

impl<'a> InnerJobs<'a> {
    /// Those of a node.
    fn of(facts: &Facts<'a>) -> Self {
        let mut by_container: HashMap<Owner, Jobs<'a>> = HashMap::new();
        for place in &facts.places {
            let Some(owner) = place.cgroup.owner.as_ref().filter(|owner| runs_slurm(owner)) else { continue };
            let container = whole(owner);
            let jobs = by_container.entry(container.clone()).or_default();
            let Some(job) = inner_job(owner) else { continue };
            let name = job.job_id.map(JobName::Number).or_else(|| job.sluid.clone().map(JobName::Sluid));
            let Some(name) = name else { continue };
            let new =
                || NamedJob { owner: Owner { claims: vec![whole(job)], ..container }, cgroups: Vec::new() };
            jobs.entry(name).or_insert_with(new).cgroups.push(*place);
        }
        Self { by_container }
    }

    /// The job that a claim at this place names.
    fn named(&self, facts: &Facts<'a>, place: Place<'_>, claim: &Claim) -> Option<NamedJob<'a>> {
        if let Some((_, jobs)) = self.container(place) {
            let number = claim.job_id.map(JobName::Number);
            let sluid = claim.sluid.clone().map(JobName::Sluid);
            return number.into_iter().chain(sluid).find_map(|name| jobs.get(&name)).cloned();
        }
        let tenant = facts.tenants.iter().find(|tenant| is_named(claim, tenant.owner()))?;
        Some(NamedJob { owner: tenant.owner().clone(), cgroups: tenant.cgroups.clone() })
    }

    /// Where the jobs are that environments at this place name, in words.
    fn place(&self, place: Place<'_>) -> String {
        let container = self.container(place);
        container
            .map_or_else(|| "on this node".to_owned(), |(owner, _)| format!("in {}", wording::owner(owner)))
    }

    /// The container around this place that runs a Slurm.
    fn container(&self, place: Place<'_>) -> Option<(&Owner, &Jobs<'a>)> {
        let owner = place.cgroup.owner.as_ref()?;
        std::iter::successors(Some(owner), |owner| owner.outer.as_deref())
            .find_map(|owner| self.by_container.get_key_value(&whole(owner)))
    }
}

/// Whether a claim names this job.
fn is_named(claim: &Claim, job: &Owner) -> bool {
    let number = claim.job_id.is_some() && claim.job_id == job.job_id;
    job.kind.is_slurm() && (number || claim.sluid.is_some() && claim.sluid == job.sluid)
}
