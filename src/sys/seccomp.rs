//! Gives up system calls: a program that runs for days and reads input of users
//! must not be turned into one that runs programs, traces processes, loads modules or
//! changes mounts. [`without_files`] runs code of other crates that is to open no file.

use std::collections::BTreeMap;
use std::thread;

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

/// System calls that open files.
const OPENING: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_openat2,
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
    match apply_filter(&program(&FORBIDDEN, libc::EPERM)?) {
        Err(Error::Seccomp(error)) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        done => done,
    }
}

/// Runs something in a thread of its own in which no file can be opened: that fails with
/// `EACCES`. In a kernel without seccomp (CONFIG_SECCOMP_FILTER) it can open them.
pub fn without_files<R: Send>(run: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let _unless_it_cannot = program(OPENING, libc::EACCES).and_then(|filter| apply_filter(&filter));
            run()
        });
        beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A filter that refuses some system calls with an error.
fn program(calls: &[c_long], errno: i32) -> Result<BpfProgram, Error> {
    let always = calls.iter().map(|call| (*call, Vec::new())).collect::<BTreeMap<_, _>>();
    let refused = SeccompAction::Errno(errno.cast_unsigned());
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

    /// Make sure that no file can be opened in such a thread, and that they can in others.
    #[test]
    fn files() {
        let refused = without_files(|| std::fs::read("/proc/self/stat").unwrap_err().raw_os_error());
        assert_eq!(refused, Some(Errno::EACCES as i32));
        assert!(std::fs::read("/proc/self/stat").is_ok());
    }
}
