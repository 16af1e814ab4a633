//! Reading files that others wrote: never more than a bound, never for ever,
//! and no device is opened.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{Failure, Session};
use crate::sys::dir::open_readable;

/// The largest file that is read.
const LIMIT: usize = 256 << 20;
/// Bytes that are asked for at once.
const PIECE: usize = 1 << 16;

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

/// A file, a pipe, a terminal: whatever a descriptor stands for.
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

/// Reads a file; `-` is standard input. Until the time limit, which is none if
/// the user gave none, a pipe may take its time.
pub(super) fn read(session: &mut Session<'_>, path: &Path) -> Result<Vec<u8>, Failure> {
    let until = session.deadline();
    if path.as_os_str() == "-" {
        return bounded(session.stdin()?, until, Path::new("standard input"));
    }
    let mut file = open_readable(path).map_err(|error| match error {
        Errno::EINVAL => {
            let why = "a device: gpumap opens none";
            Failure::new("file", path.to_string_lossy(), why, "name a file, a FIFO or -")
        }
        error => Failure::file(path, &error.into()),
    })?;
    bounded(&mut file, until, path)
}

fn bounded(source: &mut dyn Input, until: Option<Instant>, path: &Path) -> Result<Vec<u8>, Failure> {
    let (mut bytes, mut piece) = (Vec::new(), vec![0; PIECE]);
    loop {
        let count = match source.wait(until).and_then(|()| source.read(&mut piece)) {
            Ok(0) => return Ok(bytes),
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => continue,
            Err(error) => return Err(failed(path, &error)),
        };
        bytes.extend_from_slice(piece.get(..count).unwrap_or_default());
        if bytes.len() > LIMIT {
            return Err(Failure::new("too-large", path.to_string_lossy(), "larger than 256 MiB", ""));
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    if error.kind() != ErrorKind::TimedOut {
        return Failure::file(path, error);
    }
    let why = "the time limit was reached before it was read";
    Failure::new("timeout", path.to_string_lossy(), why, "a larger --timeout")
}

/// How a file is called in messages.
pub(super) fn name(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.to_string_lossy().into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that what comes late is waited for, and not longer than
    /// until the time is over.
    #[test]
    fn pipes_are_waited_for() {
        let late = |after: u64, until: u64| {
            let (reader, mut writer) = io::pipe().unwrap();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(after));
                let _gone = io::Write::write_all(&mut writer, b"late");
            });
            let mut file = File::from(std::os::fd::OwnedFd::from(reader));
            let until = Instant::now() + std::time::Duration::from_millis(until);
            let read = bounded(&mut file, Some(until), Path::new("x"));
            thread.join().unwrap();
            read
        };
        assert_eq!(late(50, 60_000).unwrap(), b"late");
        let failure = late(300, 20).unwrap_err().to_string();
        assert_eq!(failure, "x: the time limit was reached before it was read; a larger --timeout");
    }
}
