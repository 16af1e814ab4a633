//! Finds the devices that a process has open or mapped, by the device numbers
//! behind its descriptors and mappings. Nothing is opened.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::time::Instant;

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;

use super::mapped_files::{MappedFiles, mappings};
use super::refusals::{ReadKind, Refusals};
use crate::model::DeviceType;
use crate::observation::HeldDevice;
use crate::sys::absence::is_end;
use crate::sys::dir::Dir;
use crate::sys::retry::again;
use crate::sys::stat::{FileKind, FileStat, stat_at};

/// Descriptors of one process that are looked at; the kernel's own limit for a
/// table, `fs.nr_open`, is the same by default.
const DESCRIPTORS: u32 = 1 << 20;

/// Different devices of one process that are kept.
const DEVICES: usize = 4096;

/// Bytes of `fdinfo`.
const INFO_LIMIT: usize = 64 << 10;

/// How often a descriptor is inspected that changes each time.
const TRIES: usize = 3;

/// Majors of character devices that no GPU has (`linux/major.h`): memory,
/// terminals and pseudo-terminals.
const MEMORY: u32 = 1;

const TERMINALS: [u32; 2] = [4, 5];

const PSEUDO_TERMINALS: std::ops::RangeInclusive<u32> = 136..=143;

/// Distinct devices in order, and what could not be inspected.
#[derive(Debug, Default)]
pub(in crate::observe) struct HeldDevices {
    devices: BTreeMap<(bool, (u32, u32)), HeldDevice>,
    /// Descriptors that were inspected.
    seen: u32,
    /// Descriptors whose file could not be inspected.
    refused: u32,
    cut: Option<String>,
}

impl HeldDevices {
    /// The device with these numbers; `None` where there are too many already.
    fn entry(&mut self, kind: FileKind, rdev: (u32, u32)) -> Option<&mut HeldDevice> {
        let block = kind == FileKind::Block;
        let kind = if block { DeviceType::Block } else { DeviceType::Char };
        let (major, minor) = rdev;
        let key = (block, rdev);
        if self.devices.len() >= DEVICES && !self.devices.contains_key(&key) {
            self.cut(format!("it has more than {DEVICES} different devices"));
            return None;
        }
        let new = HeldDevice { kind, major, minor, fds: 0, mapped: false };
        Some(self.devices.entry(key).or_insert(new))
    }

    /// Counts a descriptor.
    pub(in crate::observe) fn open(&mut self, kind: FileKind, rdev: (u32, u32)) {
        if let Some(device) = self.entry(kind, rdev) {
            device.fds = device.fds.saturating_add(1);
        }
    }

    /// Notes that more devices may be held, and why that is not known. The first
    /// reason stays.
    pub(in crate::observe) fn cut(&mut self, why: impl Into<String>) {
        self.cut.get_or_insert_with(|| why.into());
    }

    /// Adds the descriptors of a thread that may share the table of another.
    pub(super) fn join(&mut self, other: Self) {
        self.refused = self.refused.max(other.refused);
        if let Some(why) = other.cut {
            self.cut(why);
        }
        for ((block, rdev), theirs) in other.devices {
            let kind = if block { FileKind::Block } else { FileKind::Char };
            if let Some(device) = self.entry(kind, rdev) {
                device.fds = device.fds.max(theirs.fds);
            }
        }
    }

    /// All devices, character devices first, then by number; and why there may
    /// be others.
    pub(in crate::observe) fn all(self) -> (Vec<HeldDevice>, Option<String>) {
        let refused = match self.refused {
            0 => None,
            1 => Some("1 descriptor cannot be looked behind: its file system refuses that".to_owned()),
            count => {
                Some(format!("{count} descriptors cannot be looked behind: their file systems refuse that"))
            }
        };
        (self.devices.into_values().collect(), refused.or(self.cut))
    }
}

/// Adds the devices that are mapped. Returns their address ranges, because reading
/// there would read the device.
pub(super) fn mapped(
    dir: &Dir,
    maps: &[u8],
    files: &mut MappedFiles,
    refusals: &Refusals,
    held: &mut HeldDevices,
) -> Vec<(u64, u64)> {
    let (mut places, mut unknown) = (Vec::new(), false);
    let mut last = None;
    for mapping in mappings(maps) {
        let again = last.filter(|(file, _)| *file == mapping.file());
        let is_device = match again {
            Some((_, is_device)) => is_device,
            None => match files.device(dir, &mapping) {
                Ok(Some(stat)) => {
                    if let Some(device) = held.entry(stat.kind, stat.rdev) {
                        device.mapped = true;
                    }
                    true
                }
                Ok(None) | Err(Errno::ESRCH) => false,
                Err(errno) if !is_right(errno) && !is_end(errno) => {
                    unknown = true;
                    false
                }
                // A right is missing: the name of the mapping decides, and what may be a device is told.
                Err(_) => {
                    unknown |= may_be_device(mapping.path);
                    may_be_device(mapping.path)
                }
            },
        };
        last = Some((mapping.file(), is_device));
        if is_device {
            places.push((mapping.start, mapping.end));
        }
    }
    if unknown {
        refusals.count(ReadKind::Mapped);
        held.cut("a mapping cannot be looked behind");
    }
    places
}

/// Whether a mapping that cannot be inspected may be a device, judged by the name
/// of its file.
fn may_be_device(path: &[u8]) -> bool {
    path.starts_with(b"/dev/") && !path.starts_with(b"/dev/shm/") && !path.starts_with(b"/dev/zero (deleted)")
}

