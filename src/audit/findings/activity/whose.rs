//! Finds processes that work on a GPU which is not their job's, and GPUs on which two
//! owners work that share nothing.

use super::evidence::{about, listed, observed, tenant, use_clause};
use crate::audit::facts::Facts;
use crate::audit::kind::Kind;
use crate::audit::tenants::{Tenant, may_share};
use crate::audit::{finding, wording};
use crate::model::{Confidence, GpuEvidence, Owner, Severity};
use crate::report::{ActiveProcess, Activity, Finding, Gpu, GpuUse};

pub(super) const FOREIGN: Kind = Kind {
    id: "foreign-gpu-used",
    severity: Severity::Critical,
    title: "a process works on a GPU that is not its job's",
    page: "\
A process handed work to a GPU which its job was not allocated, or which its rules deny by now. Others \
suspect this from what a job could open; here the driver itself told the process the UUID of the device \
that its context is on, and calls on it were counted.

Causes: rules that let the job open more than it was allocated, and a CUDA_VISIBLE_DEVICES that was \
changed; a GPU opened before the rules were in force; a number of one order taken for one of another.

Excuses: an allocation that is not known; a GPU of which only the process's variables or the device that it \
has open tell; GPUs that the configuration shares (sharing.gpus, sharing.whole_node); GPUs with MIG, of \
which the instance counts.

What to do: find out with gpumap explain why the job may open the GPU; end the process if the GPU is \
somebody else's. The confidence is `claimed` where the job's own environment alone tells the allocation.",
};

pub(super) const TWO: Kind = Kind {
    id: "gpu-used-by-two",
    severity: Severity::Critical,
    title: "two owners work on one exclusive GPU",
    page: "\
Processes of two jobs, containers or pods handed work to the same GPU within the last ten minutes. Each is \
slower by the other, and one can take all the memory.

Causes: a double grant; a process that left its job; two schedulers on one node.

Excuses: both share GPUs by shard or both by MPS; they are one job's or one pod's, or one is inside the \
other; GPUs with MIG; a GPU that the configuration shares (sharing.gpus).

What to do: find out whose it is (scontrol show job -d, kubectl describe node), and end or confine the \
other.",
};

/// One finding for each process and GPU.
pub(super) fn foreign(facts: &Facts<'_>, activity: &Activity) -> Vec<Finding> {
    let mut findings = Vec::new();
    for process in &activity.processes {
        for one in process.gpus.iter().filter(|one| is_foreign(one)) {
            let Some(gpu) = facts.gpus().iter().find(|gpu| Some(&gpu.key) == one.gpu.as_ref()) else {
                continue;
            };
            if !facts.is_shared(gpu) && gpu.mig.is_empty() {
                findings.extend(report_foreign(facts, process, one, gpu));
            }
        }
    }
    findings
}

/// Whether the driver named a GPU that was not allocated, or is denied.
fn is_foreign(one: &GpuUse) -> bool {
    one.by == GpuEvidence::Driver
        && one.counts.enqueued() > 0
        && (one.allocated == Some(false) || one.allowed == Some(false))
}

fn report_foreign(facts: &Facts<'_>, process: &ActiveProcess, one: &GpuUse, gpu: &Gpu) -> Option<Finding> {
    let tenant = tenant(facts, process)?;
    let owner = wording::owner(tenant.owner());
    let (cgroup, listed) = observed(facts, process)?;
    let name = wording::gpu(gpu);
    let trusted = tenant.sets.allocated.is_trusted();
    let mut evidence = vec![
        format!("the driver told process {} this GPU's UUID for its device {}", process.pid, ordinal(one)),
        use_clause(process, one),
    ];
    if one.allocated == Some(false) {
        let source = tenant.sets.allocated.source_name();
        evidence.push(format!("{name} is not among the GPUs that {owner} was allocated ({source})"));
    }
    if one.allowed == Some(false) {
        evidence.push(format!("the rules of {} deny it by now", cgroup.path));
    }
    Some(Finding {
        owner: Some(tenant.owner().clone()),
        processes: vec![listed],
        devices: vec![finding::gpu(gpu)],
        confidence: if trusted || one.allowed == Some(false) {
            Confidence::Likely
        } else {
            Confidence::Claimed
        },
        evidence,
        excuses: vec![
            "the driver itself named the GPU, not the process's variables".to_owned(),
            "the configuration shares neither the GPU (sharing.gpus) nor the node (sharing.whole_node)"
                .to_owned(),
        ],
        advice: "Find out with gpumap explain why it may open the GPU; end it if the GPU is somebody else's."
            .to_owned(),
        ..finding::at(
            &FOREIGN,
            cgroup,
            format!("process {} of {owner} works on {name}, which is not its", process.pid),
        )
    })
}

