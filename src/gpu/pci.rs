//! Parses PCI addresses, so that they sort by number.

use std::fmt;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