/// Adds the devices of the descriptors of a process or thread, until the time is up.
/// A descriptor that its file system refuses to describe counts as unknown.
///
/// # Errors
///
/// Opening or listing the directory failed; `EACCES` if no descriptor may be
/// inspected.
pub(super) fn descriptors(dir: &Dir, held: &mut HeldDevices, end: Instant) -> Result<(), Errno> {
    let fds = dir.child(c"fd")?;
    let mut refused = None;
    fds.numbers(c".", |name, _| {
        held.seen += 1;
        if held.seen > DESCRIPTORS {
            held.cut(format!("it has more than {DESCRIPTORS} descriptors"));
            return false;
        }
        if held.seen.is_multiple_of(256) && Instant::now() >= end {
            held.cut("it has too many descriptors to look at all of them");
            return false;
        }
        match device(dir, &fds, name) {
            Ok(Some(stat)) => held.open(stat.kind, stat.rdev),
            Ok(None) => {}
            Err(errno) if is_right(errno) && !may_look(&fds, name) => refused = Some(errno),
            // They are counted and told.
            Err(_) => held.refused += 1,
        }
        refused.is_none()
    })?;
    refused.map_or(Ok(()), Err)
}

fn is_right(errno: Errno) -> bool {
    matches!(errno, Errno::EACCES | Errno::EPERM)
}

/// Whether descriptors may be inspected at all, which takes a right of its own. If
/// so, the file itself refused.
fn may_look(fds: &Dir, name: &CStr) -> bool {
    !matches!(fds.link(name), Err(errno) if is_right(errno))
}

/// The device of a descriptor; `None` if the descriptor was closed since, or only
/// names the device (`O_PATH`).
fn device(dir: &Dir, fds: &Dir, name: &CStr) -> Result<Option<FileStat>, Errno> {
    for _ in 0..TRIES {
        let stat = match stat_at(fds, name) {
            Ok(stat) => stat,
            // One that is open has its link.
            Err(errno) if is_closed(errno) && fds.link(name).is_ok() => continue,
            Err(errno) if is_closed(errno) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        if !matches!(stat.kind, FileKind::Char | FileKind::Block) {
            return Ok(None);
        }
        match is_opened(dir, fds, name, &stat) {
            Ok(Some(true)) => return Ok(Some(stat)),
            Ok(Some(false)) => return Ok(None),
            // Whether it is closed the next try sees.
            Ok(None) | Err(Errno::ENOENT | Errno::ESRCH) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::ESTALE)
}

fn is_closed(errno: Errno) -> bool {
    is_end(errno) || errno == Errno::EBADF
}

/// Whether the descriptor has the file open instead of only naming it; `None` if it
/// has another file by now.
fn is_opened(dir: &Dir, fds: &Dir, name: &CStr, stat: &FileStat) -> Result<Option<bool>, Errno> {
    let (major, _) = stat.rdev;
    let is_terminal = TERMINALS.contains(&major) || PSEUDO_TERMINALS.contains(&major);
    if stat.kind == FileKind::Char && (major == MEMORY || is_terminal) {
        // The link has permission bits for reading and writing only (`tid_fd_mode`
        // in fs/proc/fd.c). That tells less, but these are in every process.
        let link = again(|| fstatat(fds, name, AtFlags::AT_SYMLINK_NOFOLLOW))?;
        if link.st_mode & 0o600 != 0 {
            return Ok(Some(true));
        }
    }
    // A name in a directory has no zero byte.
    let path = CString::new([b"fdinfo/", name.to_bytes()].concat()).map_err(|_| Errno::EINVAL)?;
    let mut text = Vec::new();
    dir.read_into(&path, &mut text, INFO_LIMIT)?;
    Ok(opened(&text, stat.inode))
}

/// Parses `fdinfo`: flags of open(2) in octal, and since Linux 5.14 the inode, which
/// shows that both are of the same file.
fn opened(text: &[u8], inode: u64) -> Option<bool> {
    let field = |name: &[u8]| {
        let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))?;
        std::str::from_utf8(line).ok().map(str::trim)
    };
    let same = field(b"ino:").is_none_or(|number| number.parse() == Ok(inode));
    let flags = i32::from_str_radix(field(b"flags:")?, 8).ok()?;
    same.then_some(flags & libc::O_PATH == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a name alone is not open, and that another file's flags
    /// say nothing.
    #[test]
    fn flags() {
        let text = |flags: &str| format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t30\nino:\t91\n").into_bytes();
        assert_eq!(opened(&text("0100002"), 91), Some(true));
        assert_eq!(opened(&text("012000000"), 91), Some(false));
        assert_eq!(opened(&text("0100002"), 92), None);
        assert_eq!(opened(b"pos:\t0\nflags:\t0100002\n", 7), Some(true));
        assert_eq!(opened(b"pos:\t0\n", 7), None);
    }

    /// Make sure that of a table that is shown twice nothing counts twice.
    #[test]
    fn joined() {
        let held = |fds| {
            let mut held = HeldDevices::default();
            (0..fds).for_each(|_| held.open(FileKind::Char, (195, 0)));
            held
        };
        let mut both = held(2);
        both.join(held(3));
        both.join(held(1));
        assert_eq!(both.all().0[0].fds, 3);
    }
}
