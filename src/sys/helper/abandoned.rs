//! Waits, without blocking, for children that were killed and have not ended yet: helpers,
//! and processes that ask the kernel from inside a cgroup.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use libc::{c_long, pid_t};
use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::sys::pidfd;
use crate::sys::retry::again;

/// The most children that this gpumap may leave behind.
pub const MOST_LEFT_BEHIND: usize = 16;

/// Helpers that were killed and have not ended yet.
static LEFT: Mutex<Vec<Process>> = Mutex::new(Vec::new());

/// All helpers that were started and not waited for yet, by pid.
static ALL: Mutex<Vec<pid_t>> = Mutex::new(Vec::new());

/// The pids of the helpers of this process, which are no processes of the node
/// that anybody asks about.
pub fn own() -> Vec<u32> {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().map(|pid| pid.cast_unsigned()).collect()
}

/// How many helpers were killed and have not ended.
pub fn left_behind() -> usize {
    sweep();
    LEFT.lock().unwrap_or_else(PoisonError::into_inner).len()
}

/// Waits for abandoned helpers that have ended since.
pub(in crate::sys) fn sweep() {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.retain(|process| !process.has_ended());
}

/// A child of this process. Dropping it kills it.
#[derive(Debug)]
pub(in crate::sys) struct Child(Option<Process>);

/// A child by number, which stays its own until it is waited for.
#[derive(Debug)]
struct Process {
    pid: pid_t,
    /// Since Linux 5.3.
    pidfd: Option<OwnedFd>,
}

impl Child {
    pub(super) fn new(pid: pid_t) -> Self {
        // SAFETY: numbers alone; the descriptor is new and ours.
        let pidfd = unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, c_long::from(pid), c_long::default());
            i32::try_from(fd).ok().filter(|fd| *fd >= 0).map(|fd| OwnedFd::from_raw_fd(fd))
        };
        Self::held(pid, pidfd)
    }

    /// A child that was made with this descriptor of it.
    pub(in crate::sys) fn held(pid: pid_t, pidfd: Option<OwnedFd>) -> Self {
        ALL.lock().unwrap_or_else(PoisonError::into_inner).push(pid);
        Self(Some(Process { pid, pidfd }))
    }

    /// Kills it; it may take any time to end.
    pub(in crate::sys) fn kill(&self) {
        if let Some(process) = &self.0 {
            process.kill();
        }
    }

    /// Its number.
    pub(in crate::sys) fn pid(&self) -> pid_t {
        self.0.as_ref().map_or(0, |process| process.pid)
    }

    /// Its descriptor, readable when it has ended.
    pub(in crate::sys) fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref()?.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// How it has ended, or that it is still alive. It is not waited for by that, and keeps
    /// its number.
    pub(in crate::sys) fn ending(&self) -> Result<WaitStatus, Errno> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        again(|| waitid(Id::Pid(Pid::from_raw(self.pid())), flags))
    }

    /// The letter of its state; `None` if that cannot be read.
    pub(super) fn state(&self) -> Option<u8> {
        pidfd::of(&self.0.as_ref()?.pid.to_string())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let Some(process) = self.0.take() else { return };
        process.kill();
        if !process.has_ended() {
            LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(process);
        }
    }
}

impl Process {
    fn kill(&self) {
        // SAFETY: numbers alone. Without a pidfd the number is that of our child
        // as long as it was not waited for, which `has_ended` does.
        unsafe {
            match &self.pidfd {
                Some(fd) => {
                    let (fd, kill) = (c_long::from(fd.as_raw_fd()), c_long::from(libc::SIGKILL));
                    let none = c_long::default();
                    libc::syscall(libc::SYS_pidfd_send_signal, fd, kill, none, none);
                }
                None if !self.has_ended() => {
                    libc::kill(self.pid, libc::SIGKILL);
                }
                None => {}
            }
        }
    }

    /// Whether it has ended; then it has been waited for, by this or by another.
    fn has_ended(&self) -> bool {
        let mut status = 0;
        // SAFETY: waits for this child alone and does not block.
        let found = unsafe { libc::waitpid(self.pid, &raw mut status, libc::WNOHANG) };
        if found != 0 {
            ALL.lock().unwrap_or_else(PoisonError::into_inner).retain(|pid| *pid != self.pid);
        }
        found != 0
    }
}
