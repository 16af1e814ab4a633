//! Writes to a FIFO, a character device or a file that the caller has open.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::Mode;

use super::error::OutputError;
use crate::sys::retry::again;

/// Milliseconds that a reader may take nothing.
const PATIENCE: u16 = 10_000;

/// Opens the file of the handle, and writes. Opening does not wait for a reader, and
/// writing waits for a limited time. A regular file keeps its contents; the output
/// is appended.
pub(super) fn write(
    target: &OwnedFd,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), OutputError> {
    let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let name = format!("/proc/self/fd/{}", target.as_raw_fd());
    let file = match again(|| openat(AT_FDCWD, name.as_str(), flags, Mode::empty())) {
        Err(Errno::ENXIO) => {
            return Err(OutputError::refused("nobody reads from it", "start the reader first"));
        }
        file => File::from(file?),
    };
    let mut out = BufWriter::new(Patient(&file));
    write(&mut out)?;
    Ok(out.flush()?)
}

/// Waits for a reader that takes its time, up to [`PATIENCE`].
struct Patient<'a>(&'a File);

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match (&mut &*self.0).write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait()?,
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Patient<'_> {
    fn wait(&self) -> io::Result<()> {
        let mut wanted = [PollFd::new(self.0.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut wanted, PollTimeout::from(PATIENCE)) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::TimedOut, "its reader takes nothing")),
            Err(Errno::EINTR) | Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
