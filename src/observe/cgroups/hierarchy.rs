//! Finds the cgroup hierarchy to observe and resolves targets in it.

use std::borrow::Cow;
use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;

use super::mounts::{Mount, Mounts};
use crate::model::CgroupPath;
use crate::observation::{CgroupMode, Text};
use crate::observe::error::ObserveError;
use crate::observe::options::Options;
use crate::observe::procfile::CgroupLines;
use crate::sys::dir::{Dir, FileSystem, is_plain_file};

/// Bytes of `/proc/self/cgroup`.
const OWN_LIMIT: usize = 256 << 10;

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
        let devices = Mounts::visible(&mounts.devices, &options.proc).map(|(mount, _)| mount);
        let sees_uids = sees_all_uids(&options.proc);
        Ok(Self { handle, mount, mode, devices, sees_uids, mounts, proc: options.proc.clone() })
    }

    /// Whether there is no cgroup2 here, so that no device program can be.
    pub(in crate::observe) fn is_legacy(&self) -> bool {
        self.mode == CgroupMode::Legacy
    }

    /// The cgroup of gpumap itself, relative to the root; `None` outside of it.
    pub(in crate::observe) fn own_cgroup(&self, proc: &Path) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        Dir::open(&proc.join("self")).ok()?.read_into(c"cgroup", &mut text, OWN_LIMIT).ok()?;
        self.mount.inside(self.line(&CgroupLines::new(text))?)
    }

    /// The path in this hierarchy among the cgroups of a process.
    pub(in crate::observe) fn line<'l>(&self, lines: &'l CgroupLines) -> Option<&'l [u8]> {
        if self.is_legacy() { lines.devices() } else { lines.unified() }
    }

    /// Opens a cgroup by its path from the root, one name after the other: the path may be
    /// longer than the kernel takes.
    pub(in crate::observe) fn open(&self, path: CgroupPath<'_>) -> Result<Dir, Errno> {
        let names = path.relative().split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        names.map(OsStr::from_bytes).try_fold(self.handle.child(".")?, |dir, name| dir.child(name))
    }

    /// The last cgroup above a process that is certain, by its components, from what the
    /// kernel shows of a path that is too long; the root if it shows nothing.
    pub(in crate::observe) fn above(&self, shown: Option<&Text>) -> Vec<Vec<u8>> {
        let inside = shown.and_then(|shown| self.mount.inside(shown.as_bytes())).unwrap_or_default();
        let names = inside.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let mut names: Vec<Vec<u8>> = names.map(<[u8]>::to_vec).collect();
        // The last name may be cut.
        names.pop();
        names
    }

    /// The components of a target, checked to exist now.
    ///
    /// An absolute path below the root's mount point is taken as it is, a
    /// relative one from the working directory if that is a cgroup, any other
    /// from the root.
    pub(in crate::observe) fn resolve(&self, target: &Path) -> Result<Vec<Vec<u8>>, ObserveError> {
        let target = &*self.started_here(target)?;
        let below = target.strip_prefix(&self.mount.point).unwrap_or(target);
        let missing =
            || ObserveError::NoSuchCgroup { path: target.to_owned(), root: self.mount.point.clone() };
        let parts = components(below).ok_or_else(missing)?;
        match self.handle.child(relative(&parts).as_path()) {
            Ok(_) => Ok(parts),
            Err(Errno::ENOTDIR | Errno::ELOOP) => {
                Err(ObserveError::NotADirectory { path: target.to_owned() })
            }
            Err(Errno::ENOENT | Errno::ENODEV | Errno::ENAMETOOLONG | Errno::EINVAL) => {
                Err(self.elsewhere(target).unwrap_or_else(missing))
            }
            Err(errno) => Err(open_error(target.to_owned(), errno)),
        }
    }

    /// Makes a relative path absolute if the working directory is a cgroup, or if the
    /// path leads to a cgroup from the working directory but not from the root.
    /// Any other path stays as it is.
    fn started_here<'p>(&self, target: &'p Path) -> Result<Cow<'p, Path>, ObserveError> {
        if target.is_absolute() {
            return Ok(Cow::Borrowed(target));
        }
        let file_system = |dir: &Dir| dir.file_system().unwrap_or(FileSystem::Other);
        let here = Dir::open(Path::new("."));
        match here.as_ref().map_or(FileSystem::Other, file_system) {
            FileSystem::Cgroup1 if !self.is_legacy() => {
                let path = env::current_dir().unwrap_or_default().join(target);
                Err(ObserveError::V1Directory { path, cgroup2: Some(self.mount.point.clone()) })
            }
            FileSystem::Cgroup2 | FileSystem::Cgroup1 => {
                let path = env::current_dir().map_err(|_| ObserveError::WorkingDirectoryGone)?;
                let here = here.map_err(|errno| open_error(path.clone(), errno))?;
                let place = self.place(&here, &path);
                let outside = || ObserveError::OutsideRoot { path, root: self.mount.point.clone() };
                Ok(Cow::Owned(place.ok_or_else(outside)?.join(target)))
            }
            FileSystem::Other => Ok(self.by_files(target).map_or(Cow::Borrowed(target), Cow::Owned)),
        }
    }

    /// The cgroup that a relative path leads to from a working directory that is no
    /// cgroup, if it leads to none from the root.
    fn by_files(&self, target: &Path) -> Option<PathBuf> {
        let from_root = components(target).map(|parts| self.handle.child(relative(&parts).as_path()));
        if matches!(from_root, Some(Ok(_))) {
            return None;
        }
        let dir = Dir::open(target).ok()?;
        self.place(&dir, &std::fs::canonicalize(target).ok()?)
    }

    /// The path below the root's mount point of a directory that has this path in
    /// any mount of the hierarchy. Its inode proves that it is the same directory.
    fn place(&self, dir: &Dir, path: &Path) -> Option<PathBuf> {
        let mount = self.mounts.of(dir, &self.proc).unwrap_or(&self.mount);
        let inside = self.mount.inside(&mount.narrowed(path)?.root)?;
        let parts = components(Path::new(OsStr::from_bytes(&inside)))?;
        let there = self.handle.child(relative(&parts).as_path()).ok()?;
        let is_it = there.stat().ok()?.inode == dir.stat().ok()?.inode;
        is_it.then(|| {
            parts.iter().fold(self.mount.point.clone(), |path, part| path.join(OsStr::from_bytes(part)))
        })
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
                _ => ObserveError::NotACgroup { path, cgroup2 },
            }),
            Err(_) => is_plain_file(target).then_some(ObserveError::NotADirectory { path }),
        }
    }
}

