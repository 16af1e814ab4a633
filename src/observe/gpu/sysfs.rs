//! Reads sysfs: the KFD topology (AMD), the DRM and accel classes, PCI attributes.

use std::collections::BTreeSet;

use super::tree::Tree;

/// KFD's list of compute nodes; CPUs are nodes too.
const KFD: &str = "/sys/class/kfd/kfd/topology/nodes";
/// Every PCI device.
const PCI: &str = "/sys/bus/pci/devices";
/// More compute nodes than any machine has.
const KFD_LIMIT: usize = 1024;
/// More class entries than any machine has.
const CLASS_LIMIT: usize = 4096;
/// PCI attributes that are read. `product_name` and `unique_id` are amdgpu's.
const ATTRIBUTES: [&str; 6] = ["vendor", "device", "class", "numa_node", "product_name", "unique_id"];

/// Collects the classes, then the PCI devices of the entries found.
pub(super) fn collect(tree: &mut Tree<'_>) {
    kfd(tree);
    class(tree, "/sys/class/drm", |name| numbered(name, "card") || numbered(name, "renderD"));
    class(tree, "/sys/class/accel", |_| true);
    for address in addresses(tree) {
        let dir = format!("{PCI}/{address}");
        for name in ATTRIBUTES {
            tree.file(&format!("{dir}/{name}"));
        }
        tree.link(&format!("{dir}/driver"));
    }
}

/// The KFD nodes. A node that may not be read is reported once, not per file.
fn kfd(tree: &mut Tree<'_>) {
    for node in tree.names(KFD, KFD_LIMIT, |name| numbered(name, "")) {
        let dir = format!("{KFD}/{node}");
        if tree.file(&format!("{dir}/gpu_id")) {
            tree.file(&format!("{dir}/name"));
            tree.file(&format!("{dir}/properties"));
        }
    }
}

/// One device class: each entry's number, device and driver.
fn class(tree: &mut Tree<'_>, dir: &str, keep: impl Fn(&str) -> bool) {
    for name in tree.names(dir, CLASS_LIMIT, keep) {
        let entry = format!("{dir}/{name}");
        tree.file(&format!("{entry}/dev"));
        tree.link(&format!("{entry}/device"));
        tree.link(&format!("{entry}/device/driver"));
    }
}

/// Whether `name` is `prefix` and a number: `card0`, but not `card0-DP-1`.
fn numbered(name: &str, prefix: &str) -> bool {
    let digits = name.strip_prefix(prefix).unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The PCI addresses that the facts name so far: the NVIDIA driver's
/// directories and the devices of the classes. AMD's KFD nodes have a DRM
/// device each.
fn addresses(tree: &Tree<'_>) -> BTreeSet<String> {
    let nvidia = tree.facts.files.keys().filter_map(|path| path.strip_prefix("/proc/driver/nvidia/gpus/"));
    let nvidia = nvidia.filter_map(|rest| rest.strip_suffix("/information"));
    let classes = tree.facts.links.values().filter_map(|target| target.rsplit('/').next());
    nvidia.chain(classes).filter(|name| is_address(name)).map(str::to_owned).collect()
}

/// Whether a name has the form of a PCI address, so that it is safe as a
/// path component.
fn is_address(name: &str) -> bool {
    let valid = |byte: u8| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.';
    name.len() <= 16 && name.contains(':') && name.bytes().all(valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connectors_are_not_cards() {
        assert!(numbered("card0", "card") && numbered("17", ""));
        assert!(!numbered("card0-DP-1", "card") && !numbered("card", "card") && !numbered("x", "card"));
    }

    #[test]
    fn only_addresses_become_paths() {
        assert!(is_address("0000:3b:00.0"));
        assert!(!is_address("..") && !is_address("amdgpu_xcp_1") && !is_address("nvidia"));
    }
}
