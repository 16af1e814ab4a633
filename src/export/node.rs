//! Metrics of the node: its GPUs in every numbering, findings of the audit, and the look
//! itself with its version, its time and what could not be seen.

use std::collections::BTreeMap;

use super::answers::Answers;
use super::metric::{
    BUILD, COMPLETE, DURATION, ERRORS, FINDINGS, FINDINGS_IGNORED, GPU, GPUS, INSTANCE, NODE, OBSERVED,
};
use super::metric::{Family, count};
use crate::model::{Severity, Time};
use crate::observation::CgroupMode;
use crate::report::{Gpu, NodeAnswer};

/// GPUs that have samples; no node has so many.
const LIMIT: usize = 1024;

pub(super) fn gpu_families(payload: &NodeAnswer) -> Vec<Family> {
    let gpus = &payload.gpus;
    let shown = || gpus.iter().take(LIMIT);
    let instances = shown()
        .flat_map(|gpu| gpu.mig.iter().map(|instance| vec![gpu.key.to_string(), instance.gi.to_string()]));
    vec![
        Family::one(GPUS, count(gpus.len() as u64)),
        Family::ones(GPU, shown().map(labels)),
        Family::ones(INSTANCE, instances),
    ]
}

fn labels(gpu: &Gpu) -> Vec<String> {
    let number = |number: Option<u32>| number.map_or_else(String::new, |number| number.to_string());
    vec![
        gpu.key.to_string(),
        gpu.vendor.to_string(),
        gpu.model.clone().unwrap_or_default(),
        gpu.pci.clone().unwrap_or_default(),
        number(gpu.minor),
        number(gpu.nvml_index),
        number(gpu.slurm_index),
        number(gpu.numa_node),
    ]
}

pub(super) fn look_families(answers: &Answers<'_>) -> Vec<Family> {
    let document = answers.node;
    let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
    for error in &document.errors {
        *errors.entry(error.code.as_str()).or_default() += 1;
    }
    let errors = errors.into_iter().map(|(code, number)| (vec![code.to_owned()], count(number)));
    let mode = match document.host.cgroup_mode {
        CgroupMode::Unified => "unified",
        CgroupMode::Hybrid => "hybrid",
        CgroupMode::Legacy => "legacy",
        CgroupMode::Unknown => "unknown",
    };
    let one = |metric, value: Option<f64>| Family::of(metric, value.map(|value| (Vec::new(), value)));
    vec![
        Family::ones(BUILD, [vec![document.version.clone()]]),
        Family::ones(NODE, [vec![document.host.kernel.clone(), mode.to_owned()]]),
        one(OBSERVED, seconds(&document.taken_at)),
        one(DURATION, answers.duration),
        Family::one(COMPLETE, f64::from(u8::from(document.complete))),
        Family::of(ERRORS, errors),
    ]
}

/// A time in seconds since 1970.
pub(super) fn seconds(time: &Time) -> Option<f64> {
    Some(time.timestamp()?.as_duration().as_secs_f64())
}

/// Every id has a sample, so that a rule can tell "none" from "not looked for". An id
/// that the configuration gives another severity has one for that, too.
pub(super) fn finding_families(answers: &Answers<'_>) -> Vec<Family> {
    let mut counts: BTreeMap<(&str, Severity), u64> =
        answers.kinds.iter().map(|kind| ((kind.id.as_str(), kind.severity), 0)).collect();
    let findings = &answers.audit.findings;
    for finding in findings.iter().filter(|finding| finding.ignored.is_none()) {
        *counts.entry((finding.id.as_str(), finding.severity)).or_default() += 1;
    }
    let ignored = findings.iter().filter(|finding| finding.ignored.is_some()).count();
    let one = |((id, severity), number): ((&str, Severity), u64)| {
        (vec![id.to_owned(), severity.to_string()], count(number))
    };
    vec![
        Family::of(FINDINGS, counts.into_iter().map(one)),
        Family::one(FINDINGS_IGNORED, count(ignored as u64)),
    ]
}
