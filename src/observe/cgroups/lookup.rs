//! Finds the cgroup of a process, of a path, or of a cgroup id.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::hierarchy::Hierarchy;
use super::thread_cgroups::ruled_otherwise;
use crate::model::CgroupPath;
use crate::observation::Text;
use crate::observe::error::ObserveError;
use crate::observe::living_thread::living_thread;
use crate::observe::options::Options;
use crate::observe::problems::errno_of;
use crate::observe::procfile::{cgroup_line, may_be_cut, parse_stat};
use crate::owner::TrustedNames;
use crate::sys::absence::OrAbsent as _;
use crate::sys::dir::Dir;
use crate::sys::file_handle;
use crate::sys::retry::again;

/// The text that the kernel appends to the path of a removed cgroup.
pub(in crate::observe) const DELETED: &[u8] = b" (deleted)";
/// Bytes of `/proc/PID/cgroup`.
const LIMIT: usize = 256 << 10;

/// Bytes of `/proc/PID/stat`.
const STAT_LIMIT: usize = 8 << 10;

/// A process held by a handle of its `/proc` directory. The handle shows nothing
/// once the process is gone, even if its pid is used again.
#[derive(Debug)]
pub struct PinnedProcess {
    pid: u32,
    proc: PathBuf,
    dir: Dir,
}

impl PinnedProcess {
    /// Opens the process that has this pid now.
    ///
    /// # Errors
    ///
    /// There is no such process.
    pub fn new(options: &Options, pid: u32) -> Result<Self, ObserveError> {
        let proc = options.proc.clone();
        match Dir::open(&proc.join(pid.to_string())) {
            Ok(dir) => Ok(Self { pid, proc, dir }),
            Err(_) => Err(ObserveError::NoSuchProcess { pid, proc }),
        }
    }

    /// Its current cgroup, relative to the cgroup root, with a leading `/`: a path
    /// for [`CgroupTarget`](crate::observe::CgroupTarget). On a legacy host, its cgroup in the
    /// v1 devices hierarchy.
    ///
    /// # Errors
    ///
    /// The process is gone or outside this cgroup namespace, there is no cgroup
    /// hierarchy, or its cgroup is removed.
    pub fn cgroup(&self, options: &Options) -> Result<PathBuf, ObserveError> {
        let pid = self.pid;
        let hierarchy = Hierarchy::find(options)?;
        let mut text = Vec::new();
        let other = if self.has_ended() { living_thread(&self.dir, |stat| !stat.has_ended()) } else { None };
        let living = other.as_ref().map_or(&self.dir, |(_, thread)| thread);
        living.read_into(c"cgroup", &mut text, LIMIT).map_err(|errno| match errno {
            Errno::ENAMETOOLONG => ObserveError::LongPath { pid },
            _ => self.gone(),
        })?;
        let controller = if hierarchy.is_legacy() { Some(b"devices".as_slice()) } else { None };
        let line = cgroup_line(&text, controller);
        let line = line.ok_or_else(|| ObserveError::NoCgroup { pid, root: hierarchy.mount.point.clone() })?;
        if may_be_cut(line) {
            return Err(ObserveError::LongPath { pid });
        }
        let path = hierarchy.mount.inside(line);
        let outside = || ObserveError::OutsideNamespace { pid, path: OsStr::from_bytes(line).into() };
        let path = PathBuf::from(OsStr::from_bytes(&path.ok_or_else(outside)?));
        // A cgroup may really be called so.
        let removed = line.ends_with(DELETED) && hierarchy.resolve(&path).is_err();
        if removed { Err(ObserveError::CgroupRemoved { pid, path }) } else { Ok(path) }
    }

    /// Checks that the process still exists and is still in this cgroup, so that
    /// facts about the cgroup hold for the process.
    ///
    /// # Errors
    ///
    /// The same as of [`Self::cgroup`], or the process has moved.
    pub fn still_in(&self, options: &Options, cgroup: &Path) -> Result<(), ObserveError> {
        let now = self.cgroup(options)?;
        if now == cgroup { Ok(()) } else { Err(ObserveError::Moved { pid: self.pid, path: now }) }
    }

    /// Checks that the same device programs rule all threads of the process.
    ///
    /// # Errors
    ///
    /// They do not, or it has too many threads to look at; no cgroup hierarchy.
    pub fn has_one_policy(&self, options: &Options) -> Result<(), ObserveError> {
        let hierarchy = Hierarchy::find(options)?;
        match ruled_otherwise(&self.dir, &hierarchy) {
            None => Ok(()),
            Some(why) => Err(ObserveError::SeveralPolicies { pid: self.pid, why }),
        }
    }

    /// Whether its main thread has ended.
    fn has_ended(&self) -> bool {
        let mut text = Vec::new();
        let read = self.dir.read_piece(c"stat", &mut text, STAT_LIMIT);
        read.is_ok() && parse_stat(&text).is_some_and(|stat| stat.has_ended())
    }

    fn start_time(&self) -> Result<u64, ObserveError> {
        let mut text = Vec::new();
        self.dir.read_piece(c"stat", &mut text, STAT_LIMIT).map_err(|_| self.gone())?;
        parse_stat(&text).map(|stat| stat.start_time).ok_or_else(|| self.gone())
    }

    fn gone(&self) -> ObserveError {
        ObserveError::NoSuchProcess { pid: self.pid, proc: self.proc.clone() }
    }
}

