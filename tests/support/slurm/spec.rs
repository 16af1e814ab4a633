//! What kind of node a cluster has: its devices, Slurm's view of them, and the
//! inventory that gpumap reads.

use std::fs;
use std::path::{Path, PathBuf};

/// A node's GPUs.
#[derive(Clone, Debug)]
pub struct Spec {
    /// `GresTypes`.
    pub types: &'static str,
    /// `Gres=` of the node.
    pub gres: &'static str,
    /// `gres.conf`.
    pub conf: &'static str,
    /// Device nodes: path, major, minor.
    pub nodes: Vec<(String, u32, u32)>,
    /// The inventory, a tree for `--gpu-root`.
    pub inventory: Inventory,
    /// Whether Slurm confines its jobs: `ConstrainDevices`.
    pub constrain: bool,
    /// Whether hooks are there, see [`super::hooks`], and further lines of
    /// `slurm.conf` that name them; `@WORK@` is the working directory.
    pub hooks: Option<String>,
    /// Further lines of `slurm.conf`.
    pub more: &'static str,
    /// `job_container.conf`, for a [`Self::more`] that names the plugin.
    pub containers: &'static str,
    /// The tree of a distribution whose Slurm runs instead of the machine's.
    pub tree: Option<PathBuf>,
}

/// Where the inventory comes from.
#[derive(Clone, Copy, Debug)]
pub enum Inventory {
    /// A tree in `fixtures/gpu`.
    Fixture(&'static str),
    /// [`OPENABLE`] as accelerators.
    Openable,
}

/// Devices of every Linux that any process can open and none needs: full,
/// random, urandom, kmsg, all of the driver `mem`. An inventory whose
/// `/proc/devices` says that `habanalabs` has their major takes `/dev/hlN` with
/// that major for accelerators, so these are GPUs that can be held.
pub const OPENABLE: [(&str, u32, u32); 4] =
    [("/dev/hl0", 1, 7), ("/dev/hl1", 1, 8), ("/dev/hl2", 1, 9), ("/dev/hl3", 1, 11)];

impl Spec {
    /// Four NVIDIA GPUs whose minors do not follow PCI order. No driver is
    /// behind the nodes: they can be asked about, and not be opened.
    pub fn nvidia() -> Self {
        let mut nodes = nvidia_nodes(4);
        nodes.push(("/dev/nvidia-uvm".into(), 235, 0));
        Self {
            types: "gpu",
            gres: "gpu:4",
            conf: "Name=gpu File=/dev/nvidia[0-3]\n",
            nodes,
            inventory: Inventory::Fixture("skewed"),
            constrain: true,
            hooks: None,
            more: "",
            containers: "",
            tree: None,
        }
    }

    /// The same four GPUs, each for four shards.
    pub fn shards() -> Self {
        Self {
            types: "gpu,shard",
            gres: "gpu:4,shard:16",
            conf: "Name=gpu File=/dev/nvidia[0-3]\nName=shard Count=16\n",
            ..Self::nvidia()
        }
    }

    /// Two GPUs in MIG mode: on the first two instances, on the second the whole
    /// of it.
    pub fn mig() -> Self {
        let mut nodes = nvidia_nodes(3);
        nodes.remove(1);
        let caps = [1, 2, 12, 13, 21, 22, 23, 336];
        nodes.extend(caps.map(|minor| (format!("/dev/nvidia-caps/nvidia-cap{minor}"), 235, minor)));
        Self {
            types: "gpu",
            gres: "gpu:1g:2,gpu:whole:1",
            conf: "\
Name=gpu Type=1g MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap12,/dev/nvidia-caps/nvidia-cap13
Name=gpu Type=1g MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap22
Name=gpu Type=whole File=/dev/nvidia2
",
            nodes,
            inventory: Inventory::Fixture("mig"),
            ..Self::nvidia()
        }
    }

    /// Four accelerators that can be opened.
    pub fn openable() -> Self {
        Self {
            types: "gpu",
            gres: "gpu:4",
            conf: "Name=gpu File=/dev/hl[0-3]\n",
            nodes: OPENABLE.map(|(path, major, minor)| (path.to_owned(), major, minor)).into(),
            inventory: Inventory::Openable,
            ..Self::nvidia()
        }
    }

    /// Writes the inventory, if it is not in `fixtures/`, and returns its root.
    pub fn write_inventory(&self, dir: &Path) -> PathBuf {
        match self.inventory {
            Inventory::Fixture(name) => Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/gpu").join(name),
            Inventory::Openable => {
                write_openable(dir);
                dir.to_owned()
            }
        }
    }
}

/// An inventory of [`OPENABLE`] at `root`.
pub fn write_openable(root: &Path) {
    fs::create_dir_all(root.join("dev")).expect("a directory");
    fs::create_dir_all(root.join("proc")).expect("a directory");
    let devices = "Character devices:\n  1 mem\n  1 habanalabs\n";
    fs::write(root.join("proc/devices"), devices).expect("a file");
    for (path, major, minor) in OPENABLE {
        let stand_in = format!("c {major}:{minor}\n");
        fs::write(root.join(path.trim_start_matches('/')), stand_in).expect("a file");
    }
}

fn nvidia_nodes(count: u32) -> Vec<(String, u32, u32)> {
    let gpus = (0..count).map(|minor| (format!("/dev/nvidia{minor}"), 195, minor));
    gpus.chain([("/dev/nvidiactl".to_owned(), 195, 255)]).collect()
}
