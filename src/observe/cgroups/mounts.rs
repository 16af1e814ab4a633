//! Reads the mount table: where cgroup hierarchies are mounted.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::observation::CgroupMode;
use crate::observe::error::ObserveError;
use crate::observe::mountinfo::{self, MountLine, OWN_TABLE_LIMIT, unescape};
use crate::observe::problems::errno_of;
use crate::sys::absence::{OrAbsent as _, is_absence};
use crate::sys::dir::{Dir, FileSystem, read_all};
use crate::sys::file_handle;
use crate::sys::retry::again;
use crate::sys::stat::stat_at;

/// `fdinfo` of a directory has five short lines.
const FDINFO_LIMIT: usize = 4096;

/// v1 controllers as the kernel names them in mount options. Hierarchies like
/// `name=systemd` have no controller.
const CONTROLLERS: [&[u8]; 14] = [
    b"cpu",
    b"cpuacct",
    b"cpuset",
    b"memory",
    b"devices",
    b"freezer",
    b"blkio",
    b"pids",
    b"net_cls",
    b"net_prio",
    b"perf_event",
    b"hugetlb",
    b"rdma",
    b"misc",
];

/// One mounted cgroup hierarchy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::observe) struct Mount {
    /// The kernel's number for this mount, first in its line of mountinfo.
    pub(in crate::observe) id: u64,
    /// Its mount point.
    pub(in crate::observe) point: PathBuf,
    /// Which directory of the hierarchy is mounted there, `/` for the whole,
    /// as this cgroup namespace sees it.
    pub(in crate::observe) root: Vec<u8>,
}

/// All mounted hierarchies that gpumap uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::observe) struct Mounts {
    /// cgroup2, in mount order.
    pub(in crate::observe) cgroup2: Vec<Mount>,
    /// The v1 devices controller, in mount order.
    pub(in crate::observe) devices: Vec<Mount>,
    /// Whether any v1 controller is mounted.
    pub(in crate::observe) any_v1: bool,
}

impl Mount {
    /// The root of a mount that this mount table does not show (in another
    /// process's root): no path can be mapped into it.
    pub(in crate::observe) const ELSEWHERE: &[u8] = b"?";

    fn at(line: &MountLine<'_>) -> Self {
        let point = PathBuf::from(OsString::from_vec(unescape(line.point)));
        Self { id: line.id, point, root: unescape(line.root) }
    }

    /// A path of the hierarchy as seen below the mount point; `None` if it lies
    /// outside.
    pub(in crate::observe) fn inside(&self, path: &[u8]) -> Option<Vec<u8>> {
        let rest = if self.root == b"/" { path } else { path.strip_prefix(self.root.as_slice())? };
        match rest {
            [] => Some(b"/".to_vec()),
            [b'/', ..] if rest != b"/.." && !rest.starts_with(b"/../") => Some(rest.to_vec()),
            _ => None,
        }
    }

    /// The path of the hierarchy that a path below the mount point has.
    pub(in crate::observe) fn whole(&self, inside: &[u8]) -> Vec<u8> {
        if self.root == b"/" { inside.to_vec() } else { [self.root.as_slice(), inside].concat() }
    }

    /// The same mount seen from a directory below its mount point.
    pub(in crate::observe) fn narrowed(&self, to: &Path) -> Option<Self> {
        let rest = to.strip_prefix(&self.point).ok()?;
        let mut root = self.root.clone();
        for part in rest {
            if root != b"/" {
                root.push(b'/');
            }
            root.extend_from_slice(part.as_bytes());
        }
        Some(Self { id: self.id, point: to.to_owned(), root })
    }
}

impl Mounts {
    /// Reads `self/mountinfo` under `proc`.
    pub(in crate::observe) fn read(proc: &Path) -> Result<Self, ObserveError> {
        let path = proc.join("self/mountinfo");
        let mut text = Vec::new();
        let read = again(|| File::open(&path))
            .map_err(|error| errno_of(&error))
            .and_then(|file| read_all(file, &mut text, OWN_TABLE_LIMIT));
        read.map_err(|errno| ObserveError::Mounts { path, errno })?;
        Ok(Self::parse(&text))
    }

    pub(in crate::observe) fn parse(text: &[u8]) -> Self {
        let mut mounts = Self::default();
        mountinfo::mounts(text).for_each(|line| mounts.add(&line));
        mounts
    }

    fn add(&mut self, line: &MountLine<'_>) {
        match line.kind {
            b"cgroup2" => self.cgroup2.push(Mount::at(line)),
            b"cgroup" if line.super_options().any(|option| CONTROLLERS.contains(&option)) => {
                self.any_v1 = true;
                if line.super_options().any(|option| option == b"devices") {
                    self.devices.push(Mount::at(line));
                }
            }
            _ => {}
        }
    }

    /// The cgroup mount that a directory is on, by the number that the kernel
    /// gives for the open directory; `None` for another file system, and where
    /// the kernel does not give that number.
    ///
    /// # Errors
    ///
    /// Those of reading it.
    pub(in crate::observe) fn of(&self, dir: &Dir, proc: &Path) -> Result<Option<&Mount>, Errno> {
        let id = mount_id(dir, proc)?;
        let mut all = self.cgroup2.iter().chain(&self.devices);
        Ok(all.find(|mount| id == Some(mount.id)))
    }

