//! Writes JSON or bytes to a file that the user named.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde::Serialize;

use crate::commands::invocation::Failure;
use crate::model::ProblemCode;
use crate::output_file::{self, OutputError};
use crate::render;

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
