//! Finds the cgroup hierarchy to observe and resolves targets in it.

use std::borrow::Cow;
use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::mounts::{Mount, Mounts};
use crate::model::{CgroupPath, CgroupPathBuf};
use crate::observation::{CgroupMode, Text};
use crate::observe::error::ObserveError;
use crate::observe::options::{CgroupTarget, Options, TargetPath};
use crate::observe::problems::errno_of;
use crate::observe::procfile::CgroupLines;
use crate::sys::absence::{OrAbsent as _, is_absence, is_removal};
use crate::sys::dir::{Dir, FileSystem, is_plain_file, read_all};
use crate::sys::retry::again;

/// Bytes of `/proc/self/cgroup` and its kin.
const TEXT_LIMIT: usize = 256 << 10;

/// The hierarchy: cgroup2, or v1 devices on a legacy host.
#[derive(Debug)]
pub(in crate::observe) struct Hierarchy {
    /// Its root directory, held open.
    pub(in crate::observe) handle: Dir,
    /// The mount, and the part of the hierarchy that it shows.
    pub(in crate::observe) mount: Mount,
    /// How the host mounts its cgroups.
    pub(in crate::observe) mode: CgroupMode,
    /// The v1 devices controller.
    pub(in crate::observe) devices: Option<Mount>,
    /// Whether uids here are those of the host. In a user namespace, directories of
    /// the host's root have the uid of `nobody`.
    pub(in crate::observe) sees_uids: bool,
    /// Whether cgroup2 is in use although it is not mounted here, so that device
    /// programs may be in force that nobody can ask for.
    pub(in crate::observe) hides_cgroup2: bool,
    /// `/proc/self/cgroup`.
    own: CgroupLines,
    mounts: Mounts,
    proc: PathBuf,
}

impl Hierarchy {
    /// Finds the hierarchy that `options` ask for.
    pub(in crate::observe) fn find(options: &Options) -> Result<Self, ObserveError> {
        let mounts = Mounts::read(&options.proc)?;
        let mode = mounts.mode();
        let (mount, handle) = match &options.cgroup_root {
            Some(path) => chosen(path, &mounts, &options.proc)?,
            None => usual(&mounts, &options.proc)?,
        };
        // One that cannot be opened restricts devices all the same.
        let devices = Mounts::visible(&mounts.devices, &options.proc);
        let devices = match devices {
            Ok(found) => found.map(|(mount, _)| mount),
            Err((point, _)) => mounts.devices.iter().find(|mount| mount.point == point).cloned(),
        };
        let own = CgroupLines::new(text(&options.proc.join("self/cgroup"))?.unwrap_or_default());
        let sees_uids = sees_all_uids(&options.proc)?;
        let hides_cgroup2 = mode == CgroupMode::Legacy && is_cgroup2_used(&own, &options.proc)?;
        let proc = options.proc.clone();
        Ok(Self { handle, mount, mode, devices, sees_uids, hides_cgroup2, own, mounts, proc })
    }

    /// Whether there is no cgroup2 here, so that no device program can be.
    pub(in crate::observe) fn is_legacy(&self) -> bool {
        self.mode == CgroupMode::Legacy
    }

    /// The cgroup of gpumap itself, relative to the root; `None` outside of it.
    pub(in crate::observe) fn own_cgroup(&self) -> Option<Vec<u8>> {
        self.mount.inside(self.line(&self.own)?)
    }

    /// Whether gpumap is certainly in another cgroup than the root of what is mounted: below
    /// it, or outside of it, which the kernel writes with `/..` in front.
    pub(in crate::observe) fn is_away_from_root(&self) -> bool {
        match self.own_cgroup() {
            Some(own) => own != b"/",
            None => self.line(&self.own).is_some_and(|line| line.starts_with(b"/..")),
        }
    }

