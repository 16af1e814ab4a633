//! Short names for device numbers on this host, for people who read rules.

use std::collections::BTreeMap;

use super::facts::{Majors, NVIDIA, NVIDIA_CTL, NVIDIA_LAST_GPU, NVIDIA_MODESET};
use crate::model::DeviceType;
use crate::observation::GpuFacts;

/// Numbers that are the same on every Linux (`admin-guide/devices.txt`).
const FIXED: [(u32, u32, &str); 13] = [
    (1, 1, "mem"),
    (1, 3, "null"),
    (1, 5, "zero"),
    (1, 7, "full"),
    (1, 8, "random"),
    (1, 9, "urandom"),
    (1, 11, "kmsg"),
    (5, 0, "tty"),
    (5, 1, "console"),
    (5, 2, "ptmx"),
    (10, 200, "tun"),
    (10, 229, "fuse"),
    (10, 232, "kvm"),
];

/// Majors of Unix98 pseudo terminals.
const PTS: std::ops::RangeInclusive<u32> = 136..=143;

/// The labels of one host, prepared for many questions.
pub struct Labels<'a> {
    majors: Majors,
    nodes: BTreeMap<(DeviceType, u32, u32), &'a str>,
}

impl<'a> Labels<'a> {
    /// Prepares the labels that the facts allow. If several nodes have one
    /// number, the first path in the facts names it.
    pub fn new(facts: &'a GpuFacts) -> Self {
        let majors = Majors::new(facts);
        let mut nodes = BTreeMap::new();
        for node in &facts.nodes {
            let name = node.path.strip_prefix("/dev/").unwrap_or(&node.path);
            if !is_stale(&majors, name, node.major) {
                nodes.entry((node.kind, node.major, node.minor)).or_insert(name);
            }
        }
        Self { majors, nodes }
    }

    /// A label for one device number: the path of its GPU node without
    /// `/dev/`, else a number that is the same everywhere, else what the
    /// driver's name in `/proc/devices` implies; `None` if nothing is known.
    pub fn describe(&self, kind: DeviceType, major: u32, minor: u32) -> Option<String> {
        let node = self.nodes.get(&(kind, major, minor)).map(|name| (*name).to_owned());
        let fixed = || (kind == DeviceType::Char).then(|| fixed(major, minor)).flatten();
        let driver = || self.majors.names(kind, major).next().map(|name| by_driver(name, minor));
        node.or_else(fixed).or_else(driver)
    }

    /// The names that drivers registered for a major, in the order of
    /// `/proc/devices`.
    pub fn driver_names(&self, kind: DeviceType, major: u32) -> Vec<String> {
        self.majors.names(kind, major).map(str::to_owned).collect()
    }
}

/// [`Labels::describe`] for one question.
pub fn describe(facts: &GpuFacts, kind: DeviceType, major: u32, minor: u32) -> Option<String> {
    Labels::new(facts).describe(kind, major, minor)
}

/// [`Labels::driver_names`] for one question.
pub fn driver_names(facts: &GpuFacts, kind: DeviceType, major: u32) -> Vec<String> {
    Labels::new(facts).driver_names(kind, major)
}

/// Whether a node's name belongs to a driver with a dynamic major and its
/// number to another driver on this boot.
fn is_stale(majors: &Majors, name: &str, major: u32) -> bool {
    let driver = match name {
        "nvidia-uvm" | "nvidia-uvm-tools" => "nvidia-uvm",
        "kfd" => "kfd",
        _ => match name.split_once('/') {
            Some((dir @ ("nvidia-caps" | "nvidia-caps-imex-channels"), _)) => dir,
            _ => return false,
        },
    };
    !majors.is_empty() && !majors.names(DeviceType::Char, major).any(|name| name == driver)
}

/// Labels of numbers that need no look at the host.
fn fixed(major: u32, minor: u32) -> Option<String> {
    let label = match (major, minor) {
        (NVIDIA, NVIDIA_CTL) => "nvidiactl".to_owned(),
        (NVIDIA, NVIDIA_MODESET) => "nvidia-modeset".to_owned(),
        (NVIDIA, 0..=NVIDIA_LAST_GPU) => format!("nvidia{minor}"),
        (major, _) if PTS.contains(&major) => "pts".to_owned(),
        _ => FIXED.iter().find(|entry| (entry.0, entry.1) == (major, minor))?.2.to_owned(),
    };
    Some(label)
}

/// The name that a driver gives to its node with this minor, where that is known;
/// else the driver's name.
fn by_driver(name: &str, minor: u32) -> String {
    match (name, minor) {
        ("nvidia-uvm", 1) => "nvidia-uvm-tools".to_owned(),
        ("nvidia-caps", _) => format!("nvidia-caps/nvidia-cap{minor}"),
        ("nvidia-caps-imex-channels", _) => format!("{name}/channel{minor}"),
        ("drm", 0..=127) => format!("dri/card{minor}"),
        ("drm", 128..=191) => format!("dri/renderD{minor}"),
        ("accel", _) => format!("accel/accel{minor}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::DeviceNode;

    fn facts() -> GpuFacts {
        let devices = "Character devices:\n136 pts\n195 nvidia\n195 nvidiactl\n226 drm\n235 nvidia-uvm\n510 nvidia-caps\n";
        let node = |path: &str, major, minor| DeviceNode {
            path: path.to_owned(),
            kind: DeviceType::Char,
            major,
            minor,
            mode: 0o666,
            uid: 0,
            gid: 0,
        };
        GpuFacts {
            files: [("/proc/devices".to_owned(), devices.to_owned())].into(),
            // The second node is left over from another boot.
            nodes: vec![node("/dev/nvidia0", 195, 0), node("/dev/nvidia-uvm", 510, 0)],
            ..GpuFacts::default()
        }
    }

    #[test]
    fn labels_are_those_of_this_host() {
        let facts = facts();
        let label = |major, minor| describe(&facts, DeviceType::Char, major, minor).unwrap_or_default();
        assert_eq!([label(195, 0), label(195, 255), label(195, 3)], ["nvidia0", "nvidiactl", "nvidia3"]);
        assert_eq!(
            [label(235, 0), label(235, 1), label(510, 0)],
            ["nvidia-uvm", "nvidia-uvm-tools", "nvidia-caps/nvidia-cap0"]
        );
        assert_eq!([label(1, 3), label(136, 7), label(226, 129)], ["null", "pts", "dri/renderD129"]);
    }

    #[test]
    fn unknown_numbers_have_no_label() {
        let facts = facts();
        assert_eq!(describe(&facts, DeviceType::Char, 99, 0), None);
        assert_eq!(describe(&facts, DeviceType::Block, 195, 0), None);
        assert_eq!(driver_names(&facts, DeviceType::Char, 195), ["nvidia", "nvidiactl"]);
    }
}
