//! Reads links, which keep programs attached.

use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;

use super::call::{Body, BpfCommand, BpfError, IdBody, LinkHead, call, fd_by_id, info, open};

/// `BPF_LINK_TYPE_TRACING`.
const TRACING_LINK: u32 = 2;
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

/// A link from a program to a function of the kernel or of another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracingLink {
    /// Program id.
    pub program: u32,
    /// Where the function is in another program, that one's id; else the id of
    /// types. 0 before Linux 5.13.
    pub target: u32,
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
    match unsafe { call(BpfCommand::NextLink, &mut body) } {
        Ok(_) => Ok(Some(body.next_id)),
        Err(error) if error.errno == libc::ENOENT => Ok(None),
        Err(error) => Err(error),
    }
}

// SAFETY: four u32, as in `linux/bpf.h`.
unsafe impl Body for LinkHead {}

/// Whether links could not be listed because this kernel has none, for they came with
/// Linux 5.7. It is asked for one of no program: a kernel with links refuses that because of
/// the program (`EBADF`), an older one as an unknown command (`EINVAL`). Nothing is attached.
pub fn lacks_links(listing: BpfError) -> bool {
    let mut body =
        LinkHead { program: u32::MAX, target: u32::MAX, attach_type: CGROUP_DEVICE, ..LinkHead::default() };
    // SAFETY: no addresses in the body.
    let mut made = || unsafe { open(BpfCommand::LinkCreate, &mut body) };
    listing.errno == libc::EINVAL && made().is_err_and(|error| error.errno == libc::EINVAL)
}

/// How often, and how long apart, a link is asked for that is just being made.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_micros(100);

/// Opens a link by id. Since Linux 5.8; needs `CAP_SYS_ADMIN`.
///
/// A link that is being made has its id before it can be opened (`EAGAIN`), and its program
/// may be in force by then: it is waited for, for some milliseconds.
///
/// # Errors
///
/// `Gone` if no link has the id, `Refused` without the right.
pub fn link_by_id(id: u32) -> Result<OwnedFd, BpfError> {
    let mut tries = TRIES;
    loop {
        match fd_by_id(BpfCommand::LinkById, id, 0) {
            Err(error) if error.errno == libc::EAGAIN && tries > 0 => {
                tries -= 1;
                thread::sleep(PAUSE);
            }
            answer => return answer,
        }
    }
}

/// What a link attaches; `None` unless it is a device program on a cgroup.
/// Since Linux 5.8.
///
/// # Errors
///
/// Those of bpf(2).
pub fn link_info(link: BorrowedFd<'_>) -> Result<Option<LinkInfo>, BpfError> {
    let raw = read(link)?;
    let device = raw.kind == CGROUP_LINK && raw.attach_type == CGROUP_DEVICE;
    Ok(device.then_some(LinkInfo { id: raw.id, program: raw.program, cgroup: raw.cgroup }))
}

/// What a link of tracing leads to; `None` for other links. Since Linux 5.8.
///
/// # Errors
///
/// Those of bpf(2).
pub fn tracing_link(link: BorrowedFd<'_>) -> Result<Option<TracingLink>, BpfError> {
    let raw = read(link)?;
    Ok((raw.kind == TRACING_LINK).then(|| tracing(&raw)))
}

/// A link of the program with this id; `None` if it has none. Since Linux 5.8 (of kprobes
/// since 5.15); needs `CAP_SYS_ADMIN`.
///
/// # Errors
///
/// Those of bpf(2).
pub fn link_of(program: u32) -> Result<Option<OwnedFd>, BpfError> {
    let mut id = 0;
    while let Some(next) = next_link_id(id)? {
        id = next;
        match link_by_id(id) {
            Ok(link) if read(link.as_fd())?.program == program => return Ok(Some(link)),
            Err(error) if !error.is_gone() => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(None)
}

/// The tracing member of the union has `attach_type` and `target_obj_id`, 32
/// bits each, where the cgroup's has its id.
fn tracing(raw: &RawInfo) -> TracingLink {
    let [.., a, b, c, d] = raw.cgroup.to_ne_bytes();
    TracingLink { program: raw.program, target: u32::from_ne_bytes([a, b, c, d]) }
}

fn read(link: BorrowedFd<'_>) -> Result<RawInfo, BpfError> {
    let mut raw = RawInfo::default();
    // SAFETY: `RawInfo` is a prefix of `bpf_link_info`; link types that would
    // write to an address held in it (tracepoints, multi-probes) read a null
    // there and write nothing.
    unsafe { info(link.as_raw_fd(), &mut raw)? };
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the target of a tracing link is read from its place.
    #[test]
    fn tracing_member() {
        let mut cgroup = [0; 8];
        cgroup[4..].copy_from_slice(&77_u32.to_ne_bytes());
        let raw = RawInfo { program: 5, cgroup: u64::from_ne_bytes(cgroup), ..RawInfo::default() };
        assert_eq!(tracing(&raw), TracingLink { program: 5, target: 77 });
        assert_eq!(std::mem::offset_of!(RawInfo, cgroup), 16);
    }
}
