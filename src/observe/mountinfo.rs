//! The lines of a mount table: `/proc/PID/mountinfo`, proc_pid_mountinfo(5).
//!
//! As bytes, and each line by itself: users mount what they like under any name, and one
//! foreign byte must not lose the rest of the table.
//!
//! Whether `/proc` hides the processes of others (`hidepid`, proc(5)) is in it.

use std::fs::{self, File};
use std::path::Path;

use nix::errno::Errno;

use super::problems::errno_of;
use crate::sys::dir::read_all;
use crate::sys::retry::again;

/// Bytes that are read of gpumap's own table; hosts with thousands of containers have some
/// megabytes.
pub(crate) const OWN_TABLE_LIMIT: usize = 64 << 20;

/// A mount:
/// `ID PARENT MAJOR:MINOR ROOT POINT OPTIONS TAG… - KIND SOURCE OPTIONS`. White space in a
/// field is escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MountLine<'a> {
    /// The kernel's number for this mount.
    pub(crate) id: u64,
    /// Major and minor number of its file system, as `/proc/PID/maps` shows
    /// it. On btrfs those of fstat(2) are others (each subvolume has its own),
    /// and on overlayfs they can be.
    pub(crate) device: (u32, u32),
    /// Which directory of the file system is mounted, escaped.
    pub(crate) root: &'a [u8],
    /// The mount point, escaped.
    pub(crate) point: &'a [u8],
    options: &'a [u8],
    /// The type of the file system.
    pub(crate) kind: &'a [u8],
    /// What is mounted.
    pub(crate) source: &'a [u8],
    super_options: &'a [u8],
}

/// The mounts of a table; what is no line of one is left out.
pub(crate) fn mounts(table: &[u8]) -> impl Iterator<Item = MountLine<'_>> {
    table.split(|byte| *byte == b'\n').filter_map(MountLine::parse)
}

impl<'a> MountLine<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let number = |text: &[u8]| str::from_utf8(text).ok()?.parse().ok();
        let id = number(fields.next()?)?;
        let (major, minor) = str::from_utf8(fields.nth(1)?).ok()?.split_once(':')?;
        let device = (major.parse().ok()?, minor.parse().ok()?);
        let (root, point, options) = (fields.next()?, fields.next()?, fields.next()?);
        fields.find(|field| *field == b"-")?;
        let (kind, source) = (fields.next()?, fields.next()?);
        let super_options = fields.next().unwrap_or_default();
        Some(Self { id, device, root, point, options, kind, source, super_options })
    }

    /// Whether the mount itself has an option, such as `nosuid`.
    pub(crate) fn has_option(&self, option: &[u8]) -> bool {
        self.options.split(|byte| *byte == b',').any(|one| one == option)
    }

    /// The options of the file system.
    pub(crate) fn super_options(&self) -> impl Iterator<Item = &'a [u8]> {
        self.super_options.split(|byte| *byte == b',')
    }
}

/// Decodes the escapes of a field, such as `\040` for a blank.
pub(crate) fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                tail
            }
            _ => {
                out.push(*first);
                tail
            }
        };
    }
    out
}

/// Bytes of the mount table.
const MOUNTS_LIMIT: usize = 64 << 20;

/// The `hidepid` option with which `/proc` is mounted, unless it is off, and whether
/// gpumap is in the group that it does not concern.
///
/// # Errors
///
/// Those of reading the mount table.
pub(in crate::observe) fn hidepid(proc: &Path) -> Result<Option<(String, bool)>, Errno> {
    let mut table = Vec::new();
    let file = again(|| File::open(proc.join("self/mounts"))).map_err(|error| errno_of(&error))?;
    read_all(file, &mut table, MOUNTS_LIMIT)?;
    let real = again(|| fs::canonicalize(proc)).map_err(|error| errno_of(&error))?;
    let Some((value, group)) = hidden_processes(&String::from_utf8_lossy(&table), &real) else {
        return Ok(None);
    };
    let groups = nix::unistd::getgroups()?;
    let is_in = |group: u32| {
        nix::unistd::getegid().as_raw() == group || groups.iter().any(|one| one.as_raw() == group)
    };
    // It concerns everybody who may not trace a process (`fs/proc/base.c`).
    let concerns_all = matches!(value.as_str(), "4" | "ptraceable");
    Ok(Some((value, !concerns_all && is_in(group))))
}

/// The option and its group of a mount table (proc_pid_mounts(5)). A later line hides an
/// earlier one.
fn hidden_processes(table: &str, proc: &Path) -> Option<(String, u32)> {
    let mut lines = table.lines().rev().map(|line| line.split(' ').collect::<Vec<_>>());
    let line = lines.find(|fields| fields.get(1).is_some_and(|point| Path::new(point) == proc))?;
    let option = |name: &str| line.get(3)?.split(',').find_map(|option| option.strip_prefix(name));
    let value = option("hidepid=")?;
    let group = option("gid=").and_then(|gid| gid.parse().ok()).unwrap_or(0);
    (!matches!(value, "0" | "off")).then(|| (value.to_owned(), group))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a line is read whole, and that rubbish says nothing.
    #[test]
    fn lines() {
        let table = b"2 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            22 2 0:45 /a /b\\040c ro,nosuid shared:1 master:2 - overlay none rw,lowerdir=/a - b\n\
            3\n4 1 x:y / / rw - ext4 a rw\n5 1 \xff:1 / / rw - ext4 a rw\n6 1 8:2 / / rw - ext4\n\
            9 2 7:3 / /x rw,nosuidx - squashfs /dev/loop3 ro\ngarbage\n- - -";
        let found: Vec<MountLine<'_>> = mounts(table).collect();
        assert_eq!(found.iter().map(|mount| mount.id).collect::<Vec<_>>(), [2, 22, 9]);
        assert_eq!((found[1].device, found[1].kind), ((0, 45), &b"overlay"[..]));
        assert_eq!((found[1].root, unescape(found[1].point)), (&b"/a"[..], b"/b c".to_vec()));
        assert!(found[1].has_option(b"nosuid") && !found[2].has_option(b"nosuid"));
        assert!(found[1].super_options().any(|option| option == b"lowerdir=/a"));
    }

    /// Make sure that the option of the right mount is reported, and not one that is
    /// off.
    #[test]
    fn hidden() {
        let table = "proc /other proc rw,hidepid=2 0 0\nproc /proc proc rw,hidepid=invisible 0 0\n";
        assert_eq!(hidden_processes(table, Path::new("/proc")), Some(("invisible".to_owned(), 0)));
        let group = "proc /proc proc rw,gid=7,hidepid=1 0 0\n";
        assert_eq!(hidden_processes(group, Path::new("/proc")), Some(("1".to_owned(), 7)));
        let later = format!("{table}proc /proc proc rw,hidepid=0 0 0\n");
        assert_eq!(hidden_processes(&later, Path::new("/proc")), None);
        assert_eq!(hidden_processes("x", Path::new("/proc")), None);
    }
}
