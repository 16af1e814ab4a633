//! Holds a process by a descriptor: a signal reaches this process or nobody,
//! whatever becomes of its pid.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, c_long, c_uint};
use nix::errno::Errno;
use nix::sys::signal::Signal;

/// A process, pinned.
#[derive(Debug)]
pub struct Pidfd(OwnedFd);

impl Pidfd {
    /// Pins the process that has this number now (Linux 5.3).
    ///
    /// # Errors
    ///
    /// ESRCH: there is no such process. ENOSYS: the kernel is older.
    pub fn open(pid: u32) -> Result<Self, Errno> {
        let pid = c_int::try_from(pid).map_err(|_| Errno::ESRCH)?;
        let flags: c_uint = 0;
        // SAFETY: pidfd_open takes two numbers and touches no memory of ours.
        let fd: c_long = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, flags) };
        let fd = RawFd::try_from(Errno::result(fd)?).map_err(|_| Errno::EBADF)?;
        // SAFETY: the kernel just made this descriptor, and nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Sends a signal to the process (Linux 5.1).
    ///
    /// # Errors
    ///
    /// ESRCH: it has ended. EPERM: it is somebody else's, and `CAP_KILL` is
    /// missing.
    pub fn send(&self, signal: Signal) -> Result<(), Errno> {
        let (fd, number) = (self.0.as_raw_fd(), signal as c_int);
        let (no_details, flags): (*const libc::siginfo_t, c_uint) = (std::ptr::null(), 0);
        // SAFETY: the descriptor is open; without siginfo the kernel reads no
        // memory of ours.
        let sent: c_long =
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, number, no_details, flags) };
        Errno::result(sent).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Make sure that the signal arrives, and that an ended process is not
    /// mistaken for another.
    #[test]
    fn pinned() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let pinned = Pidfd::open(child.id()).unwrap();
        pinned.send(Signal::SIGKILL).unwrap();
        assert!(!child.wait().unwrap().success());
        assert_eq!(pinned.send(Signal::SIGKILL), Err(Errno::ESRCH));
        assert_eq!(Pidfd::open(u32::MAX).unwrap_err(), Errno::ESRCH);
    }
}
