//! Follows the name of an output file to the directory that holds it.
//!
//! The kernel would also follow a symbolic link that another user put into `/tmp`
//! or into a directory of their own, and so lead root to any file
//! (`fs.protected_symlinks` forbids the first case where it is set). Here every
//! step is a directory handle, and a link is followed only if it belongs to root or
//! to the user that gpumap runs as.

use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, readlinkat};
use nix::libc;
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};
use nix::unistd::geteuid;

use crate::sys::retry::again;

/// Symbolic links that are followed (`MAXSYMLINKS`, `linux/namei.h`).
const LINK_LIMIT: usize = 40;

/// The kind of file that a name leads to.
pub(super) enum Destination {
    /// Nothing or a regular file.
    File {
        /// The directory that holds it.
        directory: OwnedFd,
        /// Its name there.
        name: CString,
    },
    /// Something to write to, opened with `O_PATH`.
    Stream(OwnedFd),
}

/// A component and what it leads to.
struct Step {
    handle: OwnedFd,
    stat: FileStat,
}

/// The place that `path` names.
pub(super) fn find(path: &Path) -> Result<Destination, OutputError> {
    let mut walk =
        PathWalk { at: open(AT_FDCWD, c".")?, name: PathBuf::new(), links: 0, left: VecDeque::new() };
    walk.go_on_with(path)?;
    walk.run()
}

struct PathWalk {
    /// The directory that was reached.
    at: OwnedFd,
    /// Its path, for messages.
    name: PathBuf,
    links: usize,
    /// The components still to go.
    left: VecDeque<OsString>,
}

impl PathWalk {
    /// Puts the components of `path` before those that are left.
    fn go_on_with(&mut self, path: &Path) -> Result<(), OutputError> {
        if path.is_absolute() {
            self.at = open(AT_FDCWD, c"/")?;
            self.name = "/".into();
        }
        let parts = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            Component::ParentDir => Some(OsStr::new("..")),
            _ => None,
        });
        let mut parts: Vec<OsString> = parts.map(OsStr::to_owned).collect();
        // A slash or a dot at the end means a directory.
        if path.as_os_str().as_bytes().ends_with(b"/") || path.as_os_str().as_bytes().ends_with(b"/.") {
            parts.push(".".into());
        }
        parts.into_iter().rev().for_each(|part| self.left.push_front(part));
        Ok(())
    }

    fn run(mut self) -> Result<Destination, OutputError> {
        loop {
            let Some(name) = self.left.pop_front() else { return Err(is_directory()) };
            let is_last = self.left.is_empty();
            let name = CString::new(name.into_vec()).map_err(|_| Errno::EINVAL)?;
            let step = match self.look(&name) {
                Err(Errno::ENOENT) if is_last => return Ok(Destination::File { directory: self.at, name }),
                Err(Errno::ENOENT) => return Err(no_directory(&self.path_of(&name))),
                step => step?,
            };
            match kind(&step.stat) {
                SFlag::S_IFLNK => match self.resolve_link(&name, &step)? {
                    Some(open) if is_last => return stream(open),
                    Some(open) => self.enter(&name, open),
                    None => {}
                },
                SFlag::S_IFDIR if is_last => return Err(is_directory()),
                SFlag::S_IFDIR => self.enter(&name, step),
                _ if !is_last => return Err(Errno::ENOTDIR.into()),
                SFlag::S_IFREG => {
                    self.trust(&step.stat, "file")?;
                    return Ok(Destination::File { directory: self.at, name });
                }
                _ => {
                    self.trust(&step.stat, "file")?;
                    return stream(step);
                }
            }
        }
    }

    fn enter(&mut self, name: &CStr, directory: Step) {
        self.name = self.path_of(name);
        self.at = directory.handle;
    }

    /// The path of an entry of the directory that was reached.
    fn path_of(&self, name: &CStr) -> PathBuf {
        self.name.join(OsStr::from_bytes(name.to_bytes()))
    }

    fn look(&self, name: &CString) -> Result<Step, Errno> {
        let handle = again(|| openat(&self.at, name.as_c_str(), flags() | OFlag::O_NOFOLLOW, Mode::empty()))?;
        let stat = again(|| fstat(&handle))?;
        Ok(Step { handle, stat })
    }

    /// Follows a link: by its text, or, on procfs, where links lead to open
    /// files that may have no name, through the kernel.
    fn resolve_link(&mut self, name: &CString, link: &Step) -> Result<Option<Step>, OutputError> {
        self.links += 1;
        if self.links > LINK_LIMIT {
            return Err(Errno::ELOOP.into());
        }
        if !is_ours(link.stat.st_uid) {
            let why = format!(
                "'{}' is a symbolic link of another user (uid {})",
                name.to_string_lossy(),
                link.stat.st_uid
            );
            return Err(OutputError::refused(why, "name the file itself"));
        }
        if again(|| fstatfs(&self.at))?.filesystem_type() == PROC_SUPER_MAGIC {
            let handle = again(|| openat(&self.at, name.as_c_str(), flags(), Mode::empty()))?;
            let stat = again(|| fstat(&handle))?;
            return Ok(Some(Step { handle, stat }));
        }
        let text = again(|| readlinkat(&self.at, name.as_c_str()))?;
        self.go_on_with(Path::new(&text))?;
        Ok(None)
    }

    /// Refuses what another user made in a directory where everybody may make
    /// files, as `fs.protected_regular` and `fs.protected_fifos` do.
    fn trust(&self, stat: &FileStat, what: &str) -> Result<(), OutputError> {
        let is_shared = again(|| fstat(&self.at))?.st_mode & Mode::S_IWOTH.bits() != 0;
        if is_shared && !is_ours(stat.st_uid) {
            let why = format!(
                "a {what} of another user (uid {}) in a directory that everybody may write to",
                stat.st_uid
            );
            return Err(OutputError::refused(why, "use a directory that only root may write to"));
        }
        Ok(())
    }
}

/// A file that may be written to without replacing it.
fn stream(step: Step) -> Result<Destination, OutputError> {
    match kind(&step.stat) {
        SFlag::S_IFIFO | SFlag::S_IFCHR | SFlag::S_IFREG => Ok(Destination::Stream(step.handle)),
        SFlag::S_IFDIR => Err(is_directory()),
        SFlag::S_IFBLK => {
            Err(OutputError::refused("a block device", "name a file, a FIFO or a character device"))
        }
        SFlag::S_IFSOCK => Err(OutputError::refused("a socket", "name a file, a FIFO or a character device")),
        _ => Err(OutputError::refused("no file", "name a file, a FIFO or a character device")),
    }
}

fn is_directory() -> OutputError {
    OutputError::refused("is a directory", "name a file in it")
}

fn no_directory(path: &Path) -> OutputError {
    let why = format!("the directory '{}' does not exist", path.display());
    OutputError::refused(why, "make it first")
}

fn is_ours(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & libc::S_IFMT)
}

fn open(at: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    again(|| openat(at.as_fd(), name, flags() | OFlag::O_DIRECTORY, Mode::empty()))
}

fn flags() -> OFlag {
    OFlag::O_PATH | OFlag::O_CLOEXEC
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The name leads where gpumap does not write.
    #[error("{why}")]
    Refused {
        /// The reason.
        why: String,
        /// The advice.
        needs: &'static str,
    },
    /// A system call failed.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl From<Errno> for OutputError {
    fn from(errno: Errno) -> Self {
        Self::System(errno.into())
    }
}

impl OutputError {
    pub(super) fn refused(why: impl Into<String>, needs: &'static str) -> Self {
        Self::Refused { why: why.into(), needs }
    }
}
