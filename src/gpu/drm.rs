//! Lists DRM devices: the card and render nodes of every GPU, and the GPUs that are
//! known by them alone (Intel; AMD without KFD; open drivers of others).

use super::facts::{DRM, Pci, amd_uuid, nodes, number, target, under};
use super::pci::PciAddress;
use crate::model::Vendor;
use crate::observation::GpuFacts;
use crate::report::Gpu;

/// The DRM class in sysfs.
pub(super) const CLASS: &str = "/sys/class/drm/";

/// Drivers that have no GPU, and AMD's partitions: amdgpu makes the render nodes of
/// all possible partitions, so only KFD tells which exist.
const NO_GPU: [&str; 3] = ["vgem", "vkms", "amdgpu_xcp"];

/// One DRM minor.
pub(super) struct DrmMinor<'a> {
    /// Whether it is a render node.
    render: bool,
    /// Its minor number; the major is [`DRM`].
    pub(super) minor: u32,
    /// The PCI device that it belongs to.
    pub(super) pci: Option<PciAddress>,
    /// The name of the device that it belongs to, PCI or not.
    device: Option<&'a str>,
    /// The driver's name.
    driver: Option<&'a str>,
}

/// The card and render nodes in sysfs.
pub(super) fn entries(facts: &GpuFacts) -> Vec<DrmMinor<'_>> {
    let names = under(facts, CLASS).filter_map(|(path, text)| Some((path.strip_suffix("/dev")?, text)));
    names.filter_map(|(name, text)| entry(facts, name, text)).collect()
}

/// One entry, from its `dev` file.
fn entry<'a>(facts: &'a GpuFacts, name: &'a str, dev: &str) -> Option<DrmMinor<'a>> {
    let render = number(name, "renderD").is_some();
    let minor = dev.trim().strip_prefix("226:")?.parse().ok()?;
    let device = target(facts, &format!("{CLASS}{name}/device"));
    let pci = device.and_then(PciAddress::parse);
    let driver = target(facts, &format!("{CLASS}{name}/device/driver"));
    let driver = driver.or_else(|| Pci::new(facts, pci?).driver());
    (render || number(name, "card").is_some()).then_some(DrmMinor { render, minor, pci, device, driver })
}

