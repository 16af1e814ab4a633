//! Lists GPUs that are known by their device nodes alone, because the driver is not
//! loaded or its files are hidden. Only fixed majors count, because a dynamic major
//! may belong to any driver.

use std::collections::BTreeSet;

use super::facts::{ACCEL, DRM, DRM_FIRST_RENDER, NVIDIA, NVIDIA_LAST_GPU, chars, nodes, number, under};
use super::{accel, drm};
use crate::model::Vendor;
use crate::observation::GpuFacts;
use crate::report::Gpu;

/// One GPU for each device number of a class without driver files. The vendor of a
/// render node is unknown then: it is `drm`, or `accel` for the accel class.
pub(super) fn driverless(facts: &GpuFacts) -> Vec<Gpu> {
    let absent = |prefix| under(facts, prefix).next().is_none();
    let mut found = Vec::new();
    if absent("/proc/driver/nvidia/") {
        found.extend(with(facts, "nvidia", NVIDIA, "/dev/nvidia", 0..=NVIDIA_LAST_GPU));
    }
    if absent(drm::CLASS) {
        found.extend(with(facts, "drm", DRM, "/dev/dri/renderD", DRM_FIRST_RENDER..=u32::MAX));
    }
    if absent(accel::CLASS) {
        found.extend(with(facts, "accel", ACCEL, "/dev/accel/accel", 0..=u32::MAX));
    }
    let known: BTreeSet<_> = super::amd::list(facts, &[]).iter().map(|gpu| (gpu.major, gpu.minor)).collect();
    found.retain(|gpu| !known.contains(&(gpu.major, gpu.minor)));
    found
}

/// The distinct numbers of the nodes that have this name and this major.
fn with(
    facts: &GpuFacts,
    vendor: &str,
    major: u32,
    name: &str,
    minors: std::ops::RangeInclusive<u32>,
) -> Vec<Gpu> {
    let named = chars(facts).filter(|node| node.major == major && number(&node.path, name).is_some());
    let numbers: BTreeSet<u32> =
        named.map(|node| node.minor).filter(|minor| minors.contains(minor)).collect();
    let gpu = |minor| Gpu {
        vendor: Vendor::of(vendor),
        major: Some(major),
        minor: Some(minor),
        nodes: nodes(facts, Some((major, minor)), &[], &[]),
        ..Gpu::default()
    };
    numbers.into_iter().map(gpu).collect()
}
