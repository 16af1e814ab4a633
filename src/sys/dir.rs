//! Directory handles: walking a tree by name relative to an open directory, so
//! that what is listed, queried and read is one and the same directory even if
//! its path is taken by another meanwhile.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nix::NixPath;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat};
use nix::sys::stat::{Mode, SFlag, fstat, major, minor};
use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, fstatfs};
use nix::unistd::read;

use super::absence::of_open;
use super::regular_file::NotOpened;
use super::retry::again;
use super::stat::{FileKind, FileStat, stat_at};

/// A directory, opened with `O_PATH`: enough to walk and to query, and it needs
/// no read permission on the directory itself.
#[derive(Debug)]
pub struct Dir(OwnedFd);

/// A file that was found and not opened.
#[derive(Debug)]
pub struct PathHandle(OwnedFd);

impl PathHandle {
    /// Opens it for reading, if it is a regular file: the file that was found,
    /// whatever has its name by now. Does not wait for whoever holds a lease.
    ///
    /// # Errors
    ///
    /// Those of openat(2), `EWOULDBLOCK` where another process has a lease; it is no
    /// regular file.
    pub fn open_regular(&self) -> Result<File, NotOpened> {
        if stat_at(&self.0, c"").map_err(of_open)?.kind != FileKind::Regular {
            return Err(NotOpened::NotRegular);
        }
        Ok(reopen(&self.0)?)
    }
}

/// Facts that `fstat` returns about a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirStat {
    /// Inode number; of a cgroup directory this is the cgroup id.
    pub inode: u64,
    /// Hard links; on kernfs exactly 2 plus the number of subdirectories.
    pub links: u64,
    /// Owner; of a process's directory its effective uid.
    pub uid: u32,
}

/// The file systems that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// cgroup2.
    Cgroup2,
    /// A v1 cgroup hierarchy.
    Cgroup1,
    /// Anything else.
    Other,
}

