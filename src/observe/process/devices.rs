//! The devices that a process has open or mapped: device numbers behind its
//! descriptors and mappings. Nothing is opened.

use std::collections::BTreeMap;
use std::ffi::CStr;

use nix::errno::Errno;

use super::files::Files;
use super::maps::mappings;
use super::refusals::{Kind, Refusals};
use crate::observation::{Answer, HeldDevice, NodeKind};
use crate::sys::dir::Dir;
use crate::sys::stat::{FileKind, FileStat, stat_at};

/// Descriptors that are looked at; the kernel's own limit, `fs.nr_open`, is the
/// same by default.
const DESCRIPTORS: u32 = 1 << 20;

/// Reads descriptors and mappings through the process's directory.
pub(super) fn read(
    dir: &Dir,
    maps: &[u8],
    files: &mut Files,
    refusals: &Refusals,
) -> Answer<Vec<HeldDevice>> {
    let mut held = Held::default();
    match descriptors(dir, &mut held) {
        Ok(()) => {}
        Err(errno) => return Answer::Missing(refusals.why(Kind::Devices, errno)),
    }
    let mut unknown = false;
    let mut last = None;
    for mapping in mappings(maps) {
        if last == Some(mapping.file()) {
            continue;
        }
        last = Some(mapping.file());
        match files.device(dir, &mapping) {
            Ok(Some(stat)) => held.entry(stat.kind, stat.rdev).mapped = true,
            Ok(None) | Err(Errno::ESRCH) => {}
            Err(_) => unknown |= may_be_device(mapping.path),
        }
    }
    if unknown {
        refusals.count(Kind::Mapped);
    }
    Answer::Known(held.all())
}

/// Files whose mappings cannot be looked into are passed over if their name
/// says that they are code.
fn may_be_device(path: &[u8]) -> bool {
    path.starts_with(b"/dev/") && !path.starts_with(b"/dev/shm/") && !path.starts_with(b"/dev/zero (deleted)")
}

/// Adds the devices behind the descriptors of a process or thread.
pub(in super::super) fn descriptors(dir: &Dir, held: &mut Held) -> Result<(), Errno> {
    let fds = dir.child(c"fd")?;
    let mut left = DESCRIPTORS;
    let mut refused = None;
    fds.numbers(c".", |name, _| {
        match device(&fds, name) {
            Ok(Some(stat)) => held.entry(stat.kind, stat.rdev).fds += 1,
            Ok(None) => {}
            Err(errno) => refused = Some(errno),
        }
        left -= 1;
        left > 0 && refused.is_none()
    })?;
    refused.map_or(Ok(()), Err)
}

/// A descriptor's device; one that is closed meanwhile is none. Who may list
/// descriptors may be refused to look behind them all the same.
fn device(fds: &Dir, name: &CStr) -> Result<Option<FileStat>, Errno> {
    match stat_at(fds, name) {
        Ok(stat) => Ok(matches!(stat.kind, FileKind::Char | FileKind::Block).then_some(stat)),
        Err(errno @ (Errno::EACCES | Errno::EPERM)) => Err(errno),
        Err(_) => Ok(None),
    }
}

/// Distinct devices in order.
#[derive(Debug, Default)]
pub(in super::super) struct Held(BTreeMap<(bool, (u32, u32)), HeldDevice>);

impl Held {
    pub(in super::super) fn entry(&mut self, kind: FileKind, rdev: (u32, u32)) -> &mut HeldDevice {
        let block = kind == FileKind::Block;
        let kind = if block { NodeKind::Block } else { NodeKind::Char };
        let (major, minor) = rdev;
        let new = HeldDevice { kind, major, minor, fds: 0, mapped: false };
        self.0.entry((block, rdev)).or_insert(new)
    }

    /// All of them: character devices first, then by number.
    pub(in super::super) fn all(self) -> Vec<HeldDevice> {
        self.0.into_values().collect()
    }
}
