//! Collects what the system says about GPUs without opening one.
//!
//! Only text files of `/proc` and `/sys` are read, and device nodes are looked at
//! with `lstat`. A driver that does not exist is no error; a file that exists and
//! may not be read is a [`Problem`].

mod mig_list;
mod tree;

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::options::Options;
use super::problems::Log;
use crate::model::{DeviceType, ProblemCode};
use crate::observation::{DeviceNode, GpuFacts, Problem};
use crate::sys::retry::again;
use tree::Tree;

/// Collects the GPU facts of a node, with the list of MIG instances that the caller or
/// the site's configuration names, if there are instances.
pub(super) fn of_node(options: &Options, log: &mut Log) -> GpuFacts {
    let facts = collect(&options.gpu_root, &mut log.problems);
    if !facts.files.keys().any(|path| path.contains("/mig/")) {
        return facts;
    }
    GpuFacts { mig_list: mig_list::named(options, log), ..facts }
}

/// Collects the GPU facts below `gpu_root` (`/` on a live node).
///
/// Paths in the result are as on the node, without the prefix. What exists but
/// could not be read is appended to `errors`:
///
/// | code | meaning |
/// |---|---|
/// | `no-right` | the kernel refused to show a file or directory |
/// | `unreadable` | reading failed for another reason |
/// | `too-large` | a file was cut at its size limit |
/// | `too-many` | entries of a directory, nodes, or bytes were left out |
/// | `bad-node` | a stand-in for a device node does not parse |
///
/// Below any root but `/` a regular file stands for a device node if its text
/// is `TYPE MAJOR:MINOR [MODE [UID [GID]]]`, such as `c 195:0` or
/// `c 226:128 660 0 44`: type `c` or `b`, mode octal (default 666), owner and
/// group decimal (default 0). On a live node such a file is no device.
pub fn collect(gpu_root: &Path, errors: &mut Vec<Problem>) -> GpuFacts {
    let before = errors.len();
    let mut tree = Tree::new(gpu_root, errors);
    tree.file("/proc/devices");
    collect_nvidia(&mut tree);
    collect_sysfs(&mut tree);
    collect_nodes(&mut tree);
    let facts = tree.facts;
    GpuFacts { unread: errors.len() > before, ..facts }
}

/// The directory of the driver's files.
const DRIVER: &str = "/proc/driver/nvidia";
/// Whether nvidia-drm can do more than name devices.
const MODESET: &str = "/sys/module/nvidia_drm/parameters/modeset";
/// The table of all possible MIG instances: about 4300 lines.
const MIG_MINORS: &str = "/proc/driver/nvidia-caps/mig-minors";
/// Bytes read of [`MIG_MINORS`].
const MIG_MINORS_LIMIT: usize = 512 << 10;
/// More GPUs than any node has.
const GPU_LIMIT: usize = 1024;
/// More instances than a GPU can have (15 GPU instances, 8 compute instances each).
const INSTANCE_LIMIT: usize = 64;

/// Collects the driver's files, if the driver is loaded.
fn collect_nvidia(tree: &mut Tree<'_>) {
    if !tree.may_have(DRIVER) {
        return;
    }
    for name in ["version", "params"] {
        tree.file(&format!("{DRIVER}/{name}"));
    }
    tree.file(MODESET);
    gpus(tree);
    if capabilities(tree) {
        tree.file_within(MIG_MINORS, MIG_MINORS_LIMIT);
    }
}

/// The information files. One that cannot be read is kept as an empty file:
/// its directory alone tells that there is a GPU.
fn gpus(tree: &mut Tree<'_>) {
    let dir = format!("{DRIVER}/gpus");
    for name in tree.names(&dir, GPU_LIMIT, |_| true) {
        let path = format!("{dir}/{name}/information");
        if !tree.file(&path) {
            tree.facts.files.insert(path, String::new());
        }
    }
}

/// The MIG capabilities; says whether any instance exists.
fn capabilities(tree: &mut Tree<'_>) -> bool {
    let dir = format!("{DRIVER}/capabilities");
    for name in ["config", "monitor"] {
        tree.file(&format!("{dir}/mig/{name}"));
    }
    let gpus = tree.names(&dir, GPU_LIMIT, |name| name.starts_with("gpu"));
    let mut found = false;
    for gpu in gpus {
        found |= instances(tree, &format!("{dir}/{gpu}/mig"));
    }
    found
}