    /// The path in this hierarchy among the cgroups of a process.
    pub(in crate::observe) fn line<'l>(&self, lines: &'l CgroupLines) -> Option<&'l [u8]> {
        if self.is_legacy() { lines.devices() } else { lines.unified() }
    }

    /// Opens a cgroup by its path from the root, one name after the other: the path may be
    /// longer than the kernel takes.
    pub(in crate::observe) fn open(&self, path: CgroupPath<'_>) -> Result<Dir, Errno> {
        let below = |dir: &Dir, name: &[u8]| match name {
            // The kernel writes so the path of a cgroup that is outside.
            b".." => Err(Errno::ENOENT),
            name => dir.child(OsStr::from_bytes(name)),
        };
        let mut names = path.names();
        // The root is there: that it cannot be opened anew says nothing of what is below.
        let Some(first) = names.next() else { return self.handle.child(".") };
        names.try_fold(below(&self.handle, first)?, |dir, name| below(&dir, name))
    }

    /// Whether there is a cgroup with this path from the root now.
    pub(in crate::observe) fn has(&self, path: CgroupPath<'_>) -> Result<bool, Errno> {
        match self.open(path) {
            Ok(_) => Ok(true),
            Err(errno) if is_removal(errno) || is_no_cgroup(errno) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// The last cgroup above a process that is certain, from what the kernel shows of a
    /// path that is too long; the root if it shows nothing.
    pub(in crate::observe) fn above(&self, shown: Option<&Text>) -> CgroupPathBuf {
        let inside = shown.and_then(|shown| self.mount.inside(shown.as_bytes()));
        // The last name may be cut.
        let above = inside.as_ref().and_then(|inside| CgroupPath::new(inside).parent());
        above.map_or_else(CgroupPathBuf::root, |above| CgroupPathBuf::observed(above.as_bytes()))
    }

    /// The path of a target, checked to exist now.
    pub(in crate::observe) fn find_target(
        &self,
        target: &CgroupTarget,
    ) -> Result<CgroupPathBuf, ObserveError> {
        match &target.path {
            TargetPath::Typed(path) => self.resolve(path),
            TargetPath::Observed(path) => match self.has(path.as_path()) {
                Ok(true) => Ok(path.clone()),
                Ok(false) => Err(self.missing(path.into())),
                Err(errno) => Err(open_error(path.into(), errno)),
            },
        }
    }

    /// The path of the cgroup that a user's path means, checked to exist now.
    ///
    /// An absolute path below the root's mount point is taken as it is, a
    /// relative one from the working directory if that is a cgroup, any other
    /// from the root.
    pub(in crate::observe) fn resolve(&self, target: &Path) -> Result<CgroupPathBuf, ObserveError> {
        let target = &*self.started_here(target)?;
        let missing = || self.missing(target.to_owned());
        let path = CgroupPathBuf::typed(target, &self.mount.point).ok_or_else(missing)?;
        match self.open(path.as_path()) {
            Ok(_) => Ok(path),
            Err(Errno::ENOTDIR | Errno::ELOOP) => {
                Err(ObserveError::NotADirectory { path: target.to_owned() })
            }
            Err(errno) if is_removal(errno) || is_no_cgroup(errno) => {
                Err(self.elsewhere(target).unwrap_or_else(missing))
            }
            Err(errno) => Err(open_error(target.to_owned(), errno)),
        }
    }

    fn missing(&self, path: PathBuf) -> ObserveError {
        ObserveError::NoSuchCgroup { path, root: self.mount.point.clone() }
    }

    /// Makes a relative path absolute if the working directory is a cgroup, or if the
    /// path leads to a cgroup from the working directory but not from the root.
    /// Any other path stays as it is.
    fn started_here<'p>(&self, target: &'p Path) -> Result<Cow<'p, Path>, ObserveError> {
        if target.is_absolute() {
            return Ok(Cow::Borrowed(target));
        }
        let here = PathBuf::from(".");
        let dir = match Dir::open(&here) {
            // No path leads from a directory that may not be searched.
            Err(Errno::EACCES) => return Ok(Cow::Borrowed(target)),
            Err(errno) if is_absence(errno) => return Err(ObserveError::WorkingDirectoryGone),
            dir => dir.map_err(|errno| open_error(here.clone(), errno))?,
        };
        match dir.file_system().map_err(|errno| open_error(here, errno))? {
            FileSystem::Cgroup1 if !self.is_legacy() => {
                let path = working_directory()?.join(target);
                Err(ObserveError::V1Directory { path, cgroup2: Some(self.mount.point.clone()) })
            }
            FileSystem::Cgroup2 | FileSystem::Cgroup1 => {
                let path = working_directory()?;
                let place = self.place(&dir, &path).map_err(|errno| open_error(path.clone(), errno))?;
                let outside = || ObserveError::OutsideRoot { path, root: self.mount.point.clone() };
                Ok(Cow::Owned(place.ok_or_else(outside)?.join(target)))
            }
            FileSystem::Other => {
                let found = self.by_files(target).map_err(|errno| open_error(target.to_owned(), errno))?;
                Ok(found.map_or(Cow::Borrowed(target), Cow::Owned))
            }
        }
    }

    /// The cgroup that a relative path leads to from a working directory that is no
    /// cgroup, if it leads to none from the root.
    fn by_files(&self, target: &Path) -> Result<Option<PathBuf>, Errno> {
        let from_root = CgroupPathBuf::typed(target, Path::new(""));
        // One that could not be opened from there is looked for by its files, which fails too.
        if from_root.is_some_and(|path| self.open(path.as_path()).is_ok()) {
            return Ok(None);
        }
        let dir = match Dir::open(target) {
            // A path that leads to no directory, or that nobody may follow, means none.
            Err(Errno::ENOTDIR | Errno::EACCES | Errno::ELOOP | Errno::ENAMETOOLONG) => return Ok(None),
            dir => dir.or_absent()?,
        };
        let Some(dir) = dir else { return Ok(None) };
        let real = again(|| std::fs::canonicalize(target)).map_err(|error| errno_of(&error)).or_absent()?;
        real.map_or(Ok(None), |path| self.place(&dir, &path))
    }

    /// The path below the root's mount point of a directory that has this path in
    /// any mount of the hierarchy. Its inode proves that it is the same directory.
    fn place(&self, dir: &Dir, path: &Path) -> Result<Option<PathBuf>, Errno> {
        let mount = self.mounts.of(dir, &self.proc)?.unwrap_or(&self.mount);
        let inside = mount.narrowed(path).and_then(|mount| self.mount.inside(&mount.root));
        let Some(inside) = inside else { return Ok(None) };
        let inside = CgroupPath::new(&inside);
        let Some(there) = self.open(inside).or_removed()? else { return Ok(None) };
        let is_it = there.stat()?.inode == dir.stat()?.inode;
        Ok(is_it.then(|| self.mount.point.join(OsStr::from_bytes(inside.relative()))))
    }

    /// The error that says what an absolute path outside of the root is.
    fn elsewhere(&self, target: &Path) -> Option<ObserveError> {
        let path = target.to_owned();
        if !target.is_absolute() {
            return None;
        }
        let cgroup2 = (!self.is_legacy()).then(|| self.mount.point.clone());
        match Dir::open(target) {
            Ok(dir) => Some(match dir.file_system() {
                Ok(FileSystem::Cgroup1) => ObserveError::V1Directory { path, cgroup2 },
                Ok(FileSystem::Cgroup2) => ObserveError::OutsideRoot { path, root: self.mount.point.clone() },
                Ok(FileSystem::Other) => ObserveError::NotACgroup { path, cgroup2 },
                Err(errno) => open_error(path, errno),
            }),
            Err(errno) if is_absence(errno) => None,
            Err(Errno::ENAMETOOLONG | Errno::EINVAL) => None,
            // Why it is no directory is known: something else is there.
            Err(_) if is_plain_file(target) => Some(ObserveError::NotADirectory { path }),
            Err(errno) => Some(open_error(path, errno)),
        }
    }
}

