//! `BPF_PROG_QUERY` on a cgroup.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::call::{Body, BpfCommand, BpfError, call};

/// `BPF_CGROUP_DEVICE` of `enum bpf_attach_type`.
const CGROUP_DEVICE: u32 = 6;
/// `BPF_F_QUERY_EFFECTIVE`.
const QUERY_EFFECTIVE: u32 = 1;
/// Ids asked for at first: the kernel allows 64 programs on one cgroup
/// (`BPF_CGROUP_MAX_PROGS`), and lists longer than that are rare.
const FIRST_TRY: usize = 64;

/// The longest list that is accepted, in ids.
pub const MAX_QUERY_IDS: usize = 1 << 16;

/// Which of the two lists of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// The programs attached to this very cgroup.
    Own,
    /// The programs in force here, ancestors' programs included, in run order.
    Effective,
}

/// The answer to one query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Program ids in the kernel's order.
    pub ids: Vec<u32>,
    /// The cgroup's attach flags; 0 in effective answers (since Linux 6.1).
    pub attach_flags: u32,
    /// Grows with every change of the own list (since Linux 6.17, own answers
    /// only); else 0.
    pub revision: u64,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct QueryBody {
    target_fd: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    prog_ids: u64,
    prog_cnt: u32,
    padding: u32,
    prog_attach_flags: u64,
    link_ids: u64,
    link_attach_flags: u64,
    revision: u64,
}

// SAFETY: the layout of `bpf_attr.query`, its one hole named.
unsafe impl Body for QueryBody {}

/// Lists the device programs of a cgroup2 directory (an `O_PATH` descriptor
/// will do).
///
/// Since Linux 4.15. Needs `CAP_NET_ADMIN`, for which `CAP_SYS_ADMIN` stands since
/// 6.9 (`bpf_net_capable` in `kernel/bpf/syscall.c`); before 6.5 `CAP_BPF` as well where
/// `kernel.unprivileged_bpf_disabled` is set.
///
/// # Errors
///
/// Gone for a removed cgroup, refused without the rights, `EBADF` for what is
/// not a cgroup2 directory, `ENOSPC` for a list over [`MAX_QUERY_IDS`] or one
/// that grows faster than it can be read.
pub fn query(cgroup: BorrowedFd<'_>, kind: ListKind) -> Result<Query, BpfError> {
    let mut first = [0; FIRST_TRY];
    match query_into(cgroup, kind, &mut first) {
        Err((error, wanted)) if error.errno == libc::ENOSPC => query_longer(cgroup, kind, wanted, error),
        other => other.map_err(|(error, _)| error),
    }
}

fn query_longer(
    cgroup: BorrowedFd<'_>,
    kind: ListKind,
    wanted: usize,
    mut error: BpfError,
) -> Result<Query, BpfError> {
    let mut wanted = wanted;
    // Twice the size asked for leaves room for growth; three tries are enough
    // for any list that is not growing without end.
    for _ in 0..3 {
        let room = wanted.saturating_mul(2);
        if room > MAX_QUERY_IDS {
            break;
        }
        match query_into(cgroup, kind, &mut vec![0; room]) {
            Err((again, more)) if again.errno == libc::ENOSPC => (error, wanted) = (again, more.max(room)),
            other => return other.map_err(|(error, _)| error),
        }
    }
    Err(error)
}

fn query_into(cgroup: BorrowedFd<'_>, kind: ListKind, ids: &mut [u32]) -> Result<Query, (BpfError, usize)> {
    let mut body = QueryBody {
        target_fd: cgroup.as_raw_fd().cast_unsigned(),
        attach_type: CGROUP_DEVICE,
        query_flags: if kind == ListKind::Effective { QUERY_EFFECTIVE } else { 0 },
        prog_ids: ids.as_mut_ptr() as u64,
        prog_cnt: u32::try_from(ids.len()).unwrap_or(u32::MAX),
        ..QueryBody::default()
    };
    // SAFETY: `prog_ids` points to `prog_cnt` writable u32; the other
    // addresses are null, which the kernel takes as not wanted.
    let result = unsafe { call(BpfCommand::Query, &mut body) };
    let count = body.prog_cnt as usize;
    result.map_err(|error| (error, count))?;
    let ids = ids.get(..count).unwrap_or_default().to_vec();
    Ok(Query { ids, attach_flags: body.attach_flags, revision: body.revision })
}
