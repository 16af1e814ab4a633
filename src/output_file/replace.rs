//! Replaces a file atomically: a new one is written, synced and renamed.
//!
//! tempfile's `persist` would do it by path names. Here every call is relative to the
//! directory that `destination` opened and checked, so that nobody can exchange the
//! directory in between.
//!
//! A FIFO, a character device or a file that the caller has open is written to as it is.

use std::collections::hash_map::RandomState;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, renameat};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};

use super::destination::OutputError;
use crate::sys::retry::again;

/// Names that are tried for the new file.
const TRIES: usize = 16;

/// The mode of a file while it is written.
const PRIVATE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// Writes a new file and gives it the name. All calls are relative to the open
/// directory, so that no other directory can take its place.
pub(super) fn replace(
    directory: &OwnedFd,
    name: &CStr,
    mode: Mode,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), OutputError> {
    let (file, mut temporary) = create(directory)?;
    let mut out = BufWriter::new(&file);
    write(&mut out)?;
    out.flush()?;
    drop(out);
    if mode != PRIVATE {
        // The umask of a service manager would hide it from those it is for.
        fchmod(&file, mode)?;
    }
    file.sync_all()?;
    if temporary.name.is_none() {
        temporary.link(&file)?;
    }
    temporary.rename(name)
}

/// The new file's name until it has its own; removed if it never gets there.
struct Temporary<'a> {
    directory: &'a OwnedFd,
    name: Option<CString>,
}

/// A new file without a name (`O_TMPFILE`), which vanishes however gpumap ends; if
/// the file system cannot do that, one with a temporary name.
fn create(directory: &OwnedFd) -> Result<(File, Temporary<'_>), OutputError> {
    let mode = PRIVATE;
    let common = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    match again(|| openat(directory, c".", common | OFlag::O_TMPFILE, mode)) {
        Ok(file) => return Ok((file.into(), Temporary { directory, name: None })),
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::ENOENT | Errno::EINVAL) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = common | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
    let (file, name) = with_new_name(|name| again(|| openat(directory, name, flags, mode)))?;
    Ok((file.into(), Temporary { directory, name: Some(name) }))
}

impl Temporary<'_> {
    /// Gives the file a temporary name, which it needs to replace another file.
    fn link(&mut self, file: &File) -> Result<(), OutputError> {
        let handle = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = AtFlags::AT_SYMLINK_FOLLOW;
        let link = |name: &CStr| again(|| linkat(AT_FDCWD, handle.as_str(), self.directory, name, flags));
        let ((), name) = with_new_name(link)?;
        self.name = Some(name);
        Ok(())
    }

    fn rename(&mut self, to: &CStr) -> Result<(), OutputError> {
        if let Some(name) = &self.name {
            again(|| renameat(self.directory, name.as_c_str(), self.directory, to))?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _already_failed = unlinkat(self.directory, name.as_c_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}

/// Tries unpredictable names until one is free.
fn with_new_name<T>(mut make: impl FnMut(&CStr) -> Result<T, Errno>) -> Result<(T, CString), OutputError> {
    for _ in 0..TRIES {
        // The hash has a key that the system chose at random.
        let random = RandomState::new().build_hasher().finish();
        let name = CString::new(format!(".gpumap-{random:016x}")).map_err(|_| Errno::EINVAL)?;
        match make(&name) {
            Ok(made) => return Ok((made, name)),
            Err(Errno::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::EEXIST.into())
}

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
