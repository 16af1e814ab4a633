//! Looks things up in the facts: attribute values, `Key: value` files, PCI attributes, the
//! nodes of a device number, and in `/proc/devices` which driver registered which major
//! number on this boot.

use std::ops::Bound;

use super::pci::PciAddress;
use crate::model::{DeviceType, InOrder as _};
use crate::observation::{DeviceNode, GpuFacts, RegisteredDriver};
use crate::report::GpuNode;

/// Files below `prefix`: the rest of each path, and the text.
pub(super) fn under<'a>(facts: &'a GpuFacts, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let range = facts.files.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
    range.map_while(move |(path, text)| Some((path.strip_prefix(prefix)?, text.as_str())))
}

/// The trimmed text of a file; `None` if it is absent or blank.
pub(super) fn text<'a>(facts: &'a GpuFacts, path: &str) -> Option<&'a str> {
    facts.files.get(path).map(|text| text.trim()).filter(|text| !text.is_empty())
}

/// The last component of a symbolic link's target.
pub(super) fn target<'a>(facts: &'a GpuFacts, path: &str) -> Option<&'a str> {
    facts.links.get(path)?.rsplit('/').next()
}

/// The value of `key` in a file of `Key: value` lines. Values may hold colons
/// and any blanks may follow the key's; the first line counts.
pub(super) fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let mut values = pairs.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim());
    values.next().filter(|value| !value.is_empty())
}

/// Attributes of a PCI device.
pub(super) struct Pci<'a> {
    facts: &'a GpuFacts,
    dir: String,
}

impl<'a> Pci<'a> {
    /// The device at an address; its attributes may all be missing.
    pub(super) fn new(facts: &'a GpuFacts, address: PciAddress) -> Self {
        Self { facts, dir: format!("/sys/bus/pci/devices/{address}") }
    }

    /// An attribute's trimmed text.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        text(self.facts, &self.path(name))
    }

    /// The path of an attribute.
    pub(super) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    /// The PCI vendor id.
    pub(super) fn vendor(&self) -> Option<u32> {
        self.id("vendor")
    }

    /// The PCI device id.
    pub(super) fn device(&self) -> Option<u32> {
        self.id("device")
    }

    fn id(&self, name: &str) -> Option<u32> {
        u32::from_str_radix(self.text(name)?.strip_prefix("0x")?, 16).ok()
    }

    /// The NUMA node; sysfs has -1 for none.
    pub(super) fn numa_node(&self) -> Option<u32> {
        self.text("numa_node")?.parse().ok()
    }

    /// The name of the driver that is bound to it.
    pub(super) fn driver(&self) -> Option<&'a str> {
        target(self.facts, &format!("{}/driver", self.dir))
    }
}

/// The nodes of one GPU, gate first, then by path: those that have the gate's
/// number or one of the `also` numbers, and those at one of the `paths` with
/// some other number.
pub(super) fn nodes(
    facts: &GpuFacts,
    gate: Option<(u32, u32)>,
    also: &[(u32, u32)],
    paths: &[String],
) -> Vec<GpuNode> {
    let mut found: Vec<GpuNode> = chars(facts)
        .filter_map(|node| {
            let number = (node.major, node.minor);
            let is_gate = gate == Some(number);
            let mine = is_gate || also.contains(&number) || paths.contains(&node.path);
            mine.then(|| GpuNode {
                path: node.path.clone(),
                major: node.major,
                minor: node.minor,
                gate: is_gate,
            })
        })
        .collect();
    found.order_by(|a, b| (!a.gate, &a.path).cmp(&(!b.gate, &b.path)));
    found
}

/// The character device nodes.
pub(super) fn chars(facts: &GpuFacts) -> impl Iterator<Item = &DeviceNode> {
    facts.nodes.iter().filter(|node| node.kind == DeviceType::Char)
}