/// The first cgroup2 mount that can be reached; without any, that of the v1
/// devices controller.
fn usual(mounts: &Mounts, proc: &Path) -> Result<(Mount, Dir), ObserveError> {
    let candidates = if mounts.cgroup2.is_empty() { &mounts.devices } else { &mounts.cgroup2 };
    let Some(first) = candidates.first() else { return Err(ObserveError::NoCgroupMount) };
    let found = Mounts::visible(candidates, proc).map_err(|(point, errno)| open_error(point, errno))?;
    found.ok_or_else(|| ObserveError::HiddenMount { path: first.point.clone() })
}

/// Checks a root given by the user.
fn chosen(path: &Path, mounts: &Mounts, proc: &Path) -> Result<(Mount, Dir), ObserveError> {
    let cgroup2 = mounts.cgroup2.first().map(|mount| mount.point.clone());
    let dir = Dir::open(path).map_err(|errno| open_error(path.to_owned(), errno))?;
    let candidates = match dir.file_system() {
        Ok(FileSystem::Cgroup2) => mounts.cgroup2.as_slice(),
        Ok(FileSystem::Cgroup1) if cgroup2.is_none() => mounts.devices.as_slice(),
        Ok(FileSystem::Cgroup1) => return Err(ObserveError::V1Directory { path: path.to_owned(), cgroup2 }),
        Ok(FileSystem::Other) => return Err(ObserveError::NotACgroup { path: path.to_owned(), cgroup2 }),
        Err(errno) => return Err(open_error(path.to_owned(), errno)),
    };
    let failed = |errno| open_error(path.to_owned(), errno);
    let real = again(|| std::fs::canonicalize(path)).map_err(|error| failed(errno_of(&error)))?;
    let found = match mounts.of(&dir, proc).map_err(failed)? {
        Some(mount) => mount.narrowed(&real),
        None => nearest(candidates, &real),
    };
    let point = if path.is_absolute() { path.to_owned() } else { real };
    let (id, root) = found.map_or_else(|| (0, Mount::ELSEWHERE.to_vec()), |mount| (mount.id, mount.root));
    Ok((Mount { id, point, root }, dir))
}

