//! Reads links, which keep programs attached.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::{BpfError, Command, IdBody, call, fd_by_id, info};

/// `BPF_LINK_TYPE_CGROUP`.
const CGROUP_LINK: u32 = 3;
/// `BPF_CGROUP_DEVICE` of `enum bpf_attach_type`.
const CGROUP_DEVICE: u32 = 6;

/// A link that attaches a device program to a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// Link id.
    pub id: u32,
    /// Program id.
    pub program: u32,
    /// Cgroup id; 0 once the cgroup is gone.
    pub cgroup: u64,
}

/// `struct bpf_link_info` up to the cgroup member.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct RawInfo {
    kind: u32,
    id: u32,
    program: u32,
    padding: u32,
    cgroup: u64,
    attach_type: u32,
    tail: u32,
}

/// The smallest link id above `id`, `None` at the end. Since Linux 5.8; needs
/// `CAP_SYS_ADMIN`.
///
/// # Errors
///
/// Refused without the right, unsupported on older kernels.
pub fn next_link_id(id: u32) -> Result<Option<u32>, BpfError> {
    let mut body = IdBody { id, ..IdBody::default() };
    // SAFETY: no addresses in the body.
    match unsafe { call(Command::NextLink, &mut body) } {
        Ok(_) => Ok(Some(body.next_id)),
        Err(error) if error.errno == libc::ENOENT => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a link by id. Since Linux 5.8; needs `CAP_SYS_ADMIN`.
///
/// # Errors
///
/// `Gone` if no link has the id, `Refused` without the right.
pub fn link_by_id(id: u32) -> Result<OwnedFd, BpfError> {
    fd_by_id(Command::LinkById, id, 0)
}

/// What a link attaches; `None` unless it is a device program on a cgroup.
/// Since Linux 5.8.
///
/// # Errors
///
/// Those of bpf(2).
pub fn link_info(link: BorrowedFd<'_>) -> Result<Option<LinkInfo>, BpfError> {
    let mut raw = RawInfo::default();
    // SAFETY: `RawInfo` is a prefix of `bpf_link_info`; link types that would
    // write to an address held in it (tracepoints, multi-probes) read a null
    // there and write nothing.
    unsafe { info(link.as_raw_fd(), &mut raw)? };
    let device = raw.kind == CGROUP_LINK && raw.attach_type == CGROUP_DEVICE;
    Ok(device.then_some(LinkInfo { id: raw.id, program: raw.program, cgroup: raw.cgroup }))
}
