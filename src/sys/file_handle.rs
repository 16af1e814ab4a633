//! Handles of files: opens cgroup directories by id (open_by_handle_at(2)), tells files
//! apart and says on which mount they are (name_to_handle_at(2)).

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

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

/// `MAX_HANDLE_SZ` of `linux/exportfs.h`.
const LARGEST: usize = 128;
/// `AT_HANDLE_FID` of `linux/fcntl.h`: the handle need not lead to the file.
const ONLY_TELLS_APART: c_int = 0x200;

/// `struct file_handle` with room for any handle.
#[repr(C)]
struct AnyHandle {
    bytes: u32,
    kind: c_int,
    handle: [u8; LARGEST],
}

/// The handle of a file, with its kind in front. An overlay's file has that of the file
/// which it shows (since Linux 6.6). Since Linux 6.5.
///
/// # Errors
///
/// `EOPNOTSUPP` from a file system that has no handles, `EINVAL` from an older kernel.
pub fn of<Fd: AsFd>(file: Fd) -> Result<Vec<u8>, Errno> {
    let (handle, _) = look(file, ONLY_TELLS_APART)?;
    let length = usize::try_from(handle.bytes).map_err(|_| Errno::EOVERFLOW)?;
    let bytes = handle.handle.get(..length).ok_or(Errno::EOVERFLOW)?;
    Ok([&handle.kind.to_ne_bytes(), bytes].concat())
}

/// The number of the mount that an open file is on, as `/proc/self/mountinfo` has it. Since
/// Linux 2.6.39, for cgroup2 since 4.14.
///
/// # Errors
///
/// `EOPNOTSUPP` from a file system that has no handles.
pub fn mount<Fd: AsFd>(file: Fd) -> Result<u64, Errno> {
    let (_, mount) = look(file, 0)?;
    u64::try_from(mount).map_err(|_| Errno::EIO)
}

/// name_to_handle_at(2): the handle, and the number of the mount.
fn look<Fd: AsFd>(file: Fd, flags: c_int) -> Result<(AnyHandle, c_int), Errno> {
    let room = u32::try_from(LARGEST).unwrap_or_default();
    let mut handle = AnyHandle { bytes: room, kind: 0, handle: [0; LARGEST] };
    let mut mount: c_int = 0;
    // SAFETY: the kernel writes at most as many bytes as the handle says that it has room
    // for, and one number; both outlive the call, and the empty name is terminated.
    let got = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            c_long::from(file.as_fd().as_raw_fd()),
            c"".as_ptr(),
            &raw mut handle,
            &raw mut mount,
            c_long::from(libc::AT_EMPTY_PATH | flags),
        )
    };
    Errno::result(got)?;
    Ok((handle, mount))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::stat::stat_at;

    /// Make sure that the number of a mount is that of statx(2), on a tmpfs, which has handles.
    #[test]
    fn numbers_of_mounts() {
        let dir = Dir::open("/dev/shm".as_ref()).unwrap();
        let told = stat_at(&dir, c"").unwrap().mount;
        assert!(told.is_none_or(|number| mount(&dir) == Ok(number)), "{told:?}, {:?}", mount(&dir));
    }
}