/// The first cgroup2 mount that can be reached; without any, that of the v1
/// devices controller.
fn usual(mounts: &Mounts, proc: &Path) -> Result<(Mount, Dir), ObserveError> {
    let candidates = if mounts.cgroup2.is_empty() { &mounts.devices } else { &mounts.cgroup2 };
    let Some(first) = candidates.first() else { return Err(ObserveError::NoCgroupMount) };
    Mounts::visible(candidates, proc).ok_or_else(|| match Dir::open(&first.point) {
        Ok(_) => ObserveError::HiddenMount { path: first.point.clone() },
        Err(errno) => open_error(first.point.clone(), errno),
    })
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
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let found = match mounts.of(&dir, proc) {
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

/// Splits a path into names, with `.` and `..` resolved in the text; `None` if
/// it leads above its start.
fn components(path: &Path) -> Option<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => parts.push(name.as_bytes().to_vec()),
            Component::ParentDir => drop(parts.pop()?),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Some(parts)
}

/// The path of `parts` from the root's handle.
pub(in crate::observe) fn relative(parts: &[Vec<u8>]) -> PathBuf {
    let mut path = PathBuf::from(".");
    path.extend(parts.iter().map(|part| OsStr::from_bytes(part)));
    path
}

/// Whether every uid is itself in gpumap's user namespace (user_namespaces(7)).
fn sees_all_uids(proc: &Path) -> bool {
    let map = std::fs::read_to_string(proc.join("self/uid_map")).unwrap_or_default();
    map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

fn open_error(path: PathBuf, errno: Errno) -> ObserveError {
    match errno {
        Errno::ENOTDIR => ObserveError::NotADirectory { path },
        _ => ObserveError::Open { path, errno },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that no target leads out of the hierarchy.
    #[test]
    fn targets() {
        let split = |path: &str| components(Path::new(path));
        assert_eq!(split("/a//b/./c/../d/"), Some(vec![b"a".to_vec(), b"b".to_vec(), b"d".to_vec()]));
        assert_eq!(split("/"), Some(Vec::new()));
        assert_eq!(split("a/../.."), None);
        assert_eq!(relative(&[]), Path::new("."));
        assert_eq!(relative(&[b"a".to_vec(), b"b".to_vec()]), Path::new("./a/b"));
    }
}
