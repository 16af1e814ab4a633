//! The standard streams: input, or a file in its place, whose bytes may not be there yet;
//! output, buffered so that an unfinished line can be taken back.

use std::fs::File;
use std::io;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd as _;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::sys::retry::again;

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

    /// Waits, and reads what is there then; 0 bytes at the end.
    ///
    /// # Errors
    ///
    /// Those of [`Self::wait`] and of read(2).
    fn read_when_there(&mut self, until: Option<Instant>, bytes: &mut [u8]) -> io::Result<usize> {
        again(|| self.wait(until).and_then(|()| self.read(bytes)))
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

/// Bytes that are kept back at most.
const CAPACITY: usize = 1 << 16;

/// The output of a command.
pub struct Output<'a> {
    to: &'a mut dyn Write,
    buffer: Vec<u8>,
    /// Whether the last byte that was passed on ended a line.
    at_line_start: bool,
    /// Whether somebody reads it still.
    has_reader: bool,
}

impl<'a> Output<'a> {
    /// An output that has nothing in it yet.
    pub fn new(to: &'a mut dyn Write) -> Self {
        Self { to, buffer: Vec::with_capacity(CAPACITY), at_line_start: true, has_reader: true }
    }

    /// Drops the unfinished last line. Returns `false` if part of it was passed on
    /// already; then nothing may follow it.
    pub fn take_back_line(&mut self) -> bool {
        let end = self.buffer.iter().rposition(|byte| *byte == b'\n');
        self.buffer.truncate(end.map_or(0, |end| end + 1));
        end.is_some() || self.at_line_start
    }

    /// Whether somebody reads it still: a command whose input has no end stops then.
    pub fn has_reader(&self) -> bool {
        self.has_reader
    }

    /// Passes the buffer on. Bytes that could not be written are not tried again.
    fn give(&mut self) -> io::Result<()> {
        let Some(last) = self.buffer.last() else { return Ok(()) };
        self.at_line_start = *last == b'\n';
        let written = if self.has_reader { self.to.write_all(&self.buffer) } else { Ok(()) };
        self.buffer.clear();
        self.unless_unread(written)
    }

    fn unless_unread(&mut self, result: io::Result<()>) -> io::Result<()> {
        self.has_reader &= !is_unread(&result);
        if self.has_reader { result } else { Ok(()) }
    }
}

fn is_unread<T>(result: &io::Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > CAPACITY {
            self.give()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.give()?;
        let flushed = self.to.flush();
        self.unless_unread(flushed)
    }
}

/// Standard error, without the failure that nobody reads it any more.
pub struct Remarks<'a>(pub &'a mut dyn Write);

impl Write for Remarks<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write(bytes);
        if is_unread(&written) { Ok(bytes.len()) } else { written }
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.0.flush();
        if is_unread(&flushed) { Ok(()) } else { flushed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that whole lines stay, that an unfinished line can be dropped, and
    /// that a line that was passed on in part is remembered.
    #[test]
    fn lines_are_taken_back() {
        let mut bytes = Vec::new();
        let mut output = Output::new(&mut bytes);
        output.write_all(b"whole\nhalf").unwrap();
        assert!(output.take_back_line());
        output.write_all(b"half").unwrap();
        output.flush().unwrap();
        output.write_all(b"more").unwrap();
        assert!(!output.take_back_line());
        output.write_all(b"\n").unwrap();
        output.flush().unwrap();
        assert!(output.take_back_line());
        assert_eq!(bytes, b"whole\nhalf\n");
    }
}
