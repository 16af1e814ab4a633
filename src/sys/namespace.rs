//! Namespaces: which user namespace owns another one, and who made it. The
//! calls of ioctl_ns(2).

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libc::c_ulong;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use super::dir::Dir;
use super::retry::again;

/// `NS_GET_USERNS`, `NS_GET_PARENT` and `NS_GET_OWNER_UID` of `linux/nsfs.h`.
const OWNER: c_ulong = 0xb701;
const PARENT: c_ulong = 0xb702;
const OWNER_UID: c_ulong = 0xb704;

/// A namespace of a process, from the directory `/proc/PID/ns`.
///
/// # Errors
///
/// Those of openat(2); `EACCES` without the right to look into the process.
pub fn open(directory: &Dir, name: &CStr) -> Result<OwnedFd, Errno> {
    again(|| openat(directory, name, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()))
}

/// The inode number of the first pid namespace (`PROC_PID_INIT_INO`, `linux/proc_ns.h`).
const FIRST_PIDS: u64 = 0xeffffffc;

/// Whether this process is known to be in the first pid namespace, whose numbers the kernel's
/// own records have.
pub fn is_in_first_pid_namespace() -> bool {
    nix::sys::stat::stat("/proc/self/ns/pid").is_ok_and(|stat| stat.st_ino == FIRST_PIDS)
}

/// The user namespace that owns a namespace: who is root there rules it. Since
/// Linux 4.9.
///
/// # Errors
///
/// `EPERM` where that lies outside of the caller's own.
pub fn owner<Fd: AsFd>(namespace: Fd) -> Result<OwnedFd, Errno> {
    ask(namespace, OWNER)
}

/// The user namespace in which a user namespace was made. Since Linux 4.9.
///
/// # Errors
///
/// `EPERM` for the caller's own, and for one outside of it.
pub fn parent<Fd: AsFd>(user_namespace: Fd) -> Result<OwnedFd, Errno> {
    ask(user_namespace, PARENT)
}

/// The uid of the one who made a user namespace, as the caller sees it. Since
/// Linux 4.11.
///
/// # Errors
///
/// `EINVAL` for a namespace of another kind.
pub fn maker<Fd: AsFd>(user_namespace: Fd) -> Result<u32, Errno> {
    let mut uid: libc::uid_t = 0;
    // SAFETY: the call writes one uid_t to this address, and nothing if the
    // descriptor is no namespace.
    let result = unsafe { libc::ioctl(user_namespace.as_fd().as_raw_fd(), OWNER_UID as _, &raw mut uid) };
    Errno::result(result).map(|_| uid)
}

fn ask<Fd: AsFd>(namespace: Fd, request: c_ulong) -> Result<OwnedFd, Errno> {
    // SAFETY: these requests take no argument and give a new descriptor.
    let fd = unsafe { libc::ioctl(namespace.as_fd().as_raw_fd(), request as _) };
    // SAFETY: the kernel has just given this descriptor, nobody else has it.
    Errno::result(fd).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::sys::stat::stat_at;

    /// Make sure that this process's mount namespace belongs to its user
    /// namespace, where neither was made by another.
    #[test]
    fn own() {
        let mounts = File::open("/proc/self/ns/mnt").unwrap();
        let user = File::open("/proc/self/ns/user").unwrap();
        let inode = |fd: &dyn AsRawFd| {
            let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
            std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap())
        };
        if let Ok(owner) = owner(&mounts) {
            assert_eq!(stat_at(&owner, c"").unwrap().inode, inode(&owner));
            assert!(inode(&owner) == inode(&user) || !nix::unistd::geteuid().is_root());
        }
        assert!(maker(&user).is_ok() && maker(&mounts) == Err(Errno::EINVAL));
        assert!(parent(&mounts).is_err());
    }
}
