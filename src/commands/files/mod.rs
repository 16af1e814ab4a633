//! Files that a command reads and writes: bounded reading (at most 256 MiB, no longer than
//! `--timeout`, and never a device), files that are written whole or not at all, and the
//! configuration of this node, `gpumap.toml`: the exceptions that it is meant to have.
//! `saved`, `activity_state` and `denials_state` read observations.

pub(crate) mod activity_state;
pub(crate) mod denials_state;
pub(crate) mod saved;

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Instant;

use nix::errno::Errno;
use nix::unistd::geteuid;
use serde::Serialize;

use super::invocation::streams::Input;
use super::invocation::{Failure, Invocation};
use crate::audit::Config;
use crate::model::ProblemCode;
use crate::output_file::{self, OutputError};
use crate::render;
use crate::report::AuditConfig;
use crate::sys::absence::OrAbsent as _;
use crate::sys::dir::open_readable;
use crate::sys::retry::again;
pub(crate) use saved::read_unpacked;

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

/// The bytes of a state file, if it can be believed: it must be root's, or the caller's own,
/// and nobody else may write it.
pub(crate) fn read_believed(
    invocation: &mut Invocation<'_>,
    path: &Path,
    is_roots: bool,
    needs: &str,
) -> Result<Vec<u8>, Failure> {
    if path.as_os_str() == "-" {
        return read(invocation, path);
    }
    let failed = |error: Errno| Failure::file(path, &error.into());
    let file = open_readable(path).map_err(failed)?;
    let metadata = file.metadata().map_err(|error| Failure::file(path, &error))?;
    let owner = metadata.uid();
    let is_believed = owner == 0 || (!is_roots && owner == geteuid().as_raw());
    let why = match (metadata.is_file(), is_believed, metadata.mode() & 0o022) {
        (false, ..) => "not a regular file",
        (_, false, _) => "belongs to another user, who may have written anything into it",
        (_, _, 1..) => "others than its owner may write it",
        _ => return read_from(invocation, file, path),
    };
    Err(Failure::new(ProblemCode::BadState, path.to_string_lossy(), why, needs))
}

/// Whether there may be a file. What cannot be asked is read later, which says why.
fn may_be_there(path: &Path) -> bool {
    again(|| path.symlink_metadata()).or_absent().map_or(true, |there| there.is_some())
}

fn bounded(source: &mut dyn Input, until: Option<Instant>, path: &Path) -> Result<Vec<u8>, Failure> {
    let (mut bytes, mut piece) = (Vec::new(), vec![0; PIECE]);
    loop {
        let count = match source.read_when_there(until, &mut piece) {
            Ok(0) => return Ok(bytes),
            Ok(count) => count,
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
    Failure::new(ProblemCode::Timeout, path.to_string_lossy(), why, "give it more time with --timeout")
}

/// The name of a file in messages.
pub(crate) fn name(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.to_string_lossy().into_owned() }
}

/// Writes JSON to the file that the user named.
pub(crate) fn save<T: Serialize>(path: &Path, value: &T) -> Result<(), Failure> {
    let write = |mut out: &mut dyn io::Write| render::json::write(&mut out, value);
    output_file::save(path, write).map_err(|error| failure(path, &error))
}

/// Writes bytes to the file that the user named.
pub(crate) fn save_bytes(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    output_file::save(path, |out| out.write_all(bytes)).map_err(|error| failure(path, &error))
}

/// Writes text that everybody on the node may read to the file that the user named.
pub(crate) fn save_public(
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> Result<(), Failure> {
    output_file::save_public(path, write).map_err(|error| failure(path, &error))
}

/// The same for a name in a directory that is open and has this path.
pub(crate) fn save_public_in(
    path: &Path,
    directory: impl AsFd,
    name: &CStr,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let file = || path.join(OsStr::from_bytes(name.to_bytes()));
    output_file::save_public_in(directory, name, write).map_err(|error| failure(&file(), &error))
}

/// A file that could not be written.
pub(crate) fn failure(path: &Path, error: &OutputError) -> Failure {
    match error {
        OutputError::System(error) => Failure::file(path, error),
        OutputError::Refused { why, needs } => {
            Failure::new(ProblemCode::Output, path.to_string_lossy(), why, needs)
        }
    }
}

/// The path of the configuration unless the caller names another.
const USUAL: &str = "/etc/gpumap.toml";

/// The configuration that the caller names, else that of the report being read
/// again, else this node's. A saved observation may be of another node.
pub(crate) fn config(
    invocation: &mut Invocation<'_>,
    named: Option<&Path>,
    former: Option<AuditConfig>,
) -> Result<(Config, Option<AuditConfig>), Failure> {
    let found = match named {
        Some(path) => Some(load(invocation, path)?),
        None if invocation.global.from.is_some() => former,
        None if is_there(Path::new(USUAL))? => Some(load(invocation, Path::new(USUAL))?),
        None => None,
    };
    let Some(found) = found else { return Ok((Config::default(), None)) };
    let bad = |error: crate::audit::ConfigError| {
        let needs = "see CONFIGURATION in gpumap-audit(1), and gpumap audit --list for ids";
        Failure::new(ProblemCode::BadConfig, &*found.path, error.to_string(), needs)
    };
    let config = found.text.parse().map_err(bad)?;
    Ok((config, Some(found)))
}

/// Whether there is such a file; one that cannot be looked at is no "no".
fn is_there(path: &Path) -> Result<bool, Failure> {
    let found = again(|| path.symlink_metadata()).or_absent();
    found.map(|found| found.is_some()).map_err(|error| Failure::file(path, &error))
}

fn load(invocation: &mut Invocation<'_>, path: &Path) -> Result<AuditConfig, Failure> {
    let name = name(path);
    let text = String::from_utf8(read(invocation, path)?);
    let text = text.map_err(|_| Failure::new(ProblemCode::BadConfig, &*name, "not UTF-8", ""))?;
    Ok(AuditConfig { path: name, text })
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
        assert_eq!(
            failure,
            "x: the time limit was reached before it was read; give it more time with --timeout"
        );
    }
}
