//! What the caller asks for: where to look, for how long, and at which cgroups.

use std::path::PathBuf;
use std::time::Instant;

use crate::model::CgroupPathBuf;

/// What to observe, where, and for how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cgroup root. By default the first cgroup2 mount that no other mount hides,
    /// or else the mount of the v1 devices controller.
    pub cgroup_root: Option<PathBuf>,
    /// The proc file system.
    pub proc: PathBuf,
    /// Prefix of the GPU inventory's paths.
    pub gpu_root: PathBuf,
    /// A file with what `nvidia-smi -L` printed. By default the file or the program that
    /// the site's configuration names.
    pub mig_list: Option<PathBuf>,
    /// When to stop and return the facts so far.
    pub deadline: Option<Instant>,
    /// Whether to read environments and held devices of processes.
    pub detail: bool,
    /// Whether to look up the users of processes whose details are not read.
    pub users: bool,
    /// The path of Slurm's `gres.conf`. By default the usual places are tried.
    pub gres_conf: Option<PathBuf>,
    /// Whether gpumap runs in a hook of Slurm.
    pub hook: bool,
    /// Whether to read what systemd's unit files say about devices.
    pub units: bool,
    /// Whether to read Slurm's files without the details of processes, which read them
    /// too.
    pub slurm: bool,
    /// Whether to read which devices files of container runtimes list.
    pub containers: bool,
    /// Prefix of the paths of unit files, of the device nodes they name, and of files of
    /// container runtimes.
    pub unit_root: PathBuf,
    /// The most cgroups that a monitor follows. Tests lower it.
    pub most_cgroups: usize,
}

/// The most cgroups that a monitor follows unless a test lowers it.
const MOST_CGROUPS: usize = 1 << 18;

impl Default for Options {
    fn default() -> Self {
        Self {
            cgroup_root: None,
            proc: "/proc".into(),
            gpu_root: "/".into(),
            mig_list: None,
            deadline: None,
            detail: false,
            users: false,
            gres_conf: None,
            hook: false,
            units: false,
            slurm: false,
            containers: false,
            unit_root: "/".into(),
            most_cgroups: MOST_CGROUPS,
        }
    }
}

/// A cgroup to observe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupTarget {
    pub(super) path: TargetPath,
    /// Whether to observe everything below it too.
    pub(super) recursive: bool,
}

/// How a cgroup is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TargetPath {
    /// As somebody wrote it.
    Typed(PathBuf),
    /// By its path from the root.
    Observed(CgroupPathBuf),
}

impl CgroupTarget {
    /// The cgroup that a user's path means: an absolute path below the cgroup root's mount
    /// point, or a path from the root, with or without a leading `/`. Without one it is a
    /// path from the working directory if that is a cgroup.
    pub fn typed(path: impl Into<PathBuf>, recursive: bool) -> Self {
        Self { path: TargetPath::Typed(path.into()), recursive }
    }

    /// A cgroup that was observed, by its path from the root.
    pub fn observed(path: impl AsRef<[u8]>, recursive: bool) -> Self {
        Self { path: TargetPath::Observed(CgroupPathBuf::observed(path)), recursive }
    }

    /// All cgroups.
    pub fn all() -> Self {
        Self::observed("/", true)
    }
}