/// The GPUs that only DRM knows: those with a render node that `known` does
/// not account for.
pub(super) fn list(facts: &GpuFacts, entries: &[DrmMinor<'_>], known: &[Gpu]) -> Vec<Gpu> {
    let render = entries.iter().filter(|entry| entry.render && !is_no_gpu(entry));
    render.filter(|entry| !is_known(entry, known)).map(|entry| gpu(facts, entries, entry)).collect()
}

/// Whether the device or its driver is one of [`NO_GPU`].
fn is_no_gpu(entry: &DrmMinor<'_>) -> bool {
    let mut names = entry.device.into_iter().chain(entry.driver);
    names.any(|name| NO_GPU.iter().any(|prefix| name.starts_with(prefix)))
}

/// Whether a vendor's own files list this GPU already: by its gate, or by its
/// address where the gate is no DRM node.
fn is_known(entry: &DrmMinor<'_>, known: &[Gpu]) -> bool {
    let pci = entry.pci.map(|pci| pci.to_string());
    known.iter().any(|gpu| {
        let same_gate = (gpu.major, gpu.minor) == (Some(DRM), Some(entry.minor));
        same_gate || (gpu.vendor == Vendor::Nvidia && gpu.pci.is_some() && gpu.pci == pci)
    })
}

/// Describes the GPU whose gate is this render node.
fn gpu(facts: &GpuFacts, entries: &[DrmMinor<'_>], entry: &DrmMinor<'_>) -> Gpu {
    let pci = entry.pci.map(|address| Pci::new(facts, address));
    let vendor = vendor(pci.as_ref().and_then(Pci::vendor), entry.driver);
    let gate = (DRM, entry.minor);
    let unique = pci.as_ref().and_then(|pci| pci.text("unique_id")).filter(|_| vendor == Vendor::Amd);
    Gpu {
        model: pci.as_ref().and_then(|pci| pci.text("product_name")).map(str::to_owned),
        uuid: unique.and_then(|id| u64::from_str_radix(id, 16).ok()).and_then(amd_uuid),
        pci: entry.pci.map(|pci| pci.to_string()),
        major: Some(gate.0),
        minor: Some(gate.1),
        nodes: nodes(facts, Some(gate), &cards(entries, entry.pci), &[]),
        numa_node: pci.as_ref().and_then(Pci::numa_node),
        tiles: pci
            .as_ref()
            .filter(|_| vendor == Vendor::Intel)
            .and_then(|pci| tiles(facts, entries, entry, pci)),
        vendor,
        ..Gpu::default()
    }
}

/// How many tiles an Intel GPU has. xe has a directory for each. Those of i915 are for GTs: a
/// tile has one for its engines and, since Meteor Lake, another for media alone; only Ponte
/// Vecchio has several tiles there, and no second GT in any.
fn tiles(facts: &GpuFacts, entries: &[DrmMinor<'_>], entry: &DrmMinor<'_>, pci: &Pci<'_>) -> Option<u32> {
    let count = |prefix: &str| {
        let numbers: Vec<u32> = under(facts, prefix).filter_map(|(rest, _)| number(rest, "")).collect();
        u32::try_from(numbers.len()).ok().filter(|count| *count > 0)
    };
    match pci.driver() {
        Some("xe") => count(&pci.path("tile")),
        Some("i915") => {
            let (_, card) = *cards(entries, entry.pci).first()?;
            let count = count(&format!("{CLASS}card{card}/gt/gt"))?;
            (count == 1 || pci.device().is_some_and(is_ponte_vecchio)).then_some(count)
        }
        _ => None,
    }
}

/// By its PCI device id (`INTEL_PVC_IDS` of include/drm/intel/pciids.h in Linux, and the
/// names in shared/source/dll/devices/devices_base.inl of intel/compute-runtime).
fn is_ponte_vecchio(device: u32) -> bool {
    matches!(device, 0x0b69 | 0x0b6e | 0x0bd0..=0x0bdb | 0x0be0 | 0x0be1 | 0x0be5)
}

/// The numbers of the card nodes of a PCI device.
pub(super) fn cards(entries: &[DrmMinor<'_>], pci: Option<PciAddress>) -> Vec<(u32, u32)> {
    let cards = entries.iter().filter(|entry| !entry.render && entry.pci.is_some() && entry.pci == pci);
    cards.map(|entry| (DRM, entry.minor)).collect()
}

/// The vendor by PCI id, else the driver's name.
fn vendor(id: Option<u32>, driver: Option<&str>) -> Vendor {
    match id {
        Some(0x10de) => Vendor::Nvidia,
        Some(0x1002) => Vendor::Amd,
        Some(0x8086) => Vendor::Intel,
        _ => Vendor::of(driver.unwrap_or("drm")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(device: &str, driver: &str) -> GpuFacts {
        let dir = format!("{CLASS}renderD128");
        let links = [
            (format!("{dir}/device"), device.to_owned()),
            (format!("{dir}/device/driver"), driver.to_owned()),
        ];
        let files = [(format!("{dir}/dev"), "226:128\n".to_owned())];
        GpuFacts { files: files.into(), links: links.into(), ..GpuFacts::default() }
    }

    fn vendors(device: &str, driver: &str) -> Vec<String> {
        let facts = facts(device, driver);
        list(&facts, &entries(&facts), &[]).into_iter().map(|gpu| gpu.vendor.to_string()).collect()
    }

    #[test]
    fn unknown_vendors_go_by_driver() {
        assert_eq!(vendors("../../../ff9a0000.gpu", "../../bus/platform/drivers/panfrost"), ["panfrost"]);
    }

    #[test]
    fn software_and_unused_partitions_are_no_gpus() {
        assert!(vendors("../../../vgem", "../vgem").is_empty());
        assert!(vendors("../../../amdgpu_xcp_3", "../amdgpu_xcp_drv").is_empty());
    }
}
