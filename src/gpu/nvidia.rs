//! Lists NVIDIA GPUs, from the information files of the driver.

use std::collections::BTreeMap;

use crate::model::Vendor;
use crate::observation::GpuFacts;
use crate::report::Gpu;

use super::devices::{DRM, Majors, NVIDIA};
use super::drm::DrmMinor;
use super::facts::{Pci, nodes, under, value};
use super::mig;
use super::pci::PciAddress;

/// The directory in which the driver lists its GPUs, one directory for each PCI
/// address.
const GPUS: &str = "/proc/driver/nvidia/gpus/";

/// The driver's GPUs in PCI order. Directories that are no PCI address are
/// not the driver's and are left out.
pub(super) fn list(facts: &GpuFacts, drm: &[DrmMinor<'_>]) -> Vec<Gpu> {
    let mut order = BTreeMap::new();
    for (path, text) in under(facts, GPUS) {
        if let Some(address) = path.strip_suffix("/information").and_then(PciAddress::parse) {
            order.entry(address).or_insert(text);
        }
    }
    let majors = Majors::new(facts);
    let mut index = Some(0);
    let read = |(address, text)| {
        let mut gpu = gpu(facts, drm, address, text);
        gpu.mig = gpu.minor.map(|minor| mig::instances(facts, &majors, minor)).unwrap_or_default();
        gpu.nvml_index = next_index(&mut index, &gpu, text);
        gpu
    };
    order.into_iter().map(read).collect()
}

/// Hands out NVML indices in PCI order until a GPU of which it is not known
/// whether NVML counts it.
fn next_index(index: &mut Option<u32>, gpu: &Gpu, text: &str) -> Option<u32> {
    if gpu.excluded {
        return None;
    }
    let own = index.filter(|_| text.contains(':'));
    *index = own.map(|own| own + 1);
    own
}

/// One GPU without what depends on the others.
fn gpu(facts: &GpuFacts, drm: &[DrmMinor<'_>], address: PciAddress, text: &str) -> Gpu {
    let excluded = value(text, "GPU Excluded").is_some_and(|value| value.eq_ignore_ascii_case("yes"));
    let minor = value(text, "Device Minor").and_then(|minor| minor.parse().ok()).filter(|_| !excluded);
    let gate = minor.map(|minor| (NVIDIA, minor));
    let siblings = drm.iter().filter(|entry| entry.pci == Some(address));
    let also: Vec<_> = siblings.map(|entry| (DRM, entry.minor)).collect();
    let path = minor.map(|minor| format!("/dev/nvidia{minor}"));
    Gpu {
        vendor: Vendor::Nvidia,
        model: value(text, "Model").map(str::to_owned),
        uuid: value(text, "GPU UUID").filter(|uuid| is_uuid(uuid)).map(str::to_owned),
        pci: Some(address.to_string()),
        major: gate.map(|gate| gate.0),
        minor,
        nodes: nodes(facts, gate, &also, path.as_slice()),
        numa_node: Pci::new(facts, address).numa_node(),
        excluded,
        ..Gpu::default()
    }
}

/// Whether this is `GPU-8-4-4-4-12` in hexadecimal; drivers up to 580 print
/// question marks before the GPU's first use.
fn is_uuid(text: &str) -> bool {
    let groups = text.strip_prefix("GPU-").unwrap_or_default().split('-');
    let hex = |group: &str| group.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(group.len());
    groups.map(hex).eq([Some(8), Some(4), Some(4), Some(4), Some(12)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Gpu {
        let files = [(format!("{GPUS}0000:3b:00.0/information"), text.to_owned())].into();
        list(&GpuFacts { files, ..GpuFacts::default() }, &[]).remove(0)
    }

    #[test]
    fn keys_are_found_whatever_the_blanks() {
        let gpu = one("Model:\t\t NVIDIA H200  \nBAR0: 1:2\nDevice Minor: \t 2\nGPU Firmware: N/A\n");
        assert_eq!((gpu.model.as_deref(), gpu.minor, gpu.uuid), (Some("NVIDIA H200"), Some(2), None));
        assert_eq!(gpu.nvml_index, Some(0));
    }

    #[test]
    fn only_whole_uuids_count() {
        assert!(is_uuid("GPU-11111111-2222-3333-4444-555555555555"));
        for text in [
            "",
            "GPU-",
            "GPU-????????-????-????-????-????????????",
            "MIG-11111111-2222-3333-4444-555555555555",
        ] {
            assert!(!is_uuid(text), "{text}");
        }
    }

    #[test]
    fn an_excluded_gpu_has_no_number() {
        let gpu = one("Device Minor: 3\nGPU Excluded:\t Yes\n");
        assert!(gpu.excluded);
        assert_eq!((gpu.major, gpu.minor, gpu.nvml_index), (None, None, None));
    }

    #[test]
    fn a_lost_gpu_ends_the_nvml_indices() {
        let file = |address: &str, text: &str| (format!("{GPUS}{address}/information"), text.to_owned());
        let files = [
            file("0000:01:00.0", "Device Minor: 0"),
            file("0000:02:00.0", ""),
            file("0000:03:00.0", "Device Minor: 2"),
        ];
        let gpus = list(&GpuFacts { files: files.into(), ..GpuFacts::default() }, &[]);
        assert_eq!(gpus.iter().map(|gpu| gpu.nvml_index).collect::<Vec<_>>(), [Some(0), None, None]);
    }
}
