//! Reads `/proc/driver/nvidia`, where the NVIDIA driver describes its GPUs.

use super::tree::Tree;

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
pub(super) fn collect(tree: &mut Tree<'_>) {
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
