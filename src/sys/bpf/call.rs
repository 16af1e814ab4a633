//! The call itself, and the members of its attribute that several commands use.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_long, c_ulong};
use nix::errno::Errno;
use thiserror::Error;

use crate::sys::retry::again;

/// Every attribute is at least this long, in bytes: more than any kernel
/// writes back (see [`super`]).
pub const MIN_ATTR_SIZE: usize = 128;

/// Commands of bpf(2), numbered as `enum bpf_cmd` in `linux/bpf.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(in crate::sys) enum BpfCommand {
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    MapNextKey = 4,
    ProgramLoad = 5,
    Pin = 6,
    Pinned = 7,
    Attach = 8,
    Detach = 9,
    ProgramById = 13,
    MapById = 14,
    Info = 15,
    Query = 16,
    TypesLoad = 18,
    TypesById = 19,
    MapLookupBatch = 24,
    LinkCreate = 28,
    LinkUpdate = 29,
    LinkById = 30,
    NextLink = 31,
    IterCreate = 33,
}

impl BpfCommand {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::MapLookup => "BPF_MAP_LOOKUP_ELEM",
            Self::MapUpdate => "BPF_MAP_UPDATE_ELEM",
            Self::MapDelete => "BPF_MAP_DELETE_ELEM",
            Self::MapNextKey => "BPF_MAP_GET_NEXT_KEY",
            Self::ProgramLoad => "BPF_PROG_LOAD",
            Self::Pin => "BPF_OBJ_PIN",
            Self::Pinned => "BPF_OBJ_GET",
            Self::Attach => "BPF_PROG_ATTACH",
            Self::Detach => "BPF_PROG_DETACH",
            Self::ProgramById => "BPF_PROG_GET_FD_BY_ID",
            Self::MapById => "BPF_MAP_GET_FD_BY_ID",
            Self::Info => "BPF_OBJ_GET_INFO_BY_FD",
            Self::Query => "BPF_PROG_QUERY",
            Self::MapLookupBatch => "BPF_MAP_LOOKUP_BATCH",
            Self::LinkCreate => "BPF_LINK_CREATE",
            Self::LinkUpdate => "BPF_LINK_UPDATE",
            Self::IterCreate => "BPF_ITER_CREATE",
            Self::TypesLoad => "BPF_BTF_LOAD",
            Self::TypesById => "BPF_BTF_GET_FD_BY_ID",
            Self::LinkById => "BPF_LINK_GET_FD_BY_ID",
            Self::NextLink => "BPF_LINK_GET_NEXT_ID",
        }
    }
}

/// One member of `union bpf_attr`.
///
/// # Safety
///
/// The type must be `repr(C)` with the layout of that member, without padding
/// bytes, made of integers only, and a multiple of 8 bytes long.
pub(in crate::sys) unsafe trait Body: Copy {}

/// The member with a tail of zeros, which every kernel accepts.
#[repr(C, align(8))]
struct Attr<T> {
    body: T,
    tail: [u64; MIN_ATTR_SIZE / 8],
}

/// Makes the call, again where it was interrupted; what the kernel writes back is in
/// `body` afterwards, on failure too.
///
/// # Safety
///
/// Every address in `body` must be valid for what `command` does with it.
pub(in crate::sys) unsafe fn call<T: Body>(command: BpfCommand, body: &mut T) -> Result<c_long, BpfError> {
    const { assert!(size_of::<T>().is_multiple_of(8)) };
    let mut attr = Attr { body: *body, tail: [0; MIN_ATTR_SIZE / 8] };
    let mut errno = 0;
    let result = again(|| {
        attr.body = *body;
        // SAFETY: `attr` outlives the call and is as long as stated; it has no
        // padding (`Body`); the addresses inside are the caller's promise.
        let result = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                c_long::from(command as i32),
                &raw mut attr,
                size_of::<Attr<T>>() as c_ulong,
            )
        };
        Errno::result(result).inspect_err(|_| errno = Errno::last_raw())
    });
    *body = attr.body;
    // The number itself: not all that bpf(2) lets out have a name.
    result.or(Err(BpfError { command: command.name(), errno }))
}

