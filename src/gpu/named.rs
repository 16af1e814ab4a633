//! Finds the device that a name means: names as gpumap, nvidia-smi and lspci
//! print them.
//!
//! A name that fits several devices is an error that lists all of them.

use std::collections::BTreeMap;

use crate::model::{DeviceType, MAX_MAJOR, MAX_MINOR, Vendor};
use crate::observation::GpuFacts;
use crate::report::Gpu;

use super::pci::PciAddress;

/// How many devices an error lists.
const SHOWN: usize = 8;
/// Bytes of the shortest beginning of a UUID that is looked for: `GPU-` begins all of
/// them.
const UUID_LEAST: usize = 5;

/// A device: its kind, major and minor number.
pub type DeviceNumber = (DeviceType, u32, u32);

/// Why a name does not mean one device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No device has this name.
    #[error("no GPU or GPU node here is called so; {0}")]
    Unknown(String),
    /// A PCI address without its function.
    #[error("{0}")]
    Incomplete(String),
    /// Several devices have this name.
    #[error("it may mean {}", .0.join(" or "))]
    Ambiguous(Vec<String>),
    /// A MIG instance, which takes several nodes.
    #[error("a MIG instance has several nodes; ask for its GPU and its /dev/nvidia-caps nodes")]
    Mig,
    /// A GPU that has no node and no known number.
    #[error("it has no device node")]
    NoNode,
}

/// The device that `name` means: a node's name (`nvidia0`, `renderD128`,
/// `dri/card1`), a UUID or the beginning of one, a PCI address with or without
/// its domain, a key as `--json` has it, or the number of an NVIDIA GPU where
/// its NVML index and its minor do not contradict each other.
///
/// # Errors
///
/// No such name, or several devices of that name.
pub fn named(facts: &GpuFacts, gpus: &[Gpu], name: &str) -> Result<DeviceNumber, NameError> {
    if name.starts_with("MIG-") || is_instance(gpus, name) {
        return Err(NameError::Mig);
    }
    let mut found = BTreeMap::new();
    for node in facts.nodes.iter().filter(|node| is_node(&node.path, name)) {
        found.insert((node.kind, node.major, node.minor), node.path.clone());
    }
    let meant: Vec<&Gpu> = gpus.iter().filter(|gpu| is_gpu(gpu, name)).collect();
    for gpu in &meant {
        if let Some((major, minor)) = gpu.major.zip(gpu.minor) {
            found.entry((DeviceType::Char, major, minor)).or_insert_with(|| label(gpu));
        }
    }
    match found.len() {
        1 => found.into_keys().next().ok_or(NameError::NoNode),
        0 if !meant.is_empty() => Err(NameError::NoNode),
        0 => match incomplete(gpus, name) {
            Some(why) => Err(why),
            None => by_number(name).ok_or_else(|| NameError::Unknown(known(gpus))),
        },
        _ => Err(NameError::Ambiguous(found.into_values().take(SHOWN).collect())),
    }
}

fn is_node(path: &str, name: &str) -> bool {
    let below = path.strip_prefix("/dev/").unwrap_or(path);
    below == name || below.rsplit('/').next() == Some(name)
}

fn is_gpu(gpu: &Gpu, name: &str) -> bool {
    let starts = |uuid: &str| {
        name.len() >= UUID_LEAST && uuid.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name))
    };
    gpu.key.eq_ignore_ascii_case(name)
        || gpu.uuid.as_deref().is_some_and(starts)
        || is_address(gpu, name)
        || is_number(gpu, name)
}

/// `0000:1b:00.0`, `00000000:1B:00.0` as nvidia-smi writes it, or `1b:00.0` as
/// lspci does.
fn is_address(gpu: &Gpu, name: &str) -> bool {
    let Some(pci) = gpu.pci.as_deref().and_then(PciAddress::parse) else { return false };
    let asked = if name.matches(':').count() == 1 { format!("0000:{name}") } else { name.to_owned() };
    PciAddress::parse(&asked) == Some(pci)
}

/// Why a name is incomplete: it is the beginning of a GPU's PCI address.
fn incomplete(gpus: &[Gpu], name: &str) -> Option<NameError> {
    let functions = (0..8).map(|function| format!("{name}.{function}"));
    let mut addresses = functions.filter(|address| gpus.iter().any(|gpu| is_address(gpu, address)));
    if let Some(address) = addresses.next() {
        let why = format!("a PCI address ends with its function: write {address}");
        return Some(NameError::Incomplete(why));
    }
    None
}

/// The character device of `195:0`, which is how gpumap prints numbers of GPUs.
fn by_number(name: &str) -> Option<DeviceNumber> {
    let (major, minor) = name.split_once(':')?;
    let number = |text: &str, max: u32| {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| is_plain && *number <= max)
    };
    Some((DeviceType::Char, number(major, MAX_MAJOR)?, number(minor, MAX_MINOR)?))
}

fn is_number(gpu: &Gpu, name: &str) -> bool {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_digit());
    let number = name.parse().ok().filter(|_| is_plain);
    gpu.vendor == Vendor::Nvidia && number.is_some() && (gpu.nvml_index == number || gpu.minor == number)
}