/// The access files of one GPU's instances; says whether there is any.
fn instances(tree: &mut Tree<'_>, dir: &str) -> bool {
    let gis = tree.names(dir, INSTANCE_LIMIT, |name| name.starts_with("gi"));
    for gi in &gis {
        tree.file(&format!("{dir}/{gi}/access"));
        for ci in tree.names(&format!("{dir}/{gi}"), INSTANCE_LIMIT, |name| name.starts_with("ci")) {
            tree.file(&format!("{dir}/{gi}/{ci}/access"));
        }
    }
    !gis.is_empty()
}

/// KFD's list of compute nodes; CPUs are nodes too.
const KFD: &str = "/sys/class/kfd/kfd/topology/nodes";
/// Every PCI device.
const PCI: &str = "/sys/bus/pci/devices";
/// More compute nodes than any machine has.
const KFD_LIMIT: usize = 1024;
/// PCI vendor id of Intel.
const INTEL: &str = "0x8086";
/// More tiles than a GPU has.
const TILE_LIMIT: usize = 64;
/// More class entries than any machine has.
const CLASS_LIMIT: usize = 4096;
/// PCI attributes that are read. `product_name` and `unique_id` are amdgpu's.
const ATTRIBUTES: [&str; 6] = ["vendor", "device", "class", "numa_node", "product_name", "unique_id"];

/// Collects the classes, then the PCI devices of the entries found.
fn collect_sysfs(tree: &mut Tree<'_>) {
    kfd(tree);
    class(tree, "/sys/class/drm", |name| numbered(name, "card") || numbered(name, "renderD"));
    class(tree, "/sys/class/accel", |_| true);
    for address in addresses(tree) {
        let dir = format!("{PCI}/{address}");
        for name in ATTRIBUTES {
            tree.file(&format!("{dir}/{name}"));
        }
        tree.link(&format!("{dir}/driver"));
        if tree.facts.files.get(&format!("{dir}/vendor")).is_some_and(|id| id.trim() == INTEL) {
            directories(tree, &dir, "tile");
        }
    }
    for card in intel_cards(tree) {
        directories(tree, &format!("{card}/gt"), "gt");
    }
}

/// Keeps numbered directories as empty files: that they are there says how many tiles a GPU
/// has. xe makes `tileN` at the PCI device (drivers/gpu/drm/xe/xe_tile_sysfs.c), i915 `gt/gtN`
/// at the card since Linux 5.19 (drivers/gpu/drm/i915/gt/intel_gt_sysfs.c).
fn directories(tree: &mut Tree<'_>, dir: &str, prefix: &str) {
    for name in tree.names(dir, TILE_LIMIT, |name| numbered(name, prefix)) {
        tree.facts.files.insert(format!("{dir}/{name}"), String::new());
    }
}

