//! Reads files that others wrote: at most 256 MiB, no longer than `--timeout`,
//! and never a device.

use std::fs::File;
use std::io::{self, ErrorKind};

use std::path::Path;
use std::time::Instant;

use nix::errno::Errno;

use crate::commands::invocation::streams::Input;
use crate::commands::invocation::{Failure, Invocation};
use crate::model::ProblemCode;
use crate::sys::dir::open_readable;

/// The largest file that is read.
const LIMIT: usize = 256 << 20;
/// The most bytes of one read.
const PIECE: usize = 1 << 16;

/// Reads a file; `-` is standard input. A pipe may be slow until the time limit, and
/// for ever if there is no limit.
pub(crate) fn read(invocation: &mut Invocation<'_>, path: &Path) -> Result<Vec<u8>, Failure> {
    let until = invocation.deadline();
    if path.as_os_str() == "-" {
        return bounded(invocation.stdin()?, until, Path::new("standard input"));
    }
    let mut file = open_readable(path).map_err(|error| match error {
        Errno::EINVAL => {
            let why = "a device: gpumap opens none";
            Failure::new(ProblemCode::File, path.to_string_lossy(), why, "name a file, a FIFO or -")
        }
        Errno::ENOTSUP => {
            let why = "cannot be opened: /proc is not mounted here";
            Failure::new(ProblemCode::File, path.to_string_lossy(), why, "mount /proc, or give the file as -")
        }
        error => Failure::file(path, &error.into()),
    })?;
    bounded(&mut file, until, path)
}

/// Reads an open file; `path` is its name, for messages.
pub(crate) fn read_from(
    invocation: &mut Invocation<'_>,
    mut file: File,
    path: &Path,
) -> Result<Vec<u8>, Failure> {
    bounded(&mut file, invocation.deadline(), path)
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
            return Err(Failure::new(
                ProblemCode::TooLarge,
                path.to_string_lossy(),
                "larger than 256 MiB",
                "",
            ));
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    if error.kind() != ErrorKind::TimedOut {
        return Failure::file(path, error);
    }
    let why = "the time limit was reached before it was read";
    Failure::new(ProblemCode::Timeout, path.to_string_lossy(), why, "a larger --timeout")
}

/// The name of a file in messages.
pub(crate) fn name(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.to_string_lossy().into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that slow input is waited for, but not after the time limit.
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