impl Dir {
    /// Opens a directory by path.
    ///
    /// # Errors
    ///
    /// Those of openat(2); `ENOTDIR` for anything but a directory.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        again(|| openat(AT_FDCWD, path, flags(), Mode::empty())).map(Self)
    }

    /// Opens a directory below this one. The last component is not followed if
    /// it is a symbolic link.
    ///
    /// # Errors
    ///
    /// Those of openat(2).
    pub fn child<P: ?Sized + NixPath>(&self, name: &P) -> Result<Self, Errno> {
        again(|| openat(self, name, flags() | OFlag::O_NOFOLLOW, Mode::empty())).map(Self)
    }

    /// Inode and link count (`O_PATH` handles since Linux 3.6).
    ///
    /// # Errors
    ///
    /// Those of fstat(2).
    pub fn stat(&self) -> Result<DirStat, Errno> {
        let stat = again(|| fstat(self))?;
        #[allow(clippy::useless_conversion, reason = "it has 32 bits on aarch64")]
        let links = u64::from(stat.st_nlink);
        Ok(DirStat { inode: stat.st_ino, links, uid: stat.st_uid })
    }

    /// Which file system the directory is on (`O_PATH` handles since Linux
    /// 3.12). Magic numbers from `linux/magic.h`.
    ///
    /// # Errors
    ///
    /// Those of fstatfs(2).
    pub fn file_system(&self) -> Result<FileSystem, Errno> {
        Ok(match again(|| fstatfs(self))?.filesystem_type() {
            CGROUP2_SUPER_MAGIC => FileSystem::Cgroup2,
            CGROUP_SUPER_MAGIC => FileSystem::Cgroup1,
            _ => FileSystem::Other,
        })
    }

    /// Names of the subdirectories, in the file system's order. Makes no call if
    /// `stat` shows that there are none, which the link count of kernfs tells
    /// exactly.
    ///
    /// # Errors
    ///
    /// openat(2) or getdents(2) failed.
    pub fn subdirectories(&self, stat: DirStat) -> Result<Vec<CString>, Errno> {
        if stat.links == 2 {
            return Ok(Vec::new());
        }
        let mut names = Vec::new();
        self.entries(c".", |name, is_directory| {
            if is_directory {
                names.push(name.to_owned());
            }
            true
        })?;
        Ok(names)
    }

    /// Reads a file of this directory into `buffer`, replacing what it held;
    /// at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// Those of openat(2) and read(2); `EFBIG` for a file over the limit.
    pub fn read_into(&self, name: &CStr, buffer: &mut Vec<u8>, limit: usize) -> Result<(), Errno> {
        read_all(&self.open_file(name)?, buffer, limit)
    }

    /// Reads a file that the kernel returns in one piece, as most of `/proc/PID`:
    /// the first short read is its end, and no further read follows.
    ///
    /// # Errors
    ///
    /// As [`Dir::read_into`].
    pub fn read_piece(&self, name: &CStr, buffer: &mut Vec<u8>, limit: usize) -> Result<(), Errno> {
        read_to(&self.open_file(name)?, buffer, limit, End::Short)
    }

    /// Opens a file of this directory for reading.
    ///
    /// # Errors
    ///
    /// Those of openat(2).
    pub fn open_file(&self, name: &CStr) -> Result<File, Errno> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW;
        again(|| openat(self, name, flags, Mode::empty())).map(File::from)
    }

    /// Opens what `name` leads to, links followed, if it is a regular file: no
    /// device and no FIFO is ever opened, whatever takes the place of the
    /// file.
    ///
    /// # Errors
    ///
    /// Those of openat(2); it is no regular file.
    pub fn open_regular(&self, name: &CStr) -> Result<(File, FileStat), NotOpened> {
        let place = again(|| openat(self, name, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()))?;
        let stat = stat_at(&place, c"").map_err(of_open)?;
        if stat.kind != FileKind::Regular {
            return Err(NotOpened::NotRegular);
        }
        Ok((reopen(&place)?, stat))
    }

    /// Finds a file as a process does whose root this directory is: links lead
    /// nowhere else, and the links of `/proc` nowhere at all. Nothing is opened.
    /// A last link is followed if `follow` says so. Since Linux 5.6.
    ///
    /// # Errors
    ///
    /// Those of openat2(2); `ENOSYS` before Linux 5.6.
    pub fn find_inside(&self, path: &CStr, follow: bool) -> Result<(PathHandle, FileStat), Errno> {
        let last = if follow { OFlag::empty() } else { OFlag::O_NOFOLLOW };
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_CLOEXEC | last)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        // EAGAIN: somebody renamed something on the way.
        let place = again(|| openat2(self, path, how))?;
        let stat = stat_at(&place, c"").map_err(of_open)?;
        Ok((PathHandle(place), stat))
    }

    /// The target of a symbolic link in this directory.
    ///
    /// # Errors
    ///
    /// readlinkat(2) failed.
    pub fn link(&self, name: &CStr) -> Result<Vec<u8>, Errno> {
        again(|| readlinkat(self, name)).map(std::os::unix::ffi::OsStringExt::into_vec)
    }

    /// Calls `visit` with every name in this directory until it returns false. What
    /// [`std::fs::ReadDir`] gives ends at a call that failed as if nothing followed.
    ///
    /// # Errors
    ///
    /// Those of openat(2) and getdents(2).
    pub fn names(&self, mut visit: impl FnMut(&OsStr) -> bool) -> Result<(), Errno> {
        self.entries(c".", |name, _| visit(OsStr::from_bytes(name.to_bytes())))
    }

    /// Calls `visit` with every number among the names in the subdirectory
    /// `name`: the way `/proc` lists processes, threads and descriptors. Stops
    /// when `visit` says so.
    ///
    /// # Errors
    ///
    /// Those of openat(2) and getdents(2).
    pub fn numbers(&self, name: &CStr, mut visit: impl FnMut(&CStr, u32) -> bool) -> Result<(), Errno> {
        self.entries(name, |name, _| {
            let number = name.to_str().ok().and_then(|name| name.parse().ok());
            number.is_none_or(|number| visit(name, number))
        })
    }

    /// Calls `visit` with the names in the subdirectory `name`, and whether each is a
    /// directory.
    fn entries(&self, name: &CStr, visit: impl FnMut(&CStr, bool) -> bool) -> Result<(), Errno> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        each(&again(|| openat(self, name, flags, Mode::empty()))?, visit)
    }
}

