//! Finds the cgroup of a process, of a path, or of a cgroup id.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use walkdir::{DirEntry, WalkDir};

use super::hierarchy::Hierarchy;
use super::thread_cgroups::ruled_otherwise;
use crate::model::{CgroupPath, CgroupPathBuf};
use crate::observation::Text;
use crate::observe::error::ObserveError;
use crate::observe::options::Options;
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::problems::{Log, errno_of};
use crate::observe::procfile::may_be_cut;
use crate::observe::site_config;
use crate::owner::TrustedNames;
use crate::sys::absence::OrAbsent as _;
use crate::sys::dir::Dir;
use crate::sys::file_handle;
use crate::sys::retry::again;

/// Files and directories that are looked at for a name: those of some 10,000 cgroups.
const NAMES_LOOKED_AT: usize = 500_000;

/// The text that the kernel appends to the path of a removed cgroup.
pub(in crate::observe) const DELETED: &[u8] = b" (deleted)";

/// A process whose cgroup is asked for, held so that a pid which is used again is another
/// one.
#[derive(Debug)]
pub struct LocatedProcess {
    process: PinnedProcess,
    proc: PathBuf,
}

impl LocatedProcess {
    /// Opens the process that has this pid now.
    ///
    /// # Errors
    ///
    /// There is no such process, or it cannot be read.
    pub fn new(options: &Options, pid: u32) -> Result<Self, ObserveError> {
        let proc = options.proc.clone();
        match PinnedProcess::at(&proc, pid) {
            Ok(process) => Ok(Self { process, proc }),
            Err(why) => Err(unread(why, pid, &proc)),
        }
    }

    /// Its current cgroup; on a legacy host, its cgroup in the v1 devices hierarchy.
    ///
    /// # Errors
    ///
    /// The process is gone or outside this cgroup namespace, there is no cgroup
    /// hierarchy, or its cgroup is removed.
    pub fn cgroup(&self, options: &Options) -> Result<CgroupPathBuf, ObserveError> {
        let (pid, process) = (self.process.pid(), &self.process);
        let hierarchy = Hierarchy::find(options)?;
        let lines = process.stat().and_then(|main| process.by_thread(&main, PinnedProcess::cgroups));
        let lines = lines.map_err(|why| match why {
            NotRead::Failed(_, Errno::ENAMETOOLONG) => ObserveError::LongPath { pid },
            why => self.unread(why),
        })?;
        let line = hierarchy.line(&lines);
        let line = line.ok_or_else(|| ObserveError::NoCgroup { pid, root: hierarchy.mount.point.clone() })?;
        if may_be_cut(line) {
            return Err(ObserveError::LongPath { pid });
        }
        let path = hierarchy.mount.inside(line);
        let outside = || ObserveError::OutsideNamespace { pid, path: OsStr::from_bytes(line).into() };
        let path = CgroupPathBuf::observed(path.ok_or_else(outside)?);
        // A cgroup may really be called so.
        let removed = line.ends_with(DELETED) && hierarchy.has(path.as_path()) == Ok(false);
        if removed { Err(ObserveError::CgroupRemoved { pid, path: (&path).into() }) } else { Ok(path) }
    }

    /// Checks that the process still exists and is still in this cgroup, so that
    /// facts about the cgroup hold for the process.
    ///
    /// # Errors
    ///
    /// The same as of [`Self::cgroup`], or the process has moved.
    pub fn still_in(&self, options: &Options, cgroup: &CgroupPathBuf) -> Result<(), ObserveError> {
        let (pid, now) = (self.process.pid(), self.cgroup(options)?);
        if now == *cgroup { Ok(()) } else { Err(ObserveError::Moved { pid, path: (&now).into() }) }
    }

    /// Checks that the same device programs rule all threads of the process.
    ///
    /// # Errors
    ///
    /// They do not, or it has too many threads to look at; no cgroup hierarchy.
    pub fn has_one_policy(&self, options: &Options) -> Result<(), ObserveError> {
        let hierarchy = Hierarchy::find(options)?;
        match ruled_otherwise(self.process.dir(), &hierarchy) {
            None => Ok(()),
            Some(why) => Err(ObserveError::SeveralPolicies { pid: self.process.pid(), why }),
        }
    }

    fn start_time(&self) -> Result<u64, ObserveError> {
        self.process.stat().map(|stat| stat.start_time).map_err(|why| self.unread(why))
    }

    fn unread(&self, why: NotRead) -> ObserveError {
        unread(why, self.process.pid(), &self.proc)
    }
}

/// The error of a process that could not be read.
fn unread(why: NotRead, pid: u32, proc: &Path) -> ObserveError {
    match why {
        NotRead::Gone => ObserveError::NoSuchProcess { pid, proc: proc.to_owned() },
        why => ObserveError::Process { pid, why: why.to_string() },
    }
}

/// The cgroup of the process that has this pid now, as [`LocatedProcess::cgroup`].
///
/// # Errors
///
/// As [`LocatedProcess::new`] and [`LocatedProcess::cgroup`].
pub fn pid_cgroup(options: &Options, pid: u32) -> Result<CgroupPathBuf, ObserveError> {
    LocatedProcess::new(options, pid)?.cgroup(options)
}

