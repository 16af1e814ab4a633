//! Writes files that the user named.
//!
//! gpumap often runs as root, and another user may have made the name of a file
//! lead elsewhere. So a name is followed step by step (`destination`), and what
//! is found at its end decides what happens:
//!
//! - nothing or a regular file: a new file is written completely and then
//!   takes the name, so that readers see the old file or the new one. It is
//!   readable by its owner alone (mode 0600), unless it is meant for everybody (0644).
//! - a FIFO or a character device, such as `/dev/null`, or an open file of the
//!   caller by the name `/dev/stdout` or `/dev/fd/N`: it is written to, and
//!   stays what it is.
//! - anything else is refused.

mod destination;
mod replace;

use std::ffi::CStr;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use destination::Destination;
use nix::sys::stat::Mode;

pub use destination::OutputError;

/// What everybody may read (0644).
const PUBLIC: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR).union(Mode::S_IRGRP).union(Mode::S_IROTH);

/// Writes the output of `write` to `path`, as the module describes: whatever has the
/// name afterwards is whole.
///
/// # Errors
///
/// An error of `write`, an error of a system call, or a refusal. Then nothing is
/// left behind, and an existing file is unchanged.
pub fn save(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), OutputError> {
    match destination::find(path)? {
        Destination::File { directory, name } => {
            replace::replace(&directory, &name, Mode::S_IRUSR | Mode::S_IWUSR, write)
        }
        Destination::Stream(target) => replace::write(&target, write),
    }
}

/// The same for what everybody on the node may read, and what other programs read again
/// and again: a new file has mode 0644, whatever the umask is, and nothing but a regular
/// file is replaced. A FIFO in its place would have readers that keep gpumap waiting.
///
/// # Errors
///
/// As [`save`].
pub fn save_public(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), OutputError> {
    match destination::find(path)? {
        Destination::File { directory, name } => replace::replace(&directory, &name, PUBLIC, write),
        Destination::Stream(_) => {
            Err(OutputError::refused("it is no regular file", "remove it, or name another file"))
        }
    }
}

/// The same for a name in a directory that is open: whatever has the name there is
/// replaced, unless it is a directory.
///
/// # Errors
///
/// As [`save`].
pub fn save_public_in(
    directory: impl AsFd,
    name: &CStr,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), OutputError> {
    let directory = directory.as_fd().try_clone_to_owned()?;
    replace::replace(&directory, name, PUBLIC, write)
}
