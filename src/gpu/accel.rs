//! Lists accelerators that are no GPUs: the accel class (Gaudi, qaic, NPUs), and
//! drivers with a dynamic major of their own (older Gaudi, AWS Neuron).

use super::facts::{ACCEL, Majors, Pci, chars, nodes, number, target, under};
use super::pci::PciAddress;
use crate::model::Vendor;
use crate::observation::GpuFacts;
use crate::report::Gpu;

/// The accel class in sysfs.
pub(super) const CLASS: &str = "/sys/class/accel/";

/// Node names and the `/proc/devices` names of drivers with a major of their
/// own.
const OWN_MAJOR: [(&str, &str); 2] = [("/dev/hl", "habanalabs"), ("/dev/neuron", "neuron")];

/// All accelerators, named after their driver.
pub(super) fn list(facts: &GpuFacts) -> Vec<Gpu> {
    let names = under(facts, CLASS).filter_map(|(path, dev)| Some((path.strip_suffix("/dev")?, dev)));
    let class = names.filter(|(name, _)| number(name, "accel").is_some());
    let mut found: Vec<Gpu> = class.filter_map(|(name, dev)| gpu(facts, name, dev)).collect();
    found.extend(own_major(facts));
    found
}

/// One device of the accel class.
fn gpu(facts: &GpuFacts, name: &str, dev: &str) -> Option<Gpu> {
    let minor = dev.trim().strip_prefix("261:")?.parse().ok()?;
    let address = target(facts, &format!("{CLASS}{name}/device")).and_then(PciAddress::parse);
    let pci = address.map(|address| Pci::new(facts, address));
    let driver = target(facts, &format!("{CLASS}{name}/device/driver"));
    let driver = driver.or_else(|| pci.as_ref()?.driver()).unwrap_or("accel");
    Some(Gpu {
        vendor: Vendor::of(driver),
        pci: address.map(|address| address.to_string()),
        major: Some(ACCEL),
        minor: Some(minor),
        nodes: nodes(facts, Some((ACCEL, minor)), &siblings(facts, address), &[]),
        numa_node: pci.as_ref().and_then(Pci::numa_node),
        ..Gpu::default()
    })
}

/// The numbers of the other class entries of a PCI device: Gaudi's
/// `accel_controlDN`.
fn siblings(facts: &GpuFacts, address: Option<PciAddress>) -> Vec<(u32, u32)> {
    let names = under(facts, CLASS).filter_map(|(path, dev)| Some((path.strip_suffix("/dev")?, dev)));
    let same = names.filter(|(name, _)| {
        let device = target(facts, &format!("{CLASS}{name}/device")).and_then(PciAddress::parse);
        address.is_some() && device == address
    });
    same.filter_map(|(_, dev)| Some((ACCEL, dev.trim().strip_prefix("261:")?.parse().ok()?))).collect()
}

/// Nodes whose name and major both belong to an entry of [`OWN_MAJOR`].
fn own_major(facts: &GpuFacts) -> Vec<Gpu> {
    let majors = Majors::new(facts);
    let mut found: Vec<Gpu> = Vec::new();
    for node in chars(facts) {
        let named = |(prefix, _): &&(&str, &str)| number(&node.path, prefix).is_some();
        let Some((_, driver)) = OWN_MAJOR.iter().find(named) else { continue };
        let gate = (node.major, node.minor);
        let is_new = found.iter().all(|gpu| (gpu.major, gpu.minor) != (Some(gate.0), Some(gate.1)));
        if is_new && majors.char_major(driver) == Some(node.major) {
            found.push(Gpu {
                vendor: Vendor::of(driver),
                major: Some(gate.0),
                minor: Some(gate.1),
                nodes: nodes(facts, Some(gate), &[], &[]),
                ..Gpu::default()
            });
        }
    }
    found
}
