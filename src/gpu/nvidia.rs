//! NVIDIA GPUs, from the files of their driver, and their MIG instances.

use std::collections::BTreeMap;

use super::drm::DrmMinor;
use super::facts::{DRM, Majors, NVIDIA, Pci, nodes, number, text, under, value};
use super::pci::PciAddress;
use crate::model::Vendor;
use crate::observation::GpuFacts;
use crate::report::{Gpu, MigInstance};

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
        gpu.mig = gpu.minor.map(|minor| instances(facts, &majors, minor)).unwrap_or_default();
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

/// Name of the capability nodes' driver in `/proc/devices`; the major is
/// dynamic.
pub(super) const DRIVER: &str = "nvidia-caps";

/// The table of all possible instances: `gpu0/gi1/ci0/access 13`.
const MINORS: &str = "/proc/driver/nvidia-caps/mig-minors";

/// The instances of the GPU with this minor, by GPU instance and compute
/// instance. A GPU instance without compute instances is listed once.
pub(super) fn instances(facts: &GpuFacts, majors: &Majors, gpu: u32) -> Vec<MigInstance> {
    let prefix = format!("/proc/driver/nvidia/capabilities/gpu{gpu}/mig/");
    let access: BTreeMap<_, _> =
        under(facts, &prefix).filter_map(|(path, text)| Some((place(path)?, text))).collect();
    let minor = |gi, ci| access.get(&(gi, ci)).and_then(|access| minor(facts, gpu, (gi, ci), access));
    let is_parent = |gi| access.range((gi, Some(0))..=(gi, Some(u32::MAX))).next().is_some();
    let listed = access.keys().filter(|(gi, ci)| ci.is_some() || !is_parent(*gi));
    let instance = |&(gi, ci): &(u32, Option<u32>)| MigInstance {
        gi,
        ci,
        gi_minor: minor(gi, None),
        ci_minor: ci.and_then(|ci| minor(gi, Some(ci))),
        major: majors.char_major(DRIVER),
        ..MigInstance::default()
    };
    listed.map(instance).collect()
}

/// Which instance `giI/access` or `giI/ciC/access` belongs to.
fn place(path: &str) -> Option<(u32, Option<u32>)> {
    let path = path.strip_suffix("/access")?;
    match path.split_once('/') {
        Some((gi, ci)) => Some((number(gi, "gi")?, Some(number(ci, "ci")?))),
        None => Some((number(path, "gi")?, None)),
    }
}

/// The minor of one capability, if its sources agree.
fn minor(facts: &GpuFacts, gpu: u32, (gi, ci): (u32, Option<u32>), access: &str) -> Option<u32> {
    let own = value(access, "DeviceFileMinor").and_then(|minor| minor.parse().ok());
    let name = match ci {
        Some(ci) => format!("gpu{gpu}/gi{gi}/ci{ci}/access"),
        None => format!("gpu{gpu}/gi{gi}/access"),
    };
    let listed = tabled(facts, &name);
    match (own, listed) {
        (Some(own), Some(listed)) if own != listed => None,
        _ => own.or(listed),
    }
}

/// The minor that the table lists for a name.
fn tabled(facts: &GpuFacts, name: &str) -> Option<u32> {
    let lines = text(facts, MINORS)?.lines();
    let mut minors = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    minors.next()?.trim().parse().ok()
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

    /// The layout of today's driver (`nv-caps.c`), as a cross-check only.
    fn formula(gpu: u32, gi: u32, ci: Option<u32>) -> u32 {
        3 + 135 * gpu + 9 * gi + ci.map_or(0, |ci| 1 + ci)
    }

    fn facts(files: &[(&str, &str)]) -> GpuFacts {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        GpuFacts { files, ..GpuFacts::default() }
    }

    const GI: &str = "/proc/driver/nvidia/capabilities/gpu2/mig/gi7/access";
    const CI: &str = "/proc/driver/nvidia/capabilities/gpu2/mig/gi7/ci0/access";

    fn of(files: &[(&str, &str)]) -> Vec<MigInstance> {
        let facts = facts(files);
        instances(&facts, &Majors::new(&facts), 2)
    }

    #[test]
    fn access_files_and_table_agree_with_the_layout() {
        let table = "config 1\ngpu2/gi7/access 336\ngpu2/gi7/ci0/access 337\n";
        let devices = "Character devices:\n235 nvidia-caps\n";
        let found =
            of(&[(GI, "DeviceFileMinor: 336"), (CI, ""), (MINORS, table), ("/proc/devices", devices)]);
        let expected = MigInstance {
            gi: 7,
            ci: Some(0),
            gi_minor: Some(formula(2, 7, None)),
            ci_minor: Some(formula(2, 7, Some(0))),
            major: Some(235),
            ..MigInstance::default()
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn unknown_where_no_file_speaks_or_files_disagree() {
        let found = of(&[(GI, "")]);
        assert_eq!((found[0].ci, found[0].gi_minor, found[0].major), (None, None, None));
        let found = of(&[(GI, "DeviceFileMinor: 336"), (MINORS, "gpu2/gi7/access 12\n")]);
        assert_eq!(found[0].gi_minor, None);
    }

    #[test]
    fn a_parent_is_listed_only_without_children() {
        assert_eq!(of(&[(GI, ""), (CI, "")]).len(), 1);
        assert_eq!(of(&[(CI, "")])[0].gi_minor, None);
    }
}
