//! Which file an open one is, in the numbers that a process's map shows. Those
//! of fstat(2) are others on btrfs, where each subvolume has a device number of
//! its own and maps have the file system's, as the mount table does.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;

use super::libraries::FileId;
use crate::sys::dir::read_all;

/// Bytes that are read of the mount table: as many as for cgroups.
const LIMIT: usize = 64 << 20;

/// The mount table of this process.
#[derive(Debug, Default)]
pub(super) struct Mounts(Vec<u8>);

impl Mounts {
    /// As it is now; an empty one, in which nothing is found, if it cannot be
    /// read.
    pub(super) fn read() -> Self {
        let mut text = Vec::new();
        let read = File::open("/proc/self/mountinfo").map(|file| read_all(file, &mut text, LIMIT));
        if matches!(read, Ok(Ok(()))) { Self(text) } else { Self::default() }
    }

    /// Which file this is; `None` if its mount is not in the table (one that
    /// lies outside this process's root).
    pub(super) fn identify(&self, file: &File) -> Option<FileId> {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
        let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
        Some((self.device(mount.as_bytes())?, file.metadata().ok()?.ino()))
    }

    /// Major and minor number: the third field, proc_pid_mountinfo(5).
    fn device(&self, mount: &[u8]) -> Option<(u32, u32)> {
        let mut lines = self.0.split(|byte| *byte == b'\n').map(|line| line.split(|byte| *byte == b' '));
        let mut fields = lines.find_map(|mut fields| (fields.next()? == mount).then_some(fields))?;
        let (major, minor) = str::from_utf8(fields.nth(1)?).ok()?.split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::process::maps::mappings;

    /// Make sure that a mapped file is the same by its map and by itself.
    #[test]
    fn as_in_maps() {
        let maps = fs::read("/proc/self/maps").unwrap();
        let exe = fs::canonicalize("/proc/self/exe").unwrap();
        let own = std::os::unix::ffi::OsStrExt::as_bytes(exe.as_os_str());
        let mapping = mappings(&maps).find(|mapping| mapping.path == own).unwrap();
        assert_eq!(Mounts::read().identify(&File::open(&exe).unwrap()), Some(mapping.file()));
    }

    /// Make sure that a mount is found by its whole number, and that rubbish
    /// says nothing.
    #[test]
    fn devices() {
        let mounts = Mounts(b"2 1 8:1 / / rw\n22 2 0:45 /a /b rw\n3\n4 1 x:y / /\n5 1 \xff:1 / /".to_vec());
        assert_eq!((mounts.device(b"2"), mounts.device(b"22")), (Some((8, 1)), Some((0, 45))));
        for nothing in [&b"3"[..], b"4", b"5", b"6", b""] {
            assert_eq!(mounts.device(nothing), None);
        }
    }
}