/// The cgroup of the process that has this pid now, as [`PinnedProcess::cgroup`].
///
/// # Errors
///
/// As [`PinnedProcess::new`] and [`PinnedProcess::cgroup`].
pub fn pid_cgroup(options: &Options, pid: u32) -> Result<PathBuf, ObserveError> {
    PinnedProcess::new(options, pid)?.cgroup(options)
}

/// The cgroup of a process that was seen before. If its pid belongs to another
/// process now, that is an error.
///
/// # Errors
///
/// As [`pid_cgroup`].
pub fn process_cgroup(options: &Options, pid: u32, start_time: u64) -> Result<PathBuf, ObserveError> {
    let process = PinnedProcess::new(options, pid)?;
    if process.start_time()? == start_time { process.cgroup(options) } else { Err(process.gone()) }
}

/// The cgroup that a user's path means, as [`pid_cgroup()`] gives it: see
/// [`CgroupTarget`](crate::observe::CgroupTarget).
///
/// # Errors
///
/// No such cgroup, or no cgroup hierarchy.
pub fn path_cgroup(options: &Options, path: &Path) -> Result<PathBuf, ObserveError> {
    let parts = Hierarchy::find(options)?.resolve(path)?;
    Ok(parts.iter().fold(PathBuf::from("/"), |path, part| path.join(OsStr::from_bytes(part))))
}

/// The cgroup with this id, as [`pid_cgroup()`] gives it; `None` if it is removed or
/// outside of the root, or cannot be found (on a legacy host, before Linux 5.5,
/// or without `CAP_DAC_READ_SEARCH`).
pub fn id_cgroup(options: &Options, id: u64) -> Option<PathBuf> {
    let hierarchy = Hierarchy::find(options);
    let found =
        hierarchy.map(|hierarchy| if hierarchy.is_legacy() { Ok(None) } else { by_id(&hierarchy, id) });
    // Without a cgroup an event says that it is not known.
    found.ok()?.ok()?
}

fn by_id(hierarchy: &Hierarchy, id: u64) -> Result<Option<PathBuf>, Errno> {
    let found = path(&file_handle::open(&hierarchy.handle, id)?)?;
    let root = path(&hierarchy.handle)?;
    let Ok(below) = found.strip_prefix(root) else { return Ok(None) };
    // A cgroup that was removed has another path.
    let there = hierarchy.handle.child(&Path::new(".").join(below)).or_absent()?;
    let is_it = there.map(|there| there.stat()).transpose()?.is_some_and(|stat| stat.inode == id);
    Ok(is_it.then(|| Path::new("/").join(below)))
}

fn path(dir: &impl AsFd) -> Result<PathBuf, Errno> {
    let link = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd());
    again(|| std::fs::read_link(&link)).map_err(|error| errno_of(&error))
}

/// The directory of the cgroup with this path, relative to the cgroup root with a
/// leading `/`, if it is still the one with this id; a directory made anew under the
/// same path has another one.
///
/// # Errors
///
/// [`ObserveError::NoSuchCgroup`] if there is no cgroup of this path, or another one; any
/// other error says nothing of whether it is there.
pub fn open_cgroup(options: &Options, path: &Text, id: u64) -> Result<Dir, ObserveError> {
    let hierarchy = Hierarchy::find(options)?;
    let relative = CgroupPath::new(path).relative();
    let relative = if relative.is_empty() { b".".as_slice() } else { relative };
    let named = || PathBuf::from(OsStr::from_bytes(path.as_bytes()));
    let gone = || ObserveError::NoSuchCgroup { path: named(), root: hierarchy.mount.point.clone() };
    let dir = hierarchy.handle.child(&PathBuf::from(OsStr::from_bytes(relative)));
    let found = dir.and_then(|dir| Ok((dir.stat()?, dir))).or_absent();
    match found.map_err(|errno| ObserveError::Open { path: named(), errno })? {
        Some((stat, dir)) if stat.inode == id => Ok(dir),
        _ => Err(gone()),
    }
}

/// The cgroups whose names gpumap trusts, from its own place in the hierarchy; without a
/// place, fewer.
pub fn trusted_names(options: &Options) -> TrustedNames {
    let own = Hierarchy::find(options).ok().and_then(|hierarchy| hierarchy.own_cgroup());
    TrustedNames::around(own.map(Into::into).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a process with a pid that is used again is another process,
    /// and that a process that has ended is not found.
    #[test]
    fn pinned() {
        let options = Options::default();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let process = PinnedProcess::new(&options, child.id()).unwrap();
        let Ok(path) = process.cgroup(&options) else {
            child.kill().unwrap();
            child.wait().unwrap();
            return println!("skipped: no cgroup hierarchy");
        };
        let start_time = process.start_time().unwrap();
        assert_eq!(process_cgroup(&options, child.id(), start_time).unwrap(), path);
        assert!(process.still_in(&options, &path).is_ok());
        let moved = process.still_in(&options, Path::new("/elsewhere"));
        assert!(matches!(moved, Err(ObserveError::Moved { .. })), "{moved:?}");
        let other = process_cgroup(&options, child.id(), start_time - 1);
        assert!(matches!(other, Err(ObserveError::NoSuchProcess { .. })), "{other:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        let gone = process.still_in(&options, &path);
        assert!(matches!(gone, Err(ObserveError::NoSuchProcess { .. })), "{gone:?}");
    }
}
