//! From a process to its cgroup.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::hierarchy::Hierarchy;
use super::procfile::cgroup_line;
use super::{ObserveError, Options};
use crate::sys::dir::Dir;

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