/// The mount with the longest mount point above a path: where the kernel does
/// not say which mount a directory is on.
fn nearest(candidates: &[Mount], path: &Path) -> Option<Mount> {
    let above =
        candidates.iter().filter_map(|mount| Some((mount.point.as_os_str().len(), mount.narrowed(path)?)));
    above.max_by_key(|(length, _)| *length).map(|(_, mount)| mount)
}

/// Whether an error of opening says that the path is none of a cgroup.
fn is_no_cgroup(errno: Errno) -> bool {
    matches!(errno, Errno::ENOTDIR | Errno::ELOOP | Errno::ENAMETOOLONG)
}

/// Whether every uid is itself in gpumap's user namespace (user_namespaces(7)). A
/// kernel without user namespaces has no such file.
fn sees_all_uids(proc: &Path) -> Result<bool, ObserveError> {
    let map = text(&proc.join("self/uid_map"))?;
    let words =
        |map: Vec<u8>| String::from_utf8_lossy(&map).split_ascii_whitespace().eq(["0", "0", "4294967295"]);
    Ok(map.is_none_or(words))
}

/// Whether processes are in cgroups of cgroup2, which is mounted nowhere here: gpumap, or
/// the first process, is in one that is not the root. In a container whose cgroup
/// namespace hides its path (`0::/`) that is not to be seen.
fn is_cgroup2_used(own: &CgroupLines, proc: &Path) -> Result<bool, ObserveError> {
    let is_below_root = |lines: &CgroupLines| lines.unified().is_some_and(|path| path != b"/");
    let first = text(&proc.join("1/cgroup"))?.map(CgroupLines::new);
    Ok(is_below_root(own) || first.as_ref().is_some_and(is_below_root))
}

/// The text of a file that need not be there.
fn text(path: &Path) -> Result<Option<Vec<u8>>, ObserveError> {
    let mut text = Vec::new();
    let file = again(|| File::open(path)).map_err(|error| errno_of(&error)).or_absent();
    let read = file.and_then(|file| file.map(|file| read_all(file, &mut text, TEXT_LIMIT)).transpose());
    let read = read.map_err(|errno| open_error(path.to_owned(), errno))?;
    Ok(read.map(|()| text))
}

fn working_directory() -> Result<PathBuf, ObserveError> {
    env::current_dir().map_err(|error| match errno_of(&error) {
        errno if is_absence(errno) => ObserveError::WorkingDirectoryGone,
        errno => open_error(PathBuf::from("."), errno),
    })
}

fn open_error(path: PathBuf, errno: Errno) -> ObserveError {
    match errno {
        Errno::ENOTDIR => ObserveError::NotADirectory { path },
        _ => ObserveError::Open { path, errno },
    }
}