/// Makes a call that opens something.
///
/// # Safety
///
/// As [`call`].
pub(in crate::sys) unsafe fn open<T: Body>(command: BpfCommand, body: &mut T) -> Result<OwnedFd, BpfError> {
    // SAFETY: the caller's promise.
    let fd = unsafe { call(command, body)? };
    // SAFETY: the kernel returned a new descriptor (always close-on-exec) that
    // nobody else knows; descriptors fit an int.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// The number of a descriptor as members have it.
pub(in crate::sys) fn raw(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// The beginning of the member of `BPF_LINK_CREATE`; what follows depends on the kind
/// of link.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(in crate::sys) struct LinkHead {
    pub(in crate::sys) program: u32,
    pub(in crate::sys) target: u32,
    pub(in crate::sys) attach_type: u32,
    pub(in crate::sys) flags: u32,
}

impl LinkHead {
    /// A link of a program, attached to nothing that has a number.
    pub(in crate::sys) fn of(program: BorrowedFd<'_>, attach_type: u32) -> Self {
        Self { program: raw(program), attach_type, ..Self::default() }
    }
}

/// The member of the `*_GET_FD_BY_ID` and `*_GET_NEXT_ID` commands.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct IdBody {
    pub(super) id: u32,
    pub(super) next_id: u32,
    pub(super) open_flags: u32,
    pub(super) token_fd: u32,
}

// SAFETY: four u32, as in `linux/bpf.h`.
unsafe impl Body for IdBody {}

pub(super) fn fd_by_id(command: BpfCommand, id: u32, open_flags: u32) -> Result<OwnedFd, BpfError> {
    let mut body = IdBody { id, open_flags, ..IdBody::default() };
    // SAFETY: no addresses in the body.
    unsafe { open(command, &mut body) }
}

/// The member of `BPF_OBJ_GET_INFO_BY_FD`.
#[derive(Clone, Copy)]
#[repr(C)]
struct InfoBody {
    fd: u32,
    info_len: u32,
    info: u64,
}

// SAFETY: two u32 and a u64, as in `linux/bpf.h`.
unsafe impl Body for InfoBody {}

/// Asks for an object's info structure.
///
/// # Safety
///
/// `T` must be a prefix of the object's info structure made of integers, and
/// the addresses in it valid for the lengths beside them.
pub(super) unsafe fn info<T: Copy>(fd: RawFd, info: &mut T) -> Result<(), BpfError> {
    let mut body = InfoBody {
        fd: fd.cast_unsigned(),
        info_len: size_of::<T>() as u32,
        info: std::ptr::from_mut(info) as u64,
    };
    // SAFETY: the kernel writes at most `info_len` bytes to `info`, which is
    // exclusively borrowed; inner addresses are the caller's promise.
    unsafe { call(BpfCommand::Info, &mut body) }.map(drop)
}

/// `ENOTSUPP`, the kernel's internal "not supported" (`include/linux/errno.h`),
/// which bpf(2) lets out.
const ENOTSUPP: i32 = 524;

/// A bpf(2) command that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("bpf {command}: {}", describe(*.errno))]
pub struct BpfError {
    /// The command, as `linux/bpf.h` names it.
    pub command: &'static str,
    /// The error number.
    pub errno: i32,
}

impl BpfError {
    /// The object does not exist (any more): `ENOENT`, also of a cgroup that was removed
    /// (`css_tryget_online_from_dir` in `kernel/cgroup/cgroup.c`).
    pub fn is_gone(&self) -> bool {
        self.errno == libc::ENOENT
    }

    /// A capability is missing, or a security module said no.
    pub fn is_refused(&self) -> bool {
        matches!(self.errno, libc::EPERM | libc::EACCES)
    }

    /// This kernel does not know the command for this object.
    pub fn is_unsupported(&self) -> bool {
        matches!(self.errno, libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP | ENOTSUPP)
    }
}

fn describe(errno: i32) -> String {
    match errno {
        ENOTSUPP => "ENOTSUPP: not supported".to_owned(),
        _ => Errno::from_raw(errno).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that no attribute is ever short enough for CVE-2026-74371.
    #[test]
    fn attributes_are_full_size() {
        assert!(size_of::<Attr<IdBody>>() >= MIN_ATTR_SIZE);
        assert!(size_of::<Attr<InfoBody>>() >= MIN_ATTR_SIZE);
    }

    /// Make sure that a failure names command and cause.
    #[test]
    fn errors_are_typed() {
        let error = fd_by_id(BpfCommand::ProgramById, u32::MAX, 0).unwrap_err();
        assert!(error.is_gone() || error.is_refused(), "{error}");
        assert!(error.to_string().starts_with("bpf BPF_PROG_GET_FD_BY_ID: E"), "{error}");
    }

    /// Make sure that the kernel's internal number has a name.
    #[test]
    fn not_supported() {
        let error = BpfError { command: "x", errno: ENOTSUPP };
        assert!(error.is_unsupported() && error.to_string().contains("ENOTSUPP"));
    }
}
