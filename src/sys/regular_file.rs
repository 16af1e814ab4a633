//! Regular files that are inspected, read and attached to through one descriptor, so
//! that all of it concerns the same file.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, readlink};
use nix::sys::stat::Mode;

use super::absence::{OrAbsent, of_open};
use super::stat::{FileKind, FileStat, stat_at};

/// Why a file was not opened. What gpumap found out by itself has no error number, because
/// a call can fail with any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOpened {
    /// A call failed.
    #[error("{}", .0.desc())]
    Call(Errno),
    /// It is anything but a regular file.
    #[error("it is no regular file")]
    NotRegular,
    /// Another file, or another version of it, is there by now.
    #[error("it was replaced meanwhile")]
    Replaced,
}

impl NotOpened {
    /// The error number that a call would have failed with for this reason, for callers who
    /// tell each failure.
    pub fn errno(self) -> Errno {
        match self {
            Self::Call(errno) => errno,
            Self::NotRegular => Errno::EINVAL,
            Self::Replaced => Errno::ESTALE,
        }
    }
}

impl From<Errno> for NotOpened {
    fn from(errno: Errno) -> Self {
        Self::Call(errno)
    }
}

impl From<NotOpened> for io::Error {
    fn from(why: NotOpened) -> Self {
        match why {
            NotOpened::Call(errno) => errno.into(),
            why => Self::other(why),
        }
    }
}

impl<T> OrAbsent<T, NotOpened> for Result<T, NotOpened> {
    fn unless(self, says_so: fn(Errno) -> bool) -> Result<Option<T>, NotOpened> {
        match self {
            Ok(there) => Ok(Some(there)),
            Err(NotOpened::Call(errno)) if says_so(errno) => Ok(None),
            Err(why) => Err(why),
        }
    }
}

/// A regular file that was found and not opened (`O_PATH`): no driver, no file
/// server and no holder of a lease has heard of it.
#[derive(Debug)]
pub struct RegularFile {
    place: OwnedFd,
    stat: FileStat,
}

impl RegularFile {
    /// Finds the file that `name` leads to, links followed; an absolute name needs
    /// no `dir`.
    ///
    /// # Errors
    ///
    /// openat(2) or statx(2) failed (`EACCES` if a FUSE file system admits only its
    /// owner), or it is no regular file.
    pub fn find<Fd: AsFd>(dir: Fd, name: &CStr) -> Result<Self, NotOpened> {
        Self::new(openat(dir, name, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?)
    }

    /// Finds the file that a path leads to.
    ///
    /// # Errors
    ///
    /// As [`RegularFile::find`].
    pub fn find_path(path: &Path) -> Result<Self, NotOpened> {
        Self::new(openat(AT_FDCWD, path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?)
    }

    fn new(place: OwnedFd) -> Result<Self, NotOpened> {
        let stat = stat_at(&place, c"").map_err(of_open)?;
        if stat.kind == FileKind::Regular { Ok(Self { place, stat }) } else { Err(NotOpened::NotRegular) }
    }

    /// Its facts.
    pub fn stat(&self) -> &FileStat {
        &self.stat
    }

    /// A path that leads to this very file, even if another file has its name now.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.place.as_raw_fd()).into()
    }

    /// The name that it has now, as `/proc/PID/maps` shows those of mapped files.
    ///
    /// # Errors
    ///
    /// readlink(2) failed.
    pub fn name(&self) -> Result<Vec<u8>, Errno> {
        readlink(&self.path()).map(std::os::unix::ffi::OsStringExt::into_vec)
    }

    /// Opens it for reading, without waiting for anybody.
    ///
    /// # Errors
    ///
    /// Those of openat(2); `EWOULDBLOCK` while another process has a lease for
    /// writing on it. It is another file, against all expectation.
    pub fn open(&self) -> Result<File, NotOpened> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let file = openat(AT_FDCWD, &self.path(), flags, Mode::empty())?;
        let stat = stat_at(&file, c"").map_err(of_open)?;
        let same = (stat.dev, stat.inode, stat.kind) == (self.stat.dev, self.stat.inode, FileKind::Regular);
        if same { Ok(file.into()) } else { Err(NotOpened::Replaced) }
    }
}

impl AsFd for RegularFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.place.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::sys::dir::Dir;

    /// Make sure that only regular files are found, that a handle keeps its file,
    /// and that this file is read.
    #[test]
    fn stays() {
        let directory = std::env::temp_dir().join(format!("gpumap-regular-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join("file");
        std::fs::write(&path, "first").unwrap();
        let found = RegularFile::find_path(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        let mut text = String::new();
        found.open().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), found.stat().size), ("first", 5));
        assert!(found.name().unwrap().ends_with(b"/file (deleted)"));
        let dir = Dir::open(&directory).unwrap();
        assert_eq!(RegularFile::find(&dir, c"file").unwrap_err(), NotOpened::NotRegular);
        assert_eq!(RegularFile::find(&dir, c"none").unwrap_err(), Errno::ENOENT.into());
        assert_eq!(RegularFile::find_path(Path::new("/dev/null")).unwrap_err(), NotOpened::NotRegular);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
