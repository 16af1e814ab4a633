//! Finds processes that work on a GPU which is not their job's.

use super::evidence::{observed, tenant, use_clause};
use super::pages::FOREIGN;
use crate::audit::facts::Facts;
use crate::audit::{finding, wording};
use crate::model::{Confidence, GpuEvidence};
use crate::report::{ActiveProcess, Activity, Finding, Gpu, GpuUse};

/// One finding for each process and GPU.
pub(super) fn find(facts: &mut Facts<'_>, activity: &Activity) -> Vec<Finding> {
    let gpus = facts.inspection.gpus().to_vec();
    let mut findings = Vec::new();
    for process in &activity.processes {
        for one in process.gpus.iter().filter(|one| is_foreign(one)) {
            let Some(gpu) = gpus.iter().find(|gpu| Some(&gpu.key) == one.gpu.as_ref()) else { continue };
            let is_shared = facts.config.sharing.has_gpu(&gpu.key) || facts.config.sharing.whole_node;
            if !is_shared && gpu.mig.is_empty() {
                findings.extend(report(facts, process, one, gpu));
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

fn report(facts: &Facts<'_>, process: &ActiveProcess, one: &GpuUse, gpu: &Gpu) -> Option<Finding> {
    let tenant = tenant(facts, process)?;
    let owner = wording::owner(&tenant.sets.owner);
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
        owner: Some(tenant.sets.owner.clone()),
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
