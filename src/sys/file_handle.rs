//! Opens cgroup directories by id (open_by_handle_at(2)).

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::{c_int, c_long};
use nix::errno::Errno;

use super::dir::Dir;

/// A kernfs handle is the 64-bit number alone (`FILEID_KERNFS` of
/// `linux/exportfs.h`).
const KERNFS: c_int = 0xfe;

/// `struct file_handle` of open_by_handle_at(2), with the handle's bytes.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: c_int,
    number: u64,
}

/// Opens the directory of a cgroup with `O_PATH` by its id, on the file system
/// of another of its directories. Since Linux 5.5; needs `CAP_DAC_READ_SEARCH`.
///
/// # Errors
///
/// `ESTALE` where it is removed or was never there; `EPERM` without the right.
pub fn open(beside: &Dir, id: u64) -> Result<OwnedFd, Errno> {
    // The kernel wants no `O_PATH` handle here.
    let mount = beside.open_file(c".")?;
    let flags = c_long::from(libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC);
    let handle = Handle { bytes: 8, kind: KERNFS, number: id };
    // SAFETY: the kernel reads the handle, of the size that it says, which
    // outlives the call, and writes nothing.
    let fd = unsafe {
        libc::syscall(libc::SYS_open_by_handle_at, c_long::from(mount.as_raw_fd()), &raw const handle, flags)
    };
    let fd = c_int::try_from(Errno::result(fd)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just given this descriptor, nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
