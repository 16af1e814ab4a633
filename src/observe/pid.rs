//! From a process, a path, or an id, to a cgroup.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::hierarchy::Hierarchy;
use super::procfile::cgroup_line;
use super::{ObserveError, Options};
use crate::sys::dir::Dir;
use crate::sys::handle;

/// What the kernel appends to the path of a removed cgroup.
pub(super) const DELETED: &[u8] = b" (deleted)";
/// Bytes of `/proc/PID/cgroup`.
const LIMIT: usize = 256 << 10;

/// The cgroup of a process relative to the cgroup root, with a leading `/`: a
/// path for [`Target`](super::Target). On a legacy host, its cgroup in the v1
/// devices hierarchy.
///
/// # Errors
///
/// No such process, no cgroup hierarchy, a process outside this cgroup
/// namespace, or one whose cgroup is removed.
pub fn pid_cgroup(options: &Options, pid: u32) -> Result<PathBuf, ObserveError> {
    let hierarchy = Hierarchy::find(options)?;
    let mut text = Vec::new();
    let gone = |_| ObserveError::NoSuchProcess { pid, proc: options.proc.clone() };
    let process = Dir::open(&options.proc.join(pid.to_string())).map_err(gone)?;
    process.read_into(c"cgroup", &mut text, LIMIT).map_err(gone)?;
    let controller = if hierarchy.is_legacy() { Some(b"devices".as_slice()) } else { None };
    let line = cgroup_line(&text, controller);
    let line = line.ok_or_else(|| ObserveError::NoCgroup { pid, root: hierarchy.mount.point.clone() })?;
    let path = hierarchy.mount.inside(line);
    let path =
        path.ok_or_else(|| ObserveError::OutsideNamespace { pid, path: OsStr::from_bytes(line).into() })?;
    let path = PathBuf::from(OsStr::from_bytes(&path));
    // A cgroup may really be called so.
    let removed = line.ends_with(DELETED) && hierarchy.resolve(&path).is_err();
    if removed { Err(ObserveError::CgroupRemoved { pid, path }) } else { Ok(path) }
}

/// The cgroup that a user's path means, as [`pid_cgroup()`] gives it: see
/// [`Target`](super::Target).
///
/// # Errors
///
/// No such cgroup, or no cgroup hierarchy.
pub fn path_cgroup(options: &Options, path: &Path) -> Result<PathBuf, ObserveError> {
    let parts = Hierarchy::find(options)?.resolve(path)?;
    Ok(parts.iter().fold(PathBuf::from("/"), |path, part| path.join(OsStr::from_bytes(part))))
}

/// The cgroup of an id, as [`pid_cgroup()`] gives it; `None` for one that is
/// removed or outside the root, and where that cannot be told (a legacy host,
/// before Linux 5.5, or without `CAP_DAC_READ_SEARCH`).
pub fn id_cgroup(options: &Options, id: u64) -> Option<PathBuf> {
    let hierarchy = Hierarchy::find(options).ok().filter(|hierarchy| !hierarchy.is_legacy())?;
    let found = path(&handle::open(&hierarchy.handle, id).ok()?)?;
    let below = found.strip_prefix(path(&hierarchy.handle)?).ok()?;
    // One that is removed meanwhile has another path.
    let there = hierarchy.handle.child(&Path::new(".").join(below)).ok()?;
    (there.stat().ok()?.inode == id).then(|| Path::new("/").join(below))
}

fn path(dir: &impl AsFd) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd())).ok()
}
