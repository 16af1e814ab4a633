//! Standard input, or a file in its place: bytes that may not be there yet.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd as _;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Something to read that may not be there yet.
pub trait Input: Read {
    /// Waits until there is something to read or nothing comes any more.
    ///
    /// # Errors
    ///
    /// `TimedOut` at `until`, and those of poll(2).
    fn wait(&mut self, _until: Option<Instant>) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes that are there.
impl Input for &[u8] {}

/// A file, a pipe or a terminal.
impl Input for File {
    fn wait(&mut self, until: Option<Instant>) -> io::Result<()> {
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let timeout = left.map_or(PollTimeout::NONE, |left| {
                PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX)
            });
            let mut wanted = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
            match poll(&mut wanted, timeout) {
                Ok(0) if left.is_none_or(|left| left.is_zero()) => return Err(ErrorKind::TimedOut.into()),
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
