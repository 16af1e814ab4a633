//! Finds processes that cannot use their GPU any more.

use super::evidence::{loses, observed, tenant};
use super::pages::DEAD;
use crate::audit::facts::Facts;
use crate::audit::finding;
use crate::model::Confidence;
use crate::observation::GpuApi;
use crate::report::{ActiveProcess, Activity, CallError, Finding};

/// Codes of CUDA that are the hardware's fault: ECC, NVLink, an error that was
/// contained.
const HARDWARE: [u32; 3] = [214, 220, 226];

/// One finding for each process.
pub(super) fn find(facts: &mut Facts<'_>, activity: &Activity) -> Vec<Finding> {
    let is_whole = |process: &&ActiveProcess| {
        let whose = tenant(facts, process);
        process.lost.is_empty() && whose.is_none_or(|tenant| !loses(facts, activity, tenant))
    };
    activity.processes.iter().filter(is_whole).filter_map(|process| report(facts, process)).collect()
}

fn report(facts: &Facts<'_>, process: &ActiveProcess) -> Option<Finding> {
    let sticky: Vec<&CallError> =
        process.errors.iter().filter(|error| error.sticky && error.count > 0).collect();
    let first = sticky.first()?;
    let (cgroup, listed) = observed(facts, process)?;
    let used: Vec<&String> = process.gpus.iter().filter_map(|one| one.gpu.as_ref()).collect();
    let gpus = facts.inspection.gpus().iter().filter(|gpu| used.contains(&&gpu.key));
    let clause = |error: &&CallError| format!("{} was returned {} times", name(error), error.count);
    let of_hardware = sticky.iter().any(|error| error.api == GpuApi::Cuda && HARDWARE.contains(&error.code));
    let advice = match of_hardware {
        true => "End it, and look into the kernel's log for Xid messages: the code is one of the hardware.",
        false => "End it: that frees the GPU. The code is one of the program's own faults.",
    };
    Some(Finding {
        processes: vec![listed],
        devices: gpus.map(finding::gpu).collect(),
        confidence: Confidence::Likely,
        evidence: sticky.iter().map(clause).collect(),
        excuses: vec!["it has not ended".to_owned()],
        advice: advice.to_owned(),
        ..finding::at(
            &DEAD,
            cgroup,
            format!("process {} cannot use its GPU any more: {}", process.pid, name(first)),
        )
    })
}

fn name(error: &CallError) -> String {
    error.name.clone().unwrap_or_else(|| format!("error {}", error.code))
}
