//! Keys and order of the inventory.

use std::collections::BTreeMap;

use crate::report::Gpu;

use super::pci::PciAddress;

/// Sorts by vendor, PCI address (numeric, none last), minor (none last).
pub(super) fn sort(gpus: &mut [Gpu]) {
    gpus.sort_by_cached_key(|gpu| {
        let address = gpu.pci.as_deref().and_then(PciAddress::parse);
        (gpu.vendor.to_string(), address.is_none(), address, gpu.minor.is_none(), gpu.minor)
    });
}

/// Sets the key of every GPU: the first of UUID, PCI address and `major:minor` that
/// no other GPU has; if all are shared, `vendor#position` in the list.
pub(super) fn assign(gpus: &mut [Gpu]) {
    let mut uses = BTreeMap::new();
    for name in gpus.iter().flat_map(names) {
        *uses.entry(name.to_ascii_lowercase()).or_insert(0_usize) += 1;
    }
    for (position, gpu) in gpus.iter_mut().enumerate() {
        let unique = names(gpu).find(|name| uses.get(&name.to_ascii_lowercase()) == Some(&1));
        // `#` is in no other kind of key, so this one is unique as well.
        gpu.key = unique.unwrap_or_else(|| format!("{}#{position}", gpu.vendor)).into();
    }
}

/// The names that a GPU can have as its key, the best first.
fn names(gpu: &Gpu) -> impl Iterator<Item = String> + use<> {
    let number = gpu.major.zip(gpu.minor).map(|(major, minor)| format!("{major}:{minor}"));
    [gpu.uuid.clone(), gpu.pci.clone(), number].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GpuKey;

    fn gpu(uuid: &str, pci: &str, minor: u32) -> Gpu {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Gpu { uuid: some(uuid), pci: some(pci), major: Some(226), minor: Some(minor), ..Gpu::default() }
    }

    fn keys(mut gpus: Vec<Gpu>) -> Vec<GpuKey> {
        assign(&mut gpus);
        gpus.into_iter().map(|gpu| gpu.key).collect()
    }

    #[test]
    fn a_shared_uuid_names_neither() {
        let gpus =
            vec![gpu("GPU-a", "0000:01:00.0", 1), gpu("GPU-A", "0000:02:00.0", 2), gpu("GPU-b", "x", 3)];
        assert_eq!(keys(gpus), ["0000:01:00.0", "0000:02:00.0", "GPU-b"]);
    }

    #[test]
    fn partitions_go_by_number_and_twins_by_position() {
        let gpus = vec![gpu("", "0000:01:00.0", 128), gpu("", "0000:01:00.0", 129)];
        assert_eq!(keys(gpus), ["226:128", "226:129"]);
        assert_eq!(keys(vec![gpu("", "", 1), gpu("", "", 1)]), ["nvidia#0", "nvidia#1"]);
    }
}
