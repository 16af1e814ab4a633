//! Asks the kernel whether this process may open a device. faccessat2 runs the
//! device-cgroup check without opening anything.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::{c_int, c_long};
use nix::errno::Errno;
use nix::unistd::{getegid, geteuid, getgid, getuid};

use super::retry::again;

/// The access asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// `F_OK`: the request without access bits.
    Exists,
    /// `R_OK`.
    Read,
    /// `W_OK`.
    Write,
    /// `R_OK | W_OK`, one request.
    ReadWrite,
}

/// The kernel's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessAnswer {
    /// The access is allowed.
    Allowed,
    /// `EPERM`: the device policy refuses (or, for writing, the node is
    /// marked immutable).
    DevicePolicy,
    /// `EACCES`: the permission bits or a security module refuse. (A device
    /// program of Linux 5.18 or later may choose this error too.)
    FilePermission,
    /// `ENOENT` or `ENOTDIR`: there is no such node.
    NoSuchFile,
    /// `ENXIO`: the node has no driver. The access itself is not refused.
    NoDevice,
    /// `ENOSYS`: before Linux 5.8 the question cannot be asked for an effective
    /// uid that differs from the real one.
    Unsupported,
    /// Any other error.
    Other(Errno),
}

/// Asks for the effective uid and gid (`AT_EACCESS`), as open(2) would; plain
/// access(2) asks for the real ones. Since Linux 5.8; before that only where
/// both are the same.
///
/// The libc wrapper is not used: where the system call is missing, it answers
/// from the permission bits alone and never asks the device policy.
pub fn probe(path: &Path, access: Access) -> AccessAnswer {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return AccessAnswer::NoSuchFile };
    let mode = mode(access);
    match faccessat(libc::SYS_faccessat2, &path, mode) {
        Err(Errno::ENOSYS) if getuid() == geteuid() && getgid() == getegid() => {
            answer(faccessat(libc::SYS_faccessat, &path, mode))
        }
        other => answer(other),
    }
}

/// Asks the same about a handle, opened with `O_PATH`; no device is opened. Since
/// Linux 5.8.
pub fn probe_handle<Fd: AsFd>(node: Fd, access: Access) -> AccessAnswer {
    let flags = c_long::from(libc::AT_EACCESS | libc::AT_EMPTY_PATH);
    let (fd, mode) = (c_long::from(node.as_fd().as_raw_fd()), c_long::from(mode(access)));
    answer(again(|| {
        // SAFETY: the empty path is terminated, the handle outlives the call.
        let result = unsafe { libc::syscall(libc::SYS_faccessat2, fd, c"".as_ptr(), mode, flags) };
        Errno::result(result).map(drop)
    }))
}

/// The bits that faccessat(2) wants.
pub(super) fn mode(access: Access) -> c_int {
    match access {
        Access::Exists => libc::F_OK,
        Access::Read => libc::R_OK,
        Access::Write => libc::W_OK,
        Access::ReadWrite => libc::R_OK | libc::W_OK,
    }
}

fn faccessat(call: c_long, path: &CString, mode: c_int) -> Result<(), Errno> {
    let (at, flags) = (c_long::from(libc::AT_FDCWD), c_long::from(libc::AT_EACCESS));
    again(|| {
        // SAFETY: the path is a terminated string that outlives the call; the older
        // call has no fourth argument and ignores it.
        let result = unsafe { libc::syscall(call, at, path.as_ptr(), c_long::from(mode), flags) };
        Errno::result(result).map(drop)
    })
}

/// The meaning of a result of faccessat(2) on a device node.
pub(super) fn answer(result: Result<(), Errno>) -> AccessAnswer {
    match result {
        Ok(()) => AccessAnswer::Allowed,
        Err(Errno::EPERM) => AccessAnswer::DevicePolicy,
        Err(Errno::EACCES) => AccessAnswer::FilePermission,
        Err(Errno::ENOENT | Errno::ENOTDIR) => AccessAnswer::NoSuchFile,
        Err(Errno::ENXIO) => AccessAnswer::NoDevice,
        Err(Errno::ENOSYS) => AccessAnswer::Unsupported,
        Err(other) => AccessAnswer::Other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the plain cases come out right.
    #[test]
    fn plain_files() {
        assert_eq!(probe(Path::new("/dev/null"), Access::ReadWrite), AccessAnswer::Allowed);
        assert_eq!(probe(Path::new("/dev/null"), Access::Exists), AccessAnswer::Allowed);
        assert_eq!(probe(Path::new("/nonexistent/x"), Access::Read), AccessAnswer::NoSuchFile);
        assert_eq!(probe(Path::new("/dev/null/x"), Access::Write), AccessAnswer::NoSuchFile);
    }
}
