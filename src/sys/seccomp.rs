//! Gives up system calls: a program that runs for days and reads input of users
//! must not be turned into one that runs programs, traces processes, loads modules or
//! changes mounts.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{BpfProgram, Error, SeccompAction, SeccompFilter, apply_filter};

/// System calls that a watch never makes. All others stay allowed: which of them
/// the C library and the allocator use changes with their versions.
const FORBIDDEN: [c_long; 29] = [
    // Other programs, and other processes' memory and course.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_writev,
    libc::SYS_userfaultfd,
    // The kernel's own code.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    // These change the tree of files.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // Times, names and secrets of the machine.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_quotactl,
];

/// Makes the calls in `FORBIDDEN` fail with `EPERM` from now on, in this thread and
/// in all that it starts. The kernel remembers which calls are allowed (since Linux
/// 5.11), so those cost no more than before.
///
/// # Errors
///
/// seccomp(2) failed. A kernel built without it is no error: then nothing is given
/// up.
pub fn forbid() -> Result<(), Error> {
    match apply_filter(&program()?) {
        Err(Error::Seccomp(error)) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        done => done,
    }
}

fn program() -> Result<BpfProgram, Error> {
    let always = BTreeMap::from_iter(FORBIDDEN.map(|call| (call, Vec::new())));
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let arch = std::env::consts::ARCH.try_into().map_err(Error::Backend)?;
    let filter = SeccompFilter::new(always, SeccompAction::Allow, refused, arch).map_err(Error::Backend)?;
    BpfProgram::try_from(filter).map_err(Error::Backend)
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    /// Make sure that no other program can be executed after it, and that everything
    /// else still works.
    #[test]
    fn thread() {
        let refused = std::thread::spawn(|| {
            forbid().unwrap();
            assert!(std::fs::read("/proc/self/stat").is_ok());
            std::process::Command::new("/bin/true").spawn().unwrap_err().raw_os_error()
        });
        assert_eq!(refused.join().unwrap(), Some(Errno::EPERM as i32));
        assert!(std::process::Command::new("/bin/true").status().unwrap().success());
    }
}
