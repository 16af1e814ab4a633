//! Lists AMD GPUs, from the KFD topology. The gate of a GPU is its render node:
//! amdkfd itself asks the device cgroup about it, while all GPUs share `/dev/kfd`.

use std::collections::BTreeSet;

use super::drm::{DrmMinor, cards};
use super::facts::{DRM, Pci, amd_uuid, nodes, number, text, under};
use super::pci::PciAddress;
use crate::model::{InOrder as _, Vendor};
use crate::observation::GpuFacts;
use crate::report::Gpu;

/// KFD's compute nodes.
const NODES: &str = "/sys/class/kfd/kfd/topology/nodes/";

/// The GPUs in the topology, in KFD's order. Partitions of one GPU are
/// compute nodes of their own that share its PCI address.
pub(super) fn list(facts: &GpuFacts, drm: &[DrmMinor<'_>]) -> Vec<Gpu> {
    let names: BTreeSet<u32> =
        under(facts, NODES).filter_map(|(path, _)| number(path.strip_suffix("/properties")?, "")).collect();
    let mut gpus: Vec<Gpu> =
        names.into_iter().filter_map(|node| gpu(facts, drm, &format!("{NODES}{node}"))).collect();
    count(&mut gpus);
    gpus
}

/// Numbers the GPUs, which are in KFD's order, as HIP does in a process that may open all
/// and has no variables, and as rocm-smi does, which sorts them by PCI address (source of
/// clr, `rocdevice.cpp`, and of rocm_smi_lib, `rocm_smi_main.cc`).
fn count(gpus: &mut [Gpu]) {
    for (number, gpu) in (0..).zip(gpus.iter_mut()) {
        gpu.hip_index = Some(number);
    }
    let mut by_address: Vec<&mut Gpu> = gpus.iter_mut().collect();
    // Text of a fixed width in hexadecimal sorts as the numbers do.
    by_address.order_by(|one, other| one.pci.cmp(&other.pci));
    let has_own = by_address.windows(2).all(|pair| match pair {
        [one, other] => one.pci != other.pci,
        _ => true,
    });
    if has_own && by_address.iter().all(|gpu| gpu.pci.is_some()) {
        (0..).zip(by_address).for_each(|(number, gpu)| gpu.rocm_smi_index = Some(number));
    }
}

/// The GPU of one compute node; `None` for a CPU.
fn gpu(facts: &GpuFacts, drm: &[DrmMinor<'_>], dir: &str) -> Option<Gpu> {
    let properties = text(facts, &format!("{dir}/properties"))?;
    property(properties, "simd_count").filter(|simds| *simds > 0)?;
    let minor = property(properties, "drm_render_minor").and_then(narrow).filter(|minor| *minor > 0);
    let address = address(properties);
    let pci = address.map(|address| Pci::new(facts, address));
    let gate = minor.map(|minor| (DRM, minor));
    let model = pci.as_ref().and_then(|pci| pci.text("product_name"));
    Some(Gpu {
        vendor: Vendor::Amd,
        model: model.or_else(|| text(facts, &format!("{dir}/name"))).map(str::to_owned),
        uuid: property(properties, "unique_id").and_then(amd_uuid),
        pci: address.map(|address| address.to_string()),
        major: gate.map(|gate| gate.0),
        minor,
        nodes: nodes(facts, gate, &cards(drm, address), &[]),
        numa_node: pci.as_ref().and_then(Pci::numa_node),
        ..Gpu::default()
    })
}

/// One property: lines are `name value`, decimal.
fn property(properties: &str, name: &str) -> Option<u64> {
    let mut values = properties.lines().filter_map(|line| line.trim().strip_prefix(name)?.strip_prefix(' '));
    values.next()?.trim().parse().ok()
}

/// The PCI address of the GPU; a device with `location_id` 0 has none.
fn address(properties: &str) -> Option<PciAddress> {
    let location = property(properties, "location_id").and_then(narrow).filter(|location| *location > 0)?;
    let domain = property(properties, "domain").and_then(narrow).unwrap_or(0);
    Some(PciAddress::from_location(domain, location))
}

/// A property that fits 32 bits.
fn narrow(value: u64) -> Option<u32> {
    u32::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(properties: &str) -> Vec<Gpu> {
        let files = [(format!("{NODES}1/properties"), properties.to_owned())].into();
        list(&GpuFacts { files, ..GpuFacts::default() }, &[])
    }

    /// Make sure that HIP counts in KFD's order and rocm-smi in that of PCI, and that
    /// partitions have no number in rocm-smi.
    #[test]
    fn numbers() {
        let of = |locations: [u32; 2]| {
            let file = |(node, location): (usize, u32)| {
                let text = format!("simd_count 8\nlocation_id {location}\ndrm_render_minor {}\n", 128 + node);
                (format!("{NODES}{node}/properties"), text)
            };
            let files = locations.into_iter().enumerate().map(file).collect();
            let gpus = list(&GpuFacts { files, ..GpuFacts::default() }, &[]);
            gpus.iter().map(|gpu| (gpu.hip_index, gpu.rocm_smi_index)).collect::<Vec<_>>()
        };
        assert_eq!(of([0x2300, 0x0300]), [(Some(0), Some(1)), (Some(1), Some(0))]);
        assert_eq!(of([0x2300, 0x2300]), [(Some(0), None), (Some(1), None)]);
    }

    #[test]
    fn cpus_are_no_gpus() {
        assert!(of("cpu_cores_count 64\nsimd_count 0\n").is_empty());
        assert!(of("").is_empty());
    }

    #[test]
    fn ids_become_text() {
        let gpus = of(
            "simd_count 1216\nlocation_id 8960\ndomain 0\ndrm_render_minor 128\nunique_id 81985529216486895\n",
        );
        assert_eq!(gpus[0].uuid.as_deref(), Some("GPU-0123456789abcdef"));
        assert_eq!(gpus[0].pci.as_deref(), Some("0000:23:00.0"));
        assert_eq!((gpus[0].major, gpus[0].minor), (Some(226), Some(128)));
    }

    #[test]
    fn zero_means_none() {
        let gpus = of("simd_count 8\nlocation_id 0\ndrm_render_minor 0\nunique_id 0\n");
        assert_eq!((&gpus[0].uuid, &gpus[0].pci, gpus[0].minor), (&None, &None, None));
    }
}