/// Cgroups that this name may mean ([`CgroupPath::may_be_called`]), anywhere in the hierarchy,
/// for a message that proposes them: not more than `most`, from the first entries that are
/// found in time.
pub fn cgroups_named(options: &Options, name: &OsStr, most: usize) -> Vec<CgroupPathBuf> {
    // Where there is no hierarchy there is nothing to propose, and another message says so.
    let Ok(hierarchy) = Hierarchy::find(options) else { return Vec::new() };
    let root = &hierarchy.mount.point;
    let in_time = || options.deadline.is_none_or(|deadline| std::time::Instant::now() < deadline);
    let entries = WalkDir::new(root).into_iter().take(NAMES_LOOKED_AT).take_while(|_| in_time());
    // What cannot be listed is not proposed.
    let is_named =
        |entry: &DirEntry| CgroupPath::new(entry.file_name().as_bytes()).may_be_called(name.as_bytes());
    let named = entries.flatten().filter(|entry| entry.file_type().is_dir() && is_named(entry));
    let paths = named.filter_map(|entry| Some(below_root(entry.path().strip_prefix(root).ok()?)));
    paths.take(most).collect()
}

/// The cgroup of a process that was seen before. If its pid belongs to another
/// process now, that is an error.
///
/// # Errors
///
/// As [`pid_cgroup`].
pub fn process_cgroup(options: &Options, pid: u32, start_time: u64) -> Result<CgroupPathBuf, ObserveError> {
    let process = LocatedProcess::new(options, pid)?;
    let is_same = process.start_time()? == start_time;
    if is_same { process.cgroup(options) } else { Err(process.unread(NotRead::Gone)) }
}

/// The cgroup that a user's path means: see
/// [`CgroupTarget::typed`](crate::observe::CgroupTarget::typed).
///
/// # Errors
///
/// No such cgroup, or no cgroup hierarchy.
pub fn path_cgroup(options: &Options, path: &Path) -> Result<CgroupPathBuf, ObserveError> {
    Hierarchy::find(options)?.resolve(path)
}

/// The cgroup with this id; `None` if it is removed or
/// outside of the root, or cannot be found (on a legacy host, before Linux 5.5,
/// or without `CAP_DAC_READ_SEARCH`).
pub fn id_cgroup(options: &Options, id: u64) -> Option<CgroupPathBuf> {
    let hierarchy = Hierarchy::find(options);
    let found =
        hierarchy.map(|hierarchy| if hierarchy.is_legacy() { Ok(None) } else { by_id(&hierarchy, id) });
    // Without a cgroup an event says that it is not known.
    found.ok()?.ok()?
}

fn by_id(hierarchy: &Hierarchy, id: u64) -> Result<Option<CgroupPathBuf>, Errno> {
    let found = path(&file_handle::open(&hierarchy.handle, id)?)?;
    let root = path(&hierarchy.handle)?;
    let Ok(below) = found.strip_prefix(root) else { return Ok(None) };
    // A cgroup that was removed has another path.
    let below = below_root(below);
    let there = hierarchy.open(below.as_path()).or_removed()?;
    let is_it = there.map(|there| there.stat()).transpose()?.is_some_and(|stat| stat.inode == id);
    Ok(is_it.then_some(below))
}

fn below_root(path: &Path) -> CgroupPathBuf {
    CgroupPathBuf::of_names(path.iter().map(OsStr::as_bytes))
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
    let named = || PathBuf::from(OsStr::from_bytes(path.as_bytes()));
    let gone = || ObserveError::NoSuchCgroup { path: named(), root: hierarchy.mount.point.clone() };
    let failed = |errno| ObserveError::Open { path: named(), errno };
    let dir = hierarchy.open(CgroupPath::new(path)).or_removed().map_err(failed)?.ok_or_else(gone)?;
    // Nothing that this says of an open directory means that it is not there.
    let stat = dir.stat().map_err(failed)?;
    if stat.inode == id { Ok(dir) } else { Err(gone()) }
}

/// The cgroups whose names gpumap trusts, from its own place in the hierarchy; without a
/// place, fewer.
pub fn trusted_names(options: &Options) -> TrustedNames {
    // Without a hierarchy there is no place: fewer names are trusted.
    let own = Hierarchy::find(options).ok().and_then(|hierarchy| hierarchy.own_cgroup());
    // What cannot be read is told with the observation.
    let patterns = site_config::read(options, &mut Log::new(None)).owners;
    TrustedNames::around(own.map(Into::into).as_ref()).with_patterns(&patterns)
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
        let process = LocatedProcess::new(&options, child.id()).unwrap();
        let Ok(path) = process.cgroup(&options) else {
            child.kill().unwrap();
            child.wait().unwrap();
            return println!("skipped: no cgroup hierarchy");
        };
        let start_time = process.start_time().unwrap();
        assert_eq!(process_cgroup(&options, child.id(), start_time).unwrap(), path);
        assert!(process.still_in(&options, &path).is_ok());
        let moved = process.still_in(&options, &CgroupPathBuf::observed("/elsewhere"));
        assert!(matches!(moved, Err(ObserveError::Moved { .. })), "{moved:?}");
        let other = process_cgroup(&options, child.id(), start_time - 1);
        assert!(matches!(other, Err(ObserveError::NoSuchProcess { .. })), "{other:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        let gone = process.still_in(&options, &path);
        assert!(matches!(gone, Err(ObserveError::NoSuchProcess { .. })), "{gone:?}");
    }
}