/// The card nodes of i915.
fn intel_cards(tree: &Tree<'_>) -> Vec<String> {
    let devices = tree.facts.links.iter().filter_map(|(path, target)| {
        let card = path.strip_suffix("/device").filter(|card| card.starts_with("/sys/class/drm/card"))?;
        let address = target.rsplit('/').next()?;
        let driver = tree.facts.links.get(&format!("{PCI}/{address}/driver"))?;
        (driver.rsplit('/').next() == Some("i915")).then(|| card.to_owned())
    });
    devices.collect()
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

/// Nodes kept in all.
const NODE_LIMIT: usize = 4096;
/// The most bytes of a stand-in that are read.
const STAND_IN_LIMIT: usize = 256;
/// Permission bits of a stand-in without any: those that the NVIDIA driver uses.
const STAND_IN_MODE: u32 = 0o666;
/// Name prefixes in `/dev` itself: NVIDIA, AMD compute, Gaudi (`hl0`,
/// `hl_controlD0`), AWS Neuron, GPUs in WSL.
const PREFIXES: [&str; 5] = ["nvidia", "kfd", "hl", "neuron", "dxg"];
/// Directories of `/dev` in which every device node counts.
const DIRS: [&str; 4] = ["nvidia-caps", "nvidia-caps-imex-channels", "dri", "accel"];

/// Collects the nodes, sorted by directory and name.
fn collect_nodes(tree: &mut Tree<'_>) {
    let keep = |name: &str| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    for name in tree.names("/dev", NODE_LIMIT, keep) {
        node(tree, format!("/dev/{name}"));
    }
    for dir in DIRS {
        let dir = format!("/dev/{dir}");
        for name in tree.names(&dir, NODE_LIMIT, |_| true) {
            node(tree, format!("{dir}/{name}"));
        }
    }
    limit(tree);
}

/// Records one node; directories and links are left out.
fn node(tree: &mut Tree<'_>, path: String) {
    match again(|| fs::symlink_metadata(tree.real(&path))) {
        Ok(meta) if meta.file_type().is_file() && !tree.live => stand_in(tree, path),
        Ok(meta) => tree.facts.nodes.extend(from_metadata(path, &meta)),
        Err(error) => tree.failed(&path, &error),
    }
}

/// A device node, if that is what the metadata describes.
fn from_metadata(path: String, meta: &Metadata) -> Option<DeviceNode> {
    let kind = match meta.file_type() {
        kind if kind.is_char_device() => DeviceType::Char,
        kind if kind.is_block_device() => DeviceType::Block,
        _ => return None,
    };
    let (major, minor) = (libc::major(meta.rdev()), libc::minor(meta.rdev()));
    Some(DeviceNode {
        path,
        kind,
        major,
        minor,
        mode: meta.mode() & 0o7777,
        uid: meta.uid(),
        gid: meta.gid(),
    })
}

/// Reads a regular file in place of a device node.
fn stand_in(tree: &mut Tree<'_>, path: String) {
    let text: io::Result<String> = tree.text(&path, STAND_IN_LIMIT);
    match text.map(|text| parse(&path, &text)) {
        Ok(Some(node)) => tree.facts.nodes.push(node),
        Ok(None) => {
            let needs = "text such as `c 195:0` or `c 195:0 666 0 0`".to_owned();
            tree.problem(ProblemCode::BadNode, &path, "does not describe a device node".to_owned(), needs);
        }
        Err(error) => tree.failed(&path, &error),
    }
}

/// Parses `TYPE MAJOR:MINOR [MODE [UID [GID]]]`.
fn parse(path: &str, text: &str) -> Option<DeviceNode> {
    let mut words = text.split_ascii_whitespace();
    let kind = match words.next()? {
        "c" => DeviceType::Char,
        "b" => DeviceType::Block,
        _ => return None,
    };
    let (major, minor) = words.next()?.split_once(':')?;
    let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
    let mode = words.next().map_or(Some(STAND_IN_MODE), |mode| u32::from_str_radix(mode, 8).ok())?;
    let uid = words.next().map_or(Some(0), |uid| uid.parse().ok())?;
    let gid = words.next().map_or(Some(0), |gid| gid.parse().ok())?;
    let node = DeviceNode { path: path.to_owned(), kind, major, minor, mode, uid, gid };
    words.next().is_none().then_some(node)
}

/// Drops nodes beyond the limit, and reports that.
fn limit(tree: &mut Tree<'_>) {
    if tree.facts.nodes.len() > NODE_LIMIT {
        tree.facts.nodes.truncate(NODE_LIMIT);
        tree.problem(
            ProblemCode::TooMany,
            "/dev",
            format!("only {NODE_LIMIT} GPU nodes are used"),
            String::new(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Make sure that a node without GPUs is told from one that cannot be read.
    #[test]
    fn unread() {
        let root = std::env::temp_dir().join(format!("gpumap-gpus-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let mut errors = Vec::new();
        assert!(!collect(&root, &mut errors).unread && errors.is_empty());
        symlink("dev", root.join("dev")).unwrap();
        assert!(collect(&root, &mut errors).unread && !errors.is_empty());
        fs::remove_dir_all(root).unwrap();
    }

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

    #[test]
    fn stand_ins_have_defaults() {
        let node = parse("/dev/nvidia0", "c 195:0\n").unwrap();
        assert_eq!((node.kind, node.major, node.minor), (DeviceType::Char, 195, 0));
        assert_eq!((node.mode, node.uid, node.gid), (0o666, 0, 0));
        let node = parse("/dev/dri/renderD128", "c 226:128 660 0 44").unwrap();
        assert_eq!((node.mode, node.uid, node.gid), (0o660, 0, 44));
    }

    #[test]
    fn other_text_is_no_node() {
        for text in ["", "c", "x 1:2", "c 1", "c 1:", "c -1:2", "c 1:2 888", "c 1:2 666 0 0 0"] {
            assert_eq!(parse("/dev/nvidia0", text), None, "{text:?}");
        }
    }
}