/// A directory that is open already.
impl From<File> for Dir {
    fn from(file: File) -> Self {
        Self(file.into())
    }
}

/// Reads an open file from its current offset to its end, at most `limit` bytes,
/// into `buffer`, whose allocation is reused.
///
/// # Errors
///
/// read(2) failed; `EFBIG` for a file over the limit.
pub fn read_all<Fd: AsFd>(file: Fd, buffer: &mut Vec<u8>, limit: usize) -> Result<(), Errno> {
    read_to(file, buffer, limit, End::Empty)
}

/// How the end of a file is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// A read of no bytes.
    Empty,
    /// A read of fewer bytes than there was room for.
    Short,
}

fn read_to<Fd: AsFd>(file: Fd, buffer: &mut Vec<u8>, limit: usize, end: End) -> Result<(), Errno> {
    const STEP: usize = 4096;
    buffer.clear();
    let mut filled = 0;
    let outcome = loop {
        if filled > limit {
            break Err(Errno::EFBIG);
        }
        // Kernels give some files out by pages, however much is asked for: room that was
        // made is used up before more is made.
        if buffer.len() - filled < STEP {
            buffer.resize(filled + STEP.max(filled), 0);
        }
        match again(|| read(file.as_fd(), &mut buffer[filled..])) {
            Ok(0) => break Ok(()),
            Ok(count) => filled += count,
            Err(errno) => {
                filled = 0;
                break Err(errno);
            }
        }
        if end == End::Short && filled < buffer.len() {
            break if filled > limit { Err(Errno::EFBIG) } else { Ok(()) };
        }
    };
    buffer.truncate(filled);
    outcome
}

/// Opens a file that the user named, links followed, for reading: a regular
/// file, a FIFO, a terminal or `/dev/null`. Opening does not wait, and no other
/// device is opened: with some that alone has effects.
///
/// # Errors
///
/// Those of openat(2); `EINVAL` for other devices, `ENXIO` for a socket,
/// `EISDIR` for a directory, `ENOTSUP` where /proc is not mounted.
pub fn open_readable(path: &Path) -> Result<File, Errno> {
    let place = again(|| openat(AT_FDCWD, path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()))?;
    let stat = again(|| fstat(&place)).map_err(of_open)?;
    match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFREG | SFlag::S_IFIFO => reopen(&place),
        SFlag::S_IFCHR if is_harmless(major(stat.st_rdev), minor(stat.st_rdev)) => reopen(&place),
        SFlag::S_IFDIR => Err(Errno::EISDIR),
        SFlag::S_IFSOCK => Err(Errno::ENXIO),
        _ => Err(Errno::EINVAL),
    }
}

/// `/dev/null`, terminals (`Documentation/admin-guide/devices.txt`).
fn is_harmless(major: u64, minor: u64) -> bool {
    matches!((major, minor), (1, 3) | (4 | 5, _) | (136..=143, _))
}

/// Opens the file of an `O_PATH` handle.
fn reopen(place: &OwnedFd) -> Result<File, Errno> {
    let link = format!("/proc/self/fd/{}", place.as_raw_fd());
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    match again(|| openat(AT_FDCWD, link.as_str(), flags, Mode::empty())) {
        // The file itself was found: what is missing is /proc.
        Err(Errno::ENOENT) => Err(Errno::ENOTSUP),
        opened => opened.map(File::from).map_err(of_open),
    }
}

