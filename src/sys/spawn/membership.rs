//! Whether a child is in the cgroup that it was started in. Whoever may write to the
//! `cgroup.procs` of it and of another cgroup can move the child there.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsRawFd as _, BorrowedFd};

use libc::c_ulong;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fstat};

use crate::sys::helper::Child;

/// `PIDFD_GET_INFO`, and the parts that are asked for (`linux/pidfd.h`): the cgroup of a
/// process that runs, and of one that has ended.
const GET_INFO: c_ulong = 0xc040_ff0b;
const CGROUP_ID: u64 = 1 << 2;
const EXIT: u64 = 1 << 3;

/// `struct pidfd_info` of Linux 6.13.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup_id: u64,
    numbers: [u32; 12],
}

/// That a child was in a cgroup, and how that is told again.
pub(super) enum Membership {
    /// By the id of the cgroup, since Linux 6.13.
    Id(u64),
    /// By the line of cgroup2 in `/proc/PID/cgroup`, which was read while the child was
    /// listed in the cgroup.
    Line(Vec<u8>),
}

impl Membership {
    /// Looks for a child in a cgroup; `None` if it is not there, or nothing tells.
    pub(super) fn of(child: &Child, cgroup: BorrowedFd<'_>) -> Option<Self> {
        match cgroup_id(child) {
            Ok(Some(id)) => (id == fstat(cgroup).ok()?.st_ino).then_some(Self::Id(id)),
            _ => {
                let line = line(child)?;
                is_listed(child, cgroup).then_some(Self::Line(line))
            }
        }
    }

    /// Whether the child is there still, or was there at its end.
    pub(super) fn still_holds(&self, child: &Child) -> bool {
        match self {
            Self::Id(id) => cgroup_id(child) == Ok(Some(*id)),
            Self::Line(before) => line(child).is_some_and(|line| line == *before),
        }
    }
}

/// The id of the cgroup2 cgroup of a child, also of one that has ended and was not waited
/// for.
fn cgroup_id(child: &Child) -> Result<Option<u64>, Errno> {
    let pidfd = child.pidfd().ok_or(Errno::EBADF)?;
    let mut info = PidfdInfo { mask: CGROUP_ID | EXIT, ..PidfdInfo::default() };
    // SAFETY: the request has the size of the structure, which the kernel fills.
    let result = unsafe { libc::ioctl(pidfd.as_raw_fd(), GET_INFO as _, &raw mut info) };
    Errno::result(result).map(|_| (info.mask & CGROUP_ID != 0).then_some(info.cgroup_id))
}

/// Whether the cgroup lists the child. `cgroup.threads` can be read of threaded cgroups too.
fn is_listed(child: &Child, cgroup: BorrowedFd<'_>) -> bool {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let Ok(threads) = openat(cgroup, c"cgroup.threads", flags, Mode::empty()) else { return false };
    let pid = child.pid().to_string();
    BufReader::new(File::from(threads)).lines().map_while(Result::ok).any(|line| line == pid)
}

/// Its line of cgroup2. A process that has ended keeps it until it is waited for.
fn line(child: &Child) -> Option<Vec<u8>> {
    let text = fs::read(format!("/proc/{}/cgroup", child.pid())).ok()?;
    text.split(|byte| *byte == b'\n').find(|line| line.starts_with(b"0::")).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout() {
        assert_eq!(size_of::<PidfdInfo>(), 64);
    }
}