    /// The first of `mounts` that its mount point leads to, with its directory:
    /// a later mount at the same place, or above it, hides an earlier one.
    ///
    /// # Errors
    ///
    /// The first mount that cannot be looked at, with the reason, where that may be the
    /// one. One that gpumap may not open is passed over where another can be opened.
    pub(in crate::observe) fn visible(
        mounts: &[Mount],
        proc: &Path,
    ) -> Result<Option<(Mount, Dir)>, (PathBuf, Errno)> {
        let mut refused = None;
        for mount in mounts {
            let failed = |errno| (mount.point.clone(), errno);
            let dir = match Dir::open(&mount.point) {
                Ok(dir) => dir,
                // A mount above it hides it.
                Err(Errno::ENOTDIR) => continue,
                Err(errno) if is_absence(errno) => continue,
                Err(Errno::EACCES | Errno::EPERM) => {
                    refused.get_or_insert(failed(Errno::EACCES));
                    continue;
                }
                Err(errno) => return Err(failed(errno)),
            };
            let is_it = match mount_id(&dir, proc).map_err(failed)? {
                Some(id) => id == mount.id,
                None => {
                    matches!(dir.file_system().map_err(failed)?, FileSystem::Cgroup2 | FileSystem::Cgroup1)
                }
            };
            if is_it {
                return Ok(Some((mount.clone(), dir)));
            }
        }
        refused.map_or(Ok(None), Err)
    }

    /// How this host mounts its cgroups.
    pub(in crate::observe) fn mode(&self) -> CgroupMode {
        match (self.cgroup2.is_empty(), self.any_v1) {
            (true, true) => CgroupMode::Legacy,
            (false, true) => CgroupMode::Hybrid,
            (false, false) => CgroupMode::Unified,
            (true, false) => CgroupMode::Unknown,
        }
    }
}

/// The number of the mount that an open directory is on: `mnt_id` of
/// `/proc/self/fdinfo/FD`, since Linux 3.15; `None` before, and where `proc` does not
/// show gpumap.
fn mount_id(dir: &Dir, proc: &Path) -> Result<Option<u64>, Errno> {
    let path = proc.join(format!("self/fdinfo/{}", dir.as_fd().as_raw_fd()));
    let file = match again(|| File::open(&path)).map_err(|error| errno_of(&error)).or_absent() {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(None),
        // Before Linux 5.14 it is root's where a process is not dumpable, as gpumap is not
        // with capabilities of its file. statx(2) has the number too, since Linux 5.8.
        Err(refused @ Errno::EACCES) => {
            let number = stat_at(dir, c"")?.mount.map_or_else(|| file_handle::mount(dir), Ok);
            return number.map_or(Err(refused), |number| Ok(Some(number)));
        }
        Err(errno) => return Err(errno),
    };
    let mut text = Vec::new();
    read_all(file, &mut text, FDINFO_LIMIT)?;
    let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"mnt_id:"));
    let number = |line: &[u8]| std::str::from_utf8(line).map_or(None, |text| text.trim().parse().ok());
    line.map(|line| number(line).ok_or(Errno::EIO)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &[u8] = b"\
29 23 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
30 29 0:27 / /sys/fs/cgroup/uni\\040fied\\134x rw,nosuid shared:10 - cgroup2 cgroup2 rw
31 29 0:28 / /sys/fs/cgroup/systemd rw shared:11 - cgroup cgroup rw,xattr,name=systemd
34 29 0:31 /docker/x /sys/fs/cgroup/devices rw shared:15 - cgroup cgroup rw,devices
garbage
- - -";

    /// Make sure that escapes, optional fields and rubbish are read right.
    #[test]
    fn hybrid_host() {
        let mounts = Mounts::parse(HYBRID);
        assert_eq!(mounts.mode(), CgroupMode::Hybrid);
        assert_eq!(mounts.cgroup2[0].point, Path::new("/sys/fs/cgroup/uni fied\\x"));
        let [devices] = mounts.devices.as_slice() else { panic!("{:?}", mounts.devices) };
        assert_eq!(devices.id, 34);
        assert_eq!(devices.point, Path::new("/sys/fs/cgroup/devices"));
        assert_eq!(devices.inside(b"/docker/x/y"), Some(b"/y".to_vec()));
        assert_eq!(devices.inside(b"/docker/x"), Some(b"/".to_vec()));
        assert_eq!(devices.inside(b"/docker/xy"), None);
    }

    /// Make sure that a named hierarchy is not taken for a controller.
    #[test]
    fn modes() {
        let line = |kind: &str, options: &str| format!("1 2 0:1 / /m rw - {kind} x {options}\n");
        let mode = |text: String| Mounts::parse(text.as_bytes()).mode();
        assert_eq!(mode(line("cgroup2", "rw") + &line("cgroup", "rw,name=systemd")), CgroupMode::Unified);
        assert_eq!(mode(line("cgroup", "rw,cpu,cpuacct")), CgroupMode::Legacy);
        assert_eq!(mode(String::new()), CgroupMode::Unknown);
    }

    /// Make sure that paths outside a mount or namespace are never mapped into
    /// it.
    #[test]
    fn outside() {
        let whole = Mount { id: 1, point: "/m".into(), root: b"/".to_vec() };
        assert_eq!(whole.inside(b"/../other"), None);
        assert_eq!(whole.inside(b"/.."), None);
        assert_eq!(whole.inside(b"/..a"), Some(b"/..a".to_vec()));
        let part = whole.narrowed(Path::new("/m/a/b")).unwrap();
        assert_eq!(part.root, b"/a/b");
        assert_eq!(part.inside(b"/a/b/c"), Some(b"/c".to_vec()));
        assert_eq!(whole.narrowed(Path::new("/n")), None);
        let above = Mount { id: 1, point: "/m".into(), root: b"/..".to_vec() };
        assert_eq!(above.inside(b"/../other"), Some(b"/other".to_vec()));
        assert_eq!(above.inside(b"/"), None);
        let elsewhere = Mount { id: 1, point: "/m".into(), root: Mount::ELSEWHERE.to_vec() };
        assert_eq!(elsewhere.inside(b"/"), None);
    }
}