/// Whether something else than a directory is at `path`. What cannot be looked at is
/// not known to be anything.
pub fn is_plain_file(path: &Path) -> bool {
    again(|| openat(AT_FDCWD, path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()))
        .and_then(|place| again(|| fstat(&place)))
        .is_ok_and(|stat| stat.st_mode & SFlag::S_IFMT.bits() != SFlag::S_IFDIR.bits())
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn flags() -> OFlag {
    OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC
}

/// Bytes of one call: some thousand names, so that most directories take one call and the
/// empty one at the end.
const ROOM: usize = 32 << 10;
/// Where a record (`struct linux_dirent64`) has its length, its type and its name.
const LENGTH: usize = 16;
const TYPE: usize = 18;
const NAME: usize = 19;

/// Calls `visit` with the name of each entry, and whether the file system says that it is
/// a directory, until `visit` returns false. `.` and `..` are left out.
///
/// # Errors
///
/// Those of getdents64(2); `EBADMSG` for records that are malformed.
pub(super) fn each(directory: &OwnedFd, mut visit: impl FnMut(&CStr, bool) -> bool) -> Result<(), Errno> {
    let mut buffer = vec![0; ROOM];
    loop {
        let filled = again(|| fill(directory, &mut buffer))?;
        let mut rest = buffer.get(..filled).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
        while !rest.is_empty() {
            let (name, is_directory, length) = record(rest).ok_or(Errno::EBADMSG)?;
            if name != c"." && name != c".." && !visit(name, is_directory) {
                return Ok(());
            }
            rest = rest.get(length..).unwrap_or_default();
        }
    }
}

/// The first record: its name, whether it is a directory, and its length.
fn record(bytes: &[u8]) -> Option<(&CStr, bool, usize)> {
    let length = usize::from(u16::from_ne_bytes(*bytes.get(LENGTH..)?.first_chunk()?));
    let name = CStr::from_bytes_until_nul(bytes.get(NAME..length)?).ok()?;
    Some((name, *bytes.get(TYPE)? == libc::DT_DIR, length))
}

fn fill(directory: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let (fd, room) = (directory.as_raw_fd(), buffer.len());
    // SAFETY: the kernel writes at most `room` bytes, which the buffer has.
    let filled = unsafe { libc::syscall(libc::SYS_getdents64, fd, buffer.as_mut_ptr(), room) };
    Errno::result(filled).map(|filled| usize::try_from(filled).unwrap_or(0).min(room))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that handles list, read with a bound, and refuse anything but a
    /// directory.
    #[test]
    fn handles() {
        let proc = Dir::open(Path::new("/proc")).unwrap();
        assert_eq!(proc.file_system(), Ok(FileSystem::Other));
        let me = proc.child(std::process::id().to_string().as_str()).unwrap();
        let names = me.subdirectories(me.stat().unwrap()).unwrap();
        assert!(names.iter().any(|name| name.as_c_str() == c"fd"));
        let mut buffer = b"old".to_vec();
        let mut some = Vec::new();
        let more = |name: &OsStr| {
            some.push(name.to_owned());
            some.len() < 3
        };
        me.names(more).unwrap();
        assert!(some.len() == 3 && !some.iter().any(|name| name == "." || name == ".."), "{some:?}");
        me.read_into(c"comm", &mut buffer, 64).unwrap();
        assert_eq!(buffer.last(), Some(&b'\n'));
        assert_eq!(me.read_into(c"status", &mut buffer, 10), Err(Errno::EFBIG));
        assert_eq!(proc.child("version").unwrap_err(), Errno::ENOTDIR);
        // A link of /proc is not followed, and `..` stays inside.
        assert_eq!(me.find_inside(c"exe", true).unwrap_err(), Errno::ELOOP);
        let (place, _) = me.find_inside(c"../../comm", true).unwrap();
        assert!(place.open_regular().is_ok());
        assert!(is_plain_file(Path::new("/proc/version")) && !is_plain_file(Path::new("/proc")));
    }

    /// Make sure that whole records are read, and nothing of others.
    #[test]
    fn records() {
        let mut bytes = vec![0; LENGTH];
        bytes.extend(24_u16.to_ne_bytes());
        bytes.extend([libc::DT_DIR, b'7', b'1', 0, 9, 9]);
        assert_eq!(record(&bytes), Some((c"71", true, 24)));
        assert!((0..24).all(|length| record(&bytes[..length]).is_none()));
        bytes[LENGTH] = 0;
        assert_eq!(record(&bytes), None);
    }
}
