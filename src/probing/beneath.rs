//! Which file an overlay shows.
//!
//! Containers of one image have overlays of their own, and each shows the same library as
//! a file with other numbers. The kernel puts a probe into the file beneath, so that one
//! which is attached through two overlays counts each call twice. The files beneath tell
//! who shares probes.

use nix::errno::Errno;

use super::look::Mapped;
use crate::sys::file_handle;
use crate::sys::regular_file::RegularFile;

/// A file beneath an overlay, with the time of the last change of its inode: no user can
/// set that, and a file that an overlay copied into its upper layer has another one, though
/// it may keep the handle of what it is a copy of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Beneath {
    number: Number,
    changed: (i64, u32),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Number {
    /// Device and inode, which maps show on older kernels.
    Inode((u32, u32), u64),
    /// The handle.
    Handle(Vec<u8>),
}

impl Beneath {
    /// The file that an overlay of this device shows as `file`, which a process has mapped
    /// as `mapped`. `None` where neither tells it: before Linux 6.6 for a file that no
    /// process has mapped, and above file systems without handles.
    ///
    /// # Errors
    ///
    /// Why the kernel does not tell, although it could.
    pub(super) fn of(
        file: &RegularFile,
        overlay: (u32, u32),
        mapped: Option<Mapped>,
    ) -> Result<Option<Self>, String> {
        let number = match mapped.filter(|mapped| mapped.device != overlay) {
            Some(mapped) => Number::Inode(mapped.device, mapped.inode),
            None => match file_handle::of(file) {
                Ok(handle) => Number::Handle(handle),
                Err(Errno::EOPNOTSUPP | Errno::EINVAL | Errno::ENOSYS) => return Ok(None),
                Err(errno) => return Err(format!("the file beneath it is not known ({})", errno.desc())),
            },
        };
        Ok(Some(Self { number, changed: file.stat().changed }))
    }
}
