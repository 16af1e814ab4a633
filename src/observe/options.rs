//! What the caller asks for: where to look, for how long, and at which cgroups.

use std::path::PathBuf;
use std::time::Instant;

/// Where to look, and for how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cgroup root; default: the first cgroup2 mount that no other hides,
    /// else the v1 devices mount.
    pub cgroup_root: Option<PathBuf>,
    /// The proc file system.
    pub proc: PathBuf,
    /// Prefix of the GPU inventory's paths.
    pub gpu_root: PathBuf,
    /// When to stop and return what there is.
    pub deadline: Option<Instant>,
    /// Whether to look into processes: environments and held devices.
    pub detail: bool,
    /// Whether to name the users of processes that are not looked into.
    pub users: bool,
    /// Where Slurm's `gres.conf` is; default: the usual places.
    pub gres_conf: Option<PathBuf>,
    /// Whether gpumap's own environment is that of a Slurm hook.
    pub hook: bool,
    /// Whether to read what systemd's unit files say about devices.
    pub units: bool,
    /// Prefix of the unit files' paths and of the device nodes they name.
    pub unit_root: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cgroup_root: None,
            proc: "/proc".into(),
            gpu_root: "/".into(),
            deadline: None,
            detail: false,
            users: false,
            gres_conf: None,
            hook: false,
            units: false,
            unit_root: "/".into(),
        }
    }
}

/// A cgroup that is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// An absolute path below the cgroup root's mount point, or a path from
    /// the root, with or without a leading `/`. Without one it is a path from
    /// the working directory if that is a cgroup.
    pub path: PathBuf,
    /// Whether everything below is asked for too.
    pub recursive: bool,
}