fn ordinal(one: &GpuUse) -> String {
    one.ordinal.map_or_else(|| "?".to_owned(), |ordinal| ordinal.to_string())
}

/// Whoever made a call in the last so many seconds is at work.
const AT_WORK: f64 = 600.0;

/// A process at work, with its tenant.
type Worker<'w> = (&'w Tenant<'w>, &'w ActiveProcess, &'w GpuUse);

/// One finding for each GPU.
pub(super) fn two(facts: &Facts<'_>, activity: &Activity) -> Vec<Finding> {
    let exclusive =
        facts.gpus().iter().filter(|gpu| gpu.mig.is_empty() && !facts.config.sharing.has_gpu(&gpu.key));
    exclusive.filter_map(|gpu| on(facts, activity, gpu)).collect()
}

fn on(facts: &Facts<'_>, activity: &Activity, gpu: &Gpu) -> Option<Finding> {
    let workers = workers(facts, activity, gpu);
    let is_stranger =
        |one: &&Worker<'_>| workers.iter().any(|other| !one.0.is(other.0) && !may_share(one.0, other.0));
    let strangers: Vec<&Worker<'_>> = workers.iter().filter(is_stranger).collect();
    let is_one = |tenant: &&Tenant<'_>| strangers.iter().any(|(other, ..)| other.is(tenant));
    let rows: Vec<&Tenant<'_>> = facts.tenants.iter().filter(is_one).collect();
    let first = rows.first()?;
    let owners: Vec<Owner> = rows.iter().map(|tenant| tenant.owner().clone()).collect();
    let names: Vec<String> = owners.iter().map(wording::owner).collect();
    let asking = wording::asking(&owners);
    let processes: Vec<&ActiveProcess> = strangers.iter().map(|(_, process, _)| *process).collect();
    let clause = |(tenant, process, one): &&Worker<'_>| {
        let owner = wording::owner(tenant.owner());
        format!("{owner}: {}, as {} tells", use_clause(process, one), witness(one))
    };
    Some(Finding {
        others: owners.into_iter().skip(1).collect(),
        processes: listed(facts, &processes),
        devices: vec![finding::gpu(gpu)],
        confidence: Confidence::Likely,
        evidence: wording::clauses(strangers.iter().map(clause).collect()),
        excuses: vec![
            "they do not all share GPUs by shard, and do not all by MPS".to_owned(),
            "they are not of one job or pod, and none is inside another".to_owned(),
            "the configuration does not share it (sharing.gpus)".to_owned(),
        ],
        advice: format!("Find out whose it is ({asking}), and end or confine the other."),
        ..about(&TWO, first, format!("{} all work on {}", wording::list(&names), wording::gpu(gpu)))
    })
}

/// The processes at work on a GPU, of all tenants.
fn workers<'w>(facts: &'w Facts<'_>, activity: &'w Activity, gpu: &Gpu) -> Vec<Worker<'w>> {
    let mut found = Vec::new();
    for process in &activity.processes {
        let Some(tenant) = tenant(facts, process) else { continue };
        let is_at_work = |one: &&GpuUse| {
            one.gpu.as_ref() == Some(&gpu.key)
                && one.counts.enqueued() > 0
                && one.idle_seconds.is_some_and(|idle| idle < AT_WORK)
        };
        let its = process.gpus.iter().filter(is_at_work);
        found.extend(its.map(|one| (tenant, process, one)));
    }
    found
}

fn witness(one: &GpuUse) -> &'static str {
    use crate::model::GpuEvidence as By;
    match one.by {
        By::Driver => "the driver",
        By::Resolved => "its environment",
        By::Held => "the device that it has open",
        By::Unknown => "nobody",
    }
}
