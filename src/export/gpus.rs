//! The node's GPUs in every numbering.

use super::catalogue::{GPU, GPUS, INSTANCE};
use super::metric::{Family, count};
use crate::report::{Gpu, Payload};

/// GPUs that have samples; no node has so many.
const LIMIT: usize = 1024;

pub(super) fn families(payload: &Payload) -> Vec<Family> {
    let gpus = payload.gpus.as_deref().unwrap_or_default();
    let shown = || gpus.iter().take(LIMIT);
    let instances =
        shown().flat_map(|gpu| gpu.mig.iter().map(|instance| vec![gpu.key.clone(), instance.gi.to_string()]));
    vec![
        Family::one(GPUS, count(gpus.len() as u64)),
        Family::ones(GPU, shown().map(labels)),
        Family::ones(INSTANCE, instances),
    ]
}

fn labels(gpu: &Gpu) -> Vec<String> {
    let number = |number: Option<u32>| number.map_or_else(String::new, |number| number.to_string());
    vec![
        gpu.key.clone(),
        gpu.vendor.to_string(),
        gpu.model.clone().unwrap_or_default(),
        gpu.pci.clone().unwrap_or_default(),
        number(gpu.minor),
        number(gpu.nvml_index),
        number(gpu.slurm_index),
        number(gpu.numa_node),
    ]
}
