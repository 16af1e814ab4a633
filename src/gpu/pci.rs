//! Keys and order of the inventory. PCI addresses are parsed, so that they sort by number.

use std::collections::BTreeMap;
use std::fmt;

use crate::model::InOrder as _;
use crate::report::Gpu;

/// A PCI address, in NVML's order: domain, bus, device, function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PciAddress {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl PciAddress {
    /// Parses `dddd:bb:dd.f`, hexadecimal; domains of more than four digits
    /// exist behind VMD bridges.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (domain, rest) = text.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        let (device, function) = (hex(device)?, hex(function)?);
        let parsed = Self {
            domain: hex(domain)?,
            bus: u8::try_from(hex(bus)?).ok()?,
            device: u8::try_from(device).ok().filter(|device| *device < 32)?,
            function: u8::try_from(function).ok().filter(|function| *function < 8)?,
        };
        Some(parsed)
    }

    /// From KFD's `domain` and `location_id`: bits 15-8 bus, 7-3 device, 2-0
    /// function; bits 31-28 number a partition and are no part of the address
    /// (`kfd_topology.c`, `pci_dev_id`).
    pub(super) fn from_location(domain: u32, location: u32) -> Self {
        let [function_device, bus, ..] = location.to_le_bytes();
        Self { domain, bus, device: function_device >> 3, function: function_device & 7 }
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

/// A hexadecimal number of digits alone (`from_str_radix` would take a sign).
fn hex(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u32::from_str_radix(text, 16).ok()).flatten()
}

/// Sorts by vendor, PCI address (numeric, none last), minor (none last).
pub(super) fn sort(gpus: &mut [Gpu]) {
    gpus.order_by_key(|gpu| {
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

    #[test]
    fn round_trip_and_case() {
        let address = PciAddress::parse("0000:3B:00.1").unwrap();
        assert_eq!(address.to_string(), "0000:3b:00.1");
        assert_eq!(PciAddress::parse("10000:01:00.0").unwrap().to_string(), "10000:01:00.0");
    }

    #[test]
    fn order_is_numeric() {
        let order = ["0000:05:00.0", "0000:3b:00.0", "0001:01:00.0", "10000:01:00.0"];
        let parsed: Vec<_> = order.iter().filter_map(|text| PciAddress::parse(text)).collect();
        assert!(parsed.len() == 4 && parsed.is_sorted());
    }

    #[test]
    fn other_text_is_no_address() {
        for text in ["", "3b:00.0", "0000:3b:00", "0000:3b:20.0", "0000:3b:00.8", "0000:+b:00.0", "0:100:0.0"]
        {
            assert_eq!(PciAddress::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn kfd_location() {
        assert_eq!(PciAddress::from_location(0, 0x1000_2300).to_string(), "0000:23:00.0");
        assert_eq!(PciAddress::from_location(1, 0xc509).to_string(), "0001:c5:01.1");
    }

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
