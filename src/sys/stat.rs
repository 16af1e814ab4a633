//! statx(2): what a file is, without opening it and without asking a file
//! server.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

use super::retry::again;

/// The facts that are requested.
const WANTED: u32 = libc::STATX_BASIC_STATS | libc::STATX_MNT_ID;

/// The kinds of file that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A character device.
    Char,
    /// A block device.
    Block,
    /// Anything else.
    Other,
}

/// The facts about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// Its kind.
    pub kind: FileKind,
    /// Major and minor number of the file system it lies on.
    pub dev: (u32, u32),
    /// Inode number.
    pub inode: u64,
    /// Major and minor number of a device node.
    pub rdev: (u32, u32),
    /// Bytes.
    pub size: u64,
    /// Owner.
    pub uid: u32,
    /// Permission bits, `S_ISUID` to `S_IXOTH`. If the file has an access control
    /// list, the group's bits are its mask: no user or group in the list has more.
    pub permissions: u16,
    /// Hard links; 0 of a file that was removed.
    pub links: u32,
    /// Id of the mount, as `/proc/PID/mountinfo` has it; unique among those
    /// that exist. `None` before Linux 5.8.
    pub mount: Option<u64>,
    /// Last change of the inode: seconds and nanoseconds.
    pub changed: (i64, u32),
    /// Last change of the contents: seconds and nanoseconds. Its owner can set it.
    pub modified: (i64, u32),
    /// Marked immutable, chattr(1): writing is refused with `EPERM`, for a
    /// device node too.
    pub immutable: bool,
}

/// Facts about the file that `name` leads to, the last link followed (the links in
/// `/proc/PID/fd` and `map_files` lead to the very file). An empty name is `dir`
/// itself. A network or FUSE file system answers from its cache
/// (`AT_STATX_DONT_SYNC`), so that a server that hangs blocks nobody. Since Linux
/// 4.11.
///
/// # Errors
///
/// statx(2) failed.
pub fn stat_at<Fd: AsFd>(dir: Fd, name: &CStr) -> Result<FileStat, Errno> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_NO_AUTOMOUNT | libc::AT_STATX_DONT_SYNC;
    let mut stat = MaybeUninit::<libc::statx>::zeroed();
    let fd = dir.as_fd().as_raw_fd();
    again(|| {
        // SAFETY: the name is terminated and the buffer has the size that the call fills.
        Errno::result(unsafe { libc::statx(fd, name.as_ptr(), flags, WANTED, stat.as_mut_ptr()) })
    })?;
    // SAFETY: zeros, or what the call filled in: all bit patterns are valid.
    let stat = unsafe { stat.assume_init() };
    Ok(FileStat {
        kind: kind(u32::from(stat.stx_mode)),
        dev: (stat.stx_dev_major, stat.stx_dev_minor),
        inode: stat.stx_ino,
        rdev: (stat.stx_rdev_major, stat.stx_rdev_minor),
        size: stat.stx_size,
        uid: stat.stx_uid,
        permissions: stat.stx_mode & 0o7777,
        links: stat.stx_nlink,
        mount: (stat.stx_mask & libc::STATX_MNT_ID != 0).then_some(stat.stx_mnt_id),
        changed: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        modified: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
        immutable: stat.stx_attributes & libc::STATX_ATTR_IMMUTABLE as u64 != 0,
    })
}

fn kind(mode: u32) -> FileKind {
    match mode & libc::S_IFMT {
        libc::S_IFREG => FileKind::Regular,
        libc::S_IFCHR => FileKind::Char,
        libc::S_IFBLK => FileKind::Block,
        _ => FileKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::dir::Dir;

    /// Make sure that kinds and device numbers come out right.
    #[test]
    fn kinds() {
        let dev = Dir::open("/dev".as_ref()).unwrap();
        let null = stat_at(&dev, c"null").unwrap();
        assert_eq!((null.kind, null.rdev), (FileKind::Char, (1, 3)));
        assert_eq!(stat_at(&dev, c"").unwrap().kind, FileKind::Other);
        let proc = Dir::open("/proc/self".as_ref()).unwrap();
        let exe = stat_at(&proc, c"exe").unwrap();
        assert_eq!((exe.kind, exe.permissions & 0o100), (FileKind::Regular, 0o100));
        assert!(exe.links > 0);
        assert_eq!(stat_at(&proc, c"no such file"), Err(Errno::ENOENT));
    }
}
