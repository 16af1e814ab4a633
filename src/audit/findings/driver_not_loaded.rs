//! Finds device nodes of GPUs whose driver is not loaded. Nobody can use these
//! GPUs, so they are reported in one note, and other findings that are about
//! them alone are dropped.

use std::collections::BTreeSet;

use crate::audit::facts::Facts;
use crate::audit::finding;
use crate::audit::kind::{Family, Kind};
use crate::gpu;
use crate::model::{DeviceType, GpuKey, Severity};
use crate::report::Finding;

const UNLOADED: Kind = Kind {
    id: "driver-not-loaded",
    severity: Severity::Note,
    title: "device nodes of GPUs whose driver is not loaded",
    page: "\
Device nodes of GPUs exist, and /proc/devices, which is the same in every container, has no driver for \
their major number. An open fails for everybody (ENXIO), whatever the rules say. Other findings that \
concern these GPUs alone are left out.

Causes: nodes that were made by hand, by a container image or by udev, or that outlived the driver; a \
driver that failed to load.

Excuses: a driver that has the major number.

What to do: load the driver, or remove the nodes. Audit again when it is loaded: who may open the GPUs \
counts from then on.",
};

pub(super) const FAMILY: Family = Family { kinds: &[UNLOADED], find };

fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let keys = gpus_without_driver(facts);
    let gpus: Vec<_> = facts.gpus().iter().filter(|gpu| keys.contains(&gpu.key)).collect();
    if gpus.is_empty() {
        return Vec::new();
    }
    let nodes = if gpus.len() == 1 { "a GPU".to_owned() } else { format!("{} GPUs", gpus.len()) };
    let mut found =
        finding::new(&UNLOADED, format!("there are device nodes of {nodes}, and no driver is loaded"));
    found.devices = gpus.into_iter().map(finding::gpu).collect();
    found.evidence = vec!["/proc/devices has no driver for their major number".to_owned()];
    "load the driver, or remove the nodes".clone_into(&mut found.advice);
    vec![found]
}

/// Whether a finding is about such GPUs alone.
pub(in crate::audit) fn is_only_about(finding: &Finding, keys: &BTreeSet<GpuKey>) -> bool {
    let is_one = |gpu: &Option<GpuKey>| gpu.as_ref().is_some_and(|gpu| keys.contains(gpu));
    finding.id != UNLOADED.id
        && !finding.devices.is_empty()
        && finding.devices.iter().all(|device| is_one(&device.gpu))
}

/// The keys of GPUs whose major number belongs to no driver; empty if
/// `/proc/devices` was not seen.
pub(in crate::audit) fn gpus_without_driver(facts: &Facts<'_>) -> BTreeSet<GpuKey> {
    let gpu_facts = &facts.observation().gpu_facts;
    let is_seen =
        gpu_facts.files.get("/proc/devices").is_some_and(|text| text.contains("Character devices:"));
    let is_free = |major| gpu::driver_names(gpu_facts, DeviceType::Char, major).is_empty();
    let gpus = facts.gpus().iter().filter(|gpu| is_seen && gpu.major.is_some_and(is_free));
    gpus.map(|gpu| gpu.key.clone()).collect()
}
