//! Processes by handle: signals, whether they share descriptors, whether they run.

use std::cmp::Ordering;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, OnceLock};

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

/// `KCMP_FILES` of `linux/kcmp.h`.
const FILES: libc::c_long = 2;

/// Compares the descriptor tables of two threads: equal if they are one and the
/// same, else in an order that has no meaning but stays the same while the machine
/// runs. Since Linux 3.5; takes the right to look into both.
///
/// # Errors
///
/// `ENOSYS` if the kernel was built without it, `ESRCH` for a thread that is gone,
/// `EPERM` without the right.
pub fn compare_files(one: u32, other: u32) -> Result<Ordering, Errno> {
    let (one, other, none) = (libc::c_long::from(one), libc::c_long::from(other), libc::c_long::default());
    // SAFETY: the call takes numbers only and changes nothing.
    let result = unsafe { libc::syscall(libc::SYS_kcmp, one, other, FILES, none, none) };
    match Errno::result(result)? {
        0 => Ok(Ordering::Equal),
        1 => Ok(Ordering::Less),
        2 => Ok(Ordering::Greater),
        // Different, and the order is not known.
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// The letter of the state of what has this directory in `/proc`; `None` if that cannot be
/// read.
pub fn of(place: &str) -> Option<u8> {
    let text = std::fs::read(format!("/proc/{place}/stat")).ok()?;
    let end = text.iter().rposition(|byte| *byte == b')')?;
    text.get(end + 2).copied()
}

/// A thread of this process, known to others once it has called [`Self::begin`].
#[derive(Clone, Debug, Default)]
pub struct KnownThread(Arc<OnceLock<i32>>);

impl KnownThread {
    /// The calling thread is the one.
    pub fn begin(&self) {
        self.0.get_or_init(|| nix::unistd::gettid().as_raw());
    }

    /// Whether it is on a processor or ready for one, as one that has not begun yet is; false
    /// if it waits or has ended, or if that cannot be read.
    pub fn is_running(&self) -> bool {
        self.0.get().is_none_or(|tid| of(&format!("self/task/{tid}")) == Some(b'R'))
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

    /// Make sure that a thread shares with itself and with its process, and
    /// not with a process that does not exist.
    #[test]
    fn own() {
        let own = std::process::id();
        assert_eq!(compare_files(own, own), Ok(Ordering::Equal));
        let tid = || nix::unistd::gettid().as_raw().cast_unsigned();
        let thread = std::thread::spawn(move || compare_files(own, tid()));
        assert_eq!(thread.join().unwrap(), Ok(Ordering::Equal));
        assert_eq!(compare_files(own, u32::MAX >> 1), Err(Errno::ESRCH));
    }

    /// Make sure that a thread that waits is told from one that works.
    #[test]
    fn waits() {
        let (thread, (go, wait)) = (KnownThread::default(), std::sync::mpsc::channel::<()>());
        assert!(thread.is_running());
        thread.begin();
        assert!(thread.is_running());
        let other = KnownThread::default();
        let handle = std::thread::spawn({
            let other = other.clone();
            move || {
                other.begin();
                let _ended = wait.recv();
            }
        });
        while other.is_running() {
            std::thread::yield_now();
        }
        drop(go);
        handle.join().unwrap();
        assert!(!other.is_running());
    }
}
