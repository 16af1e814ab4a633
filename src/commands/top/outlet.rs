//! Writes to a terminal that may stop taking output: its user stopped it, or a program
//! between here and the screen hangs. Nobody waits long for it: keys and signals are
//! heeded all the same.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// How long a drawing may take, and giving the terminal back. A terminal takes one at
/// once; a slow line has room for some thousand bytes of it.
const DRAWING: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_millis(200);
/// Bytes that are written at a time where the kernel might wait for room.
const PART: usize = 256;

/// A terminal to write to.
#[derive(Debug)]
pub(super) struct Outlet {
    file: File,
    /// Bytes that are written at a time.
    part: usize,
}

impl Outlet {
    /// Opens the terminal that this descriptor has, as somebody of its own who never
    /// waits: what others do with the descriptor stays as it is. Where it may not be
    /// opened, the descriptor itself is used, with short writes.
    ///
    /// # Errors
    ///
    /// The descriptor cannot be copied.
    pub(super) fn of(terminal: BorrowedFd<'_>) -> io::Result<Self> {
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
        let path = format!("/proc/self/fd/{}", terminal.as_raw_fd());
        let (file, part) = match OpenOptions::new().write(true).custom_flags(flags).open(path) {
            Ok(file) => (file, usize::MAX),
            Err(_) => (terminal.try_clone_to_owned()?.into(), PART),
        };
        Ok(Self { file, part })
    }

    /// Sends these bytes: all, or where that fails or takes too long, the beginning.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TimedOut`] where the terminal takes nothing.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.send_within(bytes, DRAWING)
    }

    /// Sends these last bytes, if that takes a moment.
    pub(super) fn last(&self, bytes: &[u8]) -> io::Result<()> {
        self.send_within(bytes, LAST)
    }

    fn send_within(&self, mut bytes: &[u8], longest: Duration) -> io::Result<()> {
        let end = Instant::now() + longest;
        while !bytes.is_empty() {
            self.wait(end)?;
            let part = bytes.get(..self.part).unwrap_or(bytes);
            match (&self.file).write(part) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until there is room, or the time is up.
    fn wait(&self, end: Instant) -> io::Result<()> {
        let left = end.saturating_duration_since(Instant::now()).as_millis();
        let mut fds = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)) {
            Ok(0) => Err(ErrorKind::TimedOut.into()),
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Outlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