/// The decimal number that a name has after `prefix`, without leading zeros
/// or signs, so that equal numbers are equal names.
pub(super) fn number(name: &str, prefix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?;
    let number: u32 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// The UUID of an AMD GPU as ROCm prints it; an id of 0 means that it has none.
pub(super) fn amd_uuid(unique_id: u64) -> Option<String> {
    (unique_id != 0).then(|| format!("GPU-{unique_id:016x}"))
}

/// Major of the NVIDIA GPUs, fixed (`nv-chardev-numbers.h`, `devices.txt`).
pub(super) const NVIDIA: u32 = 195;

/// Last minor of [`NVIDIA`] that is a GPU (`nv-chardev-numbers.h`).
pub(super) const NVIDIA_LAST_GPU: u32 = 247;

/// Minor of `/dev/nvidia-modeset`.
pub(super) const NVIDIA_MODESET: u32 = 254;

/// Minor of `/dev/nvidiactl`.
pub(super) const NVIDIA_CTL: u32 = 255;

/// Major of the DRM class, fixed (`include/drm/drm_drv.h`, `devices.txt`).
pub(super) const DRM: u32 = 226;

/// First minor of [`DRM`] that is a render node.
pub(super) const DRM_FIRST_RENDER: u32 = 128;

/// Major of the accel class, fixed (`include/drm/drm_accel.h`).
pub(super) const ACCEL: u32 = 261;

/// The character major that a driver registered on this boot.
pub fn char_major(facts: &GpuFacts, driver: &str) -> Option<u32> {
    Majors::new(facts).char_major(driver)
}

/// The registrations of one boot, in the file's order.
pub(super) struct Majors(Vec<RegisteredDriver>);

impl Majors {
    /// Those of the facts; none if the file is not there.
    pub(super) fn new(facts: &GpuFacts) -> Self {
        Self(facts.drivers().unwrap_or_default())
    }

    /// The names registered for a major; several drivers can share one.
    pub(super) fn names(&self, kind: DeviceType, major: u32) -> impl Iterator<Item = &str> {
        let matches = self.0.iter().filter(move |driver| (driver.kind, driver.major) == (kind, major));
        matches.map(|driver| driver.name.as_str())
    }

    /// The first character major registered under a name.
    pub(super) fn char_major(&self, name: &str) -> Option<u32> {
        let driver = self.0.iter().find(|driver| driver.kind == DeviceType::Char && driver.name == name);
        driver.map(|driver| driver.major)
    }

    /// Whether nothing is known: the file was not there.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_hold_colons_and_blanks() {
        let text = "Bus Location: \t 0000:3b:00.0  \nBAR0:\nIRQ:1";
        assert_eq!(value(text, "Bus Location"), Some("0000:3b:00.0"));
        assert_eq!(value(text, "IRQ"), Some("1"));
        assert_eq!((value(text, "BAR0"), value(text, "Model")), (None, None));
    }

    #[test]
    fn numbers_have_one_spelling() {
        assert_eq!(number("nvidia17", "nvidia"), Some(17));
        for name in ["nvidia", "nvidia+1", "nvidia01", "nvidia-1", "nvidiactl", "card1"] {
            assert_eq!(number(name, "nvidia"), None, "{name}");
        }
    }

    #[test]
    fn under_stops_at_the_prefix() {
        let mut facts = GpuFacts::default();
        for path in ["/a", "/b/1", "/b/2", "/c"] {
            facts.files.insert(path.to_owned(), String::new());
        }
        assert_eq!(under(&facts, "/b/").map(|(rest, _)| rest).collect::<Vec<_>>(), ["1", "2"]);
    }

    fn facts(devices: &str) -> GpuFacts {
        let files = [("/proc/devices".to_owned(), devices.to_owned())].into();
        GpuFacts { files, ..GpuFacts::default() }
    }

    #[test]
    fn sections_and_shared_majors() {
        let text = "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n510 nvidia-uvm\n\nBlock devices:\n  1 x\n";
        let facts = facts(text);
        let majors = Majors::new(&facts);
        assert_eq!(majors.names(DeviceType::Char, 195).collect::<Vec<_>>(), ["nvidia", "nvidiactl"]);
        assert_eq!(majors.names(DeviceType::Block, 1).collect::<Vec<_>>(), ["x"]);
        assert_eq!(majors.char_major("nvidia-uvm"), Some(510));
        assert_eq!(majors.char_major("x"), None);
    }

    #[test]
    fn text_outside_sections_is_ignored() {
        let facts = facts("195 nvidia\nCharacter devices:\nx y\n 7\n-1 z\n");
        assert!(Majors::new(&facts).is_empty());
    }
}
