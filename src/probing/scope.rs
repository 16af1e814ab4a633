//! The processes to follow: all, those of a cgroup, or one.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::observation::Text;

/// Levels of cgroups that are walked, as many as the kernel side looks at.
const LEVELS: usize = 32;

/// Whom to follow: everything, or the union of processes and cgroups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessScope {
    /// Every process.
    pub all: bool,
    /// Processes.
    pub pids: Vec<u32>,
    /// Directories of cgroups, with everything below them.
    pub cgroups: Vec<PathBuf>,
}

impl ProcessScope {
    /// The ids of the cgroups: their directories' inode numbers.
    pub fn cgroup_ids(&self) -> Vec<u64> {
        self.cgroups.iter().filter_map(|path| Some(fs::metadata(path).ok()?.ino())).collect()
    }

    /// Whether a cgroup is one of those or below one: by its path relative to the
    /// directory `root`.
    pub fn has_cgroup(&self, root: &Path, path: &Text) -> bool {
        let below = path.as_bytes().strip_prefix(b"/").unwrap_or(path.as_bytes());
        let path = root.join(Path::new(OsStr::from_bytes(below)));
        self.cgroups.iter().any(|cgroup| path.starts_with(cgroup))
    }

    /// The processes that are in scope now.
    pub fn processes(&self, proc: &Path) -> BTreeSet<u32> {
        let mut found: BTreeSet<u32> = self.pids.iter().copied().collect();
        if self.all {
            let entries = fs::read_dir(proc).into_iter().flatten().flatten();
            found.extend(entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()));
        }
        for cgroup in &self.cgroups {
            add(cgroup, LEVELS, &mut found);
        }
        found
    }
}

/// Processes of a cgroup and below.
fn add(cgroup: &Path, levels: usize, found: &mut BTreeSet<u32>) {
    let procs = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    found.extend(procs.lines().filter_map(|line| line.parse::<u32>().ok()));
    if levels == 0 {
        return;
    }
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add(&entry.path(), levels - 1, found);
        }
    }
}
