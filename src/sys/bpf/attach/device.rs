//! Puts one device program in the place of another on a cgroup, and keeps
//! programs under names in a bpf file system. The only user is `repair --apply`
//! (`src/repair/apply`).
//!
//! Each change is one system call that the kernel does whole or not at all: a
//! process that opens a device meanwhile is judged by the list before or by the
//! list after. Where the kernel can compare before it swaps, it is made to.

use std::ffi::{CStr, CString};
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::{LoadBody, NAME_SIZE};
use crate::sys::bpf::call::{Body, BpfCommand, BpfError, call, open, raw};
use crate::sys::bpf::program::CGROUP_DEVICE_PROGRAM;
use crate::sys::locked_memory;

/// `BPF_CGROUP_DEVICE` of `enum bpf_attach_type`.
const CGROUP_DEVICE: u32 = 6;
/// Attach flags of `linux/bpf.h`: `BPF_F_ALLOW_OVERRIDE`, `BPF_F_ALLOW_MULTI`,
/// `BPF_F_REPLACE`, `BPF_F_PREORDER`.
const ALLOW_OVERRIDE: u32 = 1;
const ALLOW_MULTI: u32 = 1 << 1;
const REPLACE: u32 = 1 << 2;
const PREORDER: u32 = 1 << 6;

/// How a program is attached, which decides how the kernel replaces it.
#[derive(Clone, Copy, Debug)]
pub enum Swap<'a> {
    /// One of a list of programs (`BPF_F_ALLOW_MULTI`). The kernel compares the old
    /// program, and the revision of the list if that is not 0. Since Linux 5.6, the
    /// revision since 6.17.
    Listed {
        /// Whether it runs before those of lower cgroups, which has to be said again.
        preorder: bool,
        /// The list's revision as [`query`](crate::sys::bpf::query()) gave it.
        revision: u64,
    },
    /// The cgroup's only program. The kernel compares nothing but the revision, so
    /// that there must be one (since Linux 6.17).
    Sole {
        /// Whether the cgroup lets lower ones override it (`BPF_F_ALLOW_OVERRIDE`).
        may_override: bool,
        /// The list's revision.
        revision: NonZeroU64,
    },
    /// The program of this link. The kernel compares the old program. Since Linux
    /// 5.7.
    Link(BorrowedFd<'a>),
}

/// The member of `BPF_PROG_ATTACH` and `BPF_PROG_DETACH`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct AttachBody {
    target: u32,
    program: u32,
    attach_type: u32,
    flags: u32,
    replaced: u32,
    relative: u32,
    revision: u64,
}

// SAFETY: integers without padding, as in `linux/bpf.h`; 32 bytes.
unsafe impl Body for AttachBody {}

/// The member of `BPF_LINK_UPDATE`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct UpdateBody {
    link: u32,
    new: u32,
    flags: u32,
    old: u32,
}

// SAFETY: four u32, as in `linux/bpf.h`.
unsafe impl Body for UpdateBody {}

/// The member of `BPF_OBJ_PIN` and `BPF_OBJ_GET`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct PinBody {
    path: u64,
    object: u32,
    flags: u32,
    directory: u32,
    tail: u32,
}

// SAFETY: a u64 and four u32, as in `linux/bpf.h`.
unsafe impl Body for PinBody {}

/// Loads a device program of these instructions, 8 bytes each, which use no map
/// and no helper. Since Linux 4.15; the name, at most 15 bytes, is its label.
///
/// # Errors
///
/// Refused without `CAP_BPF` and `CAP_NET_ADMIN` (before 5.8 `CAP_SYS_ADMIN`);
/// else the verifier's error.
pub fn load_device(name: &str, instructions: &[u8]) -> Result<OwnedFd, BpfError> {
    locked_memory::raised();
    let mut body = LoadBody {
        kind: CGROUP_DEVICE_PROGRAM,
        instruction_count: u32::try_from(instructions.len() / 8).unwrap_or(u32::MAX),
        instructions: instructions.as_ptr() as u64,
        license: c"MIT OR Apache-2.0".as_ptr() as u64,
        ..LoadBody::default()
    };
    for (into, byte) in body.name.iter_mut().take(NAME_SIZE - 1).zip(name.bytes()) {
        *into = byte;
    }
    // SAFETY: the kernel reads as many whole instructions as there are (it refuses
    // `u32::MAX` unread) and the licence to its end; no log is asked for.
    unsafe { open(BpfCommand::ProgramLoad, &mut body) }
}