/// `nvidia0/1/0` or `KEY/1/0`, as tables and `--json` write a MIG instance.
fn is_instance(gpus: &[Gpu], name: &str) -> bool {
    let Some((gpu, _)) = name.split_once('/') else { return false };
    let owns = |known: &Gpu| *known.key == *gpu || known.nodes.iter().any(|node| is_node(&node.path, gpu));
    gpus.iter().any(|known| !known.mig.is_empty() && owns(known))
}

fn label(gpu: &Gpu) -> String {
    let node = gpu.nodes.iter().find(|node| node.gate).map(|node| node.path.as_str());
    let uuid = gpu.uuid.as_deref().or(gpu.pci.as_deref());
    match (node, uuid) {
        (Some(node), Some(uuid)) => format!("{node} ({uuid})"),
        (node, uuid) => node.or(uuid).unwrap_or(&gpu.key).to_owned(),
    }
}

/// The names that would have been understood.
fn known(gpus: &[Gpu]) -> String {
    let gates = gpus.iter().filter_map(|gpu| gpu.nodes.iter().find(|node| node.gate));
    let mut names: Vec<&str> = gates.filter_map(|node| node.path.rsplit('/').next()).collect();
    if names.is_empty() {
        return "no GPU is known here (see gpumap node)".to_owned();
    }
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("there are {}{more}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Vendor;
    use crate::observation::DeviceNode;
    use crate::report::GpuNode;

    fn gpu(uuid: &str, pci: &str, minor: u32, nvml: u32) -> Gpu {
        let path = format!("/dev/nvidia{minor}");
        Gpu {
            key: uuid.into(),
            vendor: Vendor::Nvidia,
            uuid: Some(uuid.to_owned()),
            pci: Some(pci.to_owned()),
            major: Some(195),
            minor: Some(minor),
            nvml_index: Some(nvml),
            nodes: vec![GpuNode { path, major: 195, minor, gate: true }],
            ..Gpu::default()
        }
    }

    fn node(path: &str, major: u32, minor: u32) -> DeviceNode {
        let path = path.to_owned();
        DeviceNode { path, kind: DeviceType::Char, major, minor, mode: 0o666, uid: 0, gid: 0 }
    }

    fn ask(name: &str) -> Result<(u32, u32), NameError> {
        let gpus = [
            gpu("GPU-aa11", "0000:1b:00.0", 0, 0),
            gpu("GPU-aa22", "0000:3b:00.0", 2, 1),
            gpu("GPU-bb33", "0001:3b:00.0", 1, 2),
        ];
        let mut nodes: Vec<DeviceNode> =
            (0..3).map(|minor| node(&format!("/dev/nvidia{minor}"), 195, minor)).collect();
        nodes.push(node("/dev/nvidiactl", 195, 255));
        nodes.push(node("/dev/dri/renderD128", 226, 128));
        let facts = GpuFacts { nodes, ..GpuFacts::default() };
        named(&facts, &gpus, name).map(|(_, major, minor)| (major, minor))
    }

    /// Make sure that each kind of name is found, in every length and case that
    /// other tools print.
    #[test]
    fn names() {
        for (name, device) in [
            ("nvidia2", (195, 2)),
            ("nvidiactl", (195, 255)),
            ("renderD128", (226, 128)),
            ("dri/renderD128", (226, 128)),
            ("GPU-aa22", (195, 2)),
            ("GPU-b", (195, 1)),
            ("gpu-B", (195, 1)),
            ("0000:1B:00.0", (195, 0)),
            ("00000000:1B:00.0", (195, 0)),
            ("1b:00.0", (195, 0)),
            ("3b:00.0", (195, 2)),
            ("0001:3b:00.0", (195, 1)),
            ("0", (195, 0)),
        ] {
            assert_eq!(ask(name), Ok(device), "{name}");
        }
    }

    /// Make sure that what may mean several GPUs is refused with all of them.
    #[test]
    fn ambiguous() {
        for (name, candidates) in
            [("GPU-aa", ["/dev/nvidia0", "/dev/nvidia2"]), ("1", ["/dev/nvidia1", "/dev/nvidia2"])]
        {
            let text = ask(name).unwrap_err().to_string();
            assert!(candidates.iter().all(|candidate| text.contains(candidate)), "{name}: {text}");
        }
        for name in ["nvidia", "GPU-", "7", "2b:00.0", "nvidia02", "+0", "", "card0"] {
            assert!(matches!(ask(name), Err(NameError::Unknown(_))), "{name}: {:?}", ask(name));
        }
        assert_eq!(ask("MIG-1234"), Err(NameError::Mig));
    }

    /// Make sure that a name of which a part is missing says how to write it.
    #[test]
    fn incomplete_names() {
        let text = |name: &str| ask(name).unwrap_err().to_string();
        for (name, hint) in [("3b:00", "write 3b:00.0"), ("0001:3b:00", "write 0001:3b:00.0")] {
            assert!(text(name).ends_with(hint), "{name}: {}", text(name));
        }
        assert!(!text("2b:00").contains("write"), "{}", text("2b:00"));
    }
}
