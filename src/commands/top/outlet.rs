//! Writes to a terminal that may stop taking output: its user stopped it, or a program
//! between here and the screen hangs. Nobody waits long for it: keys and signals are
//! heeded all the same.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// How long a drawing may take, and giving the terminal back. A terminal takes one at
/// once; a slow line has room for some thousand bytes of it.
const DRAWING: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_millis(200);
/// Bytes that are written at a time where the kernel might wait for room.
const PART: usize = 256;

/// A terminal to write to. What is written is sent by `flush`, all of it or, where that
/// fails or takes too long, the beginning; the rest is thrown away. Only [`Outlet::check`]
/// tells the failure: the library that draws prints it on standard error otherwise, which
/// is the same terminal.
#[derive(Debug)]
pub(super) struct Outlet {
    file: File,
    buffer: Vec<u8>,
    /// Bytes that are written at a time.
    part: usize,
    shared: Arc<Shared>,
}

/// What all outlets of a terminal have in common.
#[derive(Debug, Default)]
struct Shared {
    /// Nothing is sent any more.
    is_closed: AtomicBool,
    failure: Mutex<Option<io::Error>>,
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
        Ok(Self { file, buffer: Vec::new(), part, shared: Arc::default() })
    }

    /// Another one of the same terminal.
    pub(super) fn copy(&self) -> io::Result<Self> {
        let (file, shared) = (self.file.try_clone()?, Arc::clone(&self.shared));
        Ok(Self { file, buffer: Vec::new(), part: self.part, shared })
    }

    /// The first failure since the last call: `TimedOut` where the terminal takes nothing.
    pub(super) fn check(&self) -> io::Result<()> {
        let mut failure = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take().map_or(Ok(()), Err)
    }

    /// Sends nothing more, from none of them.
    pub(super) fn close(&self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
    }

    /// Sends these last bytes, if that takes a moment.
    pub(super) fn last(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.send(bytes, LAST)
    }

    fn send(&self, mut bytes: &[u8], longest: Duration) -> io::Result<()> {
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

impl Write for Outlet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.buffer);
        if self.shared.is_closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Err(error) = self.send(&bytes, DRAWING) {
            let mut failure = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        }
        Ok(())
    }
}