/// Puts `new` in the place of `old`, with the flags that the cgroup has.
///
/// # Errors
///
/// `ENOENT` if the old program is not there (any more) or the cgroup is gone,
/// `ESTALE` if the list has changed, `EPERM` if the flags or the program of the link
/// are others or a right is missing, `ENOLINK` for the link of a removed cgroup.
pub fn swap_device(
    cgroup: BorrowedFd<'_>,
    old: BorrowedFd<'_>,
    new: BorrowedFd<'_>,
    how: Swap<'_>,
) -> Result<(), BpfError> {
    let attach = |flags: u32, replaced: Option<BorrowedFd<'_>>, revision: u64| {
        let mut body = AttachBody {
            target: raw(cgroup),
            program: raw(new),
            attach_type: CGROUP_DEVICE,
            flags,
            replaced: replaced.map_or(0, raw),
            relative: 0,
            revision,
        };
        // SAFETY: no addresses in the body.
        unsafe { call(BpfCommand::Attach, &mut body) }.map(drop)
    };
    match how {
        Swap::Listed { preorder, revision } => {
            let first = if preorder { PREORDER } else { 0 };
            attach(ALLOW_MULTI | REPLACE | first, Some(old), revision)
        }
        Swap::Sole { may_override, revision } => {
            attach(if may_override { ALLOW_OVERRIDE } else { 0 }, None, revision.get())
        }
        Swap::Link(link) => {
            let mut body = UpdateBody { link: raw(link), new: raw(new), flags: REPLACE, old: raw(old) };
            // SAFETY: no addresses in the body.
            unsafe { call(BpfCommand::LinkUpdate, &mut body) }.map(drop)
        }
    }
}

/// Takes a program out of the list of a cgroup whose flag is `BPF_F_ALLOW_MULTI`;
/// of others it does nothing safe, because the kernel would take whatever is there.
/// A revision of 0 is not compared.
///
/// # Errors
///
/// `ENOENT` if the program is not there, `ESTALE` if the list has changed.
pub fn detach_device(cgroup: BorrowedFd<'_>, program: BorrowedFd<'_>, revision: u64) -> Result<(), BpfError> {
    let mut body = AttachBody {
        target: raw(cgroup),
        program: raw(program),
        attach_type: CGROUP_DEVICE,
        revision,
        ..AttachBody::default()
    };
    // SAFETY: no addresses in the body.
    unsafe { call(BpfCommand::Detach, &mut body) }.map(drop)
}

/// Keeps a program under a name of a directory of a bpf file system.
///
/// # Errors
///
/// `EEXIST` if there is one, `EPERM` if the directory is in another file system.
pub fn pin(program: BorrowedFd<'_>, directory: BorrowedFd<'_>, name: &CStr) -> Result<(), BpfError> {
    let path = path_in(directory, name);
    let mut body = PinBody { path: path.as_ptr() as u64, object: raw(program), ..PinBody::default() };
    // SAFETY: the kernel reads the path to its end.
    unsafe { call(BpfCommand::Pin, &mut body) }.map(drop)
}

/// Opens what a name of a directory of a bpf file system keeps; the caller has to
/// make sure that it is a program.
///
/// # Errors
///
/// Gone if there is nothing of this name.
pub fn pinned(directory: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, BpfError> {
    let path = path_in(directory, name);
    let mut body = PinBody { path: path.as_ptr() as u64, ..PinBody::default() };
    // SAFETY: the kernel reads the path to its end.
    unsafe { open(BpfCommand::Pinned, &mut body) }
}

/// The path of a name in an open directory. The kernel takes descriptors of
/// directories itself since Linux 6.5; this way leads there on all.
fn path_in(directory: BorrowedFd<'_>, name: &CStr) -> CString {
    let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.to_bytes());
    // Neither part holds a zero.
    CString::new(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the structures have the kernel's layout.
    #[test]
    fn layout() {
        assert_eq!(std::mem::offset_of!(AttachBody, replaced), 16);
        assert_eq!(std::mem::offset_of!(AttachBody, revision), 24);
        assert_eq!(size_of::<AttachBody>(), 32);
        assert_eq!(std::mem::offset_of!(UpdateBody, old), 12);
        assert_eq!(std::mem::offset_of!(PinBody, object), 8);
        assert_eq!(size_of::<PinBody>(), 24);
    }
}
