//! The two backends: fanotify and inotify.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use nix::sys::inotify::{self, AddWatchFlags};
use nix::unistd::read;

use super::record;
use super::record::Notice;
use crate::sys::dir::Dir;

/// Room for one read: some two hundred events.
const BUFFER: usize = 16 << 10;
/// Reads of one [`WholeFs::drain`] or [`PerDir::drain`]: a writer that is
/// faster than this is served at the next call.
const READS: usize = 256;

/// fanotify on a whole file system.
#[derive(Debug)]
pub struct WholeFs {
    group: Fanotify,
    buffer: Vec<u8>,
}

impl WholeFs {
    /// Watches the file system that `dir` is on. Names of directories since
    /// Linux 5.9; on cgroup2 since about 6.7. Needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENODEV`, `EXDEV` or `EOPNOTSUPP` where the kernel or the file
    /// system cannot; `EPERM` without the right.
    pub fn new(dir: &Dir) -> Result<Self, Errno> {
        let flags = InitFlags::FAN_CLASS_NOTIF | InitFlags::FAN_CLOEXEC | InitFlags::FAN_NONBLOCK;
        // Not in nix: with the directory's handle and the entry's name.
        let flags = flags | InitFlags::from_bits_retain(libc::FAN_REPORT_DFID_NAME);
        let group = Fanotify::init(flags, EventFFlags::O_RDONLY | EventFFlags::O_CLOEXEC)?;
        let mark = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_FILESYSTEM;
        let mask = MaskFlags::FAN_CREATE | MaskFlags::FAN_DELETE | MaskFlags::FAN_ONDIR;
        group.mark(mark, mask, dir, Some("."))?;
        Ok(Self { group, buffer: vec![0; BUFFER] })
    }

    /// Hands over what has happened since the last call; does not wait.
    ///
    /// # Errors
    ///
    /// Those of read(2).
    pub fn drain(&mut self, mut visit: impl FnMut(Notice)) -> Result<(), Errno> {
        for _ in 0..READS {
            match read(self.group.as_fd(), &mut self.buffer) {
                Ok(0) | Err(Errno::EAGAIN) => return Ok(()),
                Ok(count) => record::parse(self.buffer.get(..count).unwrap_or_default(), &mut visit),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

impl AsFd for WholeFs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.group.as_fd()
    }
}

/// inotify, a watch for every directory. Since Linux 2.6.13.
#[derive(Debug)]
pub struct PerDir(inotify::Inotify);

impl PerDir {
    /// Watches nothing yet.
    ///
    /// # Errors
    ///
    /// `EMFILE` over the user's limit of instances.
    pub fn new() -> Result<Self, Errno> {
        let flags = inotify::InitFlags::IN_NONBLOCK | inotify::InitFlags::IN_CLOEXEC;
        inotify::Inotify::init(flags).map(Self)
    }

    /// Watches a directory; the number is the one in its notices.
    ///
    /// # Errors
    ///
    /// `ENOSPC` over the user's limit of watches, `EACCES` without the right to
    /// read the directory, `ENOENT` without `/proc` or once it is removed.
    pub fn add(&self, dir: &Dir) -> Result<u64, Errno> {
        let flags = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_DELETE | AddWatchFlags::IN_ONLYDIR;
        let path = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd());
        self.0.add_watch(path.as_str(), flags).map(number)
    }

    /// Hands over what has happened since the last call; does not wait.
    ///
    /// # Errors
    ///
    /// Those of read(2).
    pub fn drain(&mut self, mut visit: impl FnMut(Notice)) -> Result<(), Errno> {
        for _ in 0..READS {
            match self.0.read_events() {
                Ok(events) if events.is_empty() => return Ok(()),
                Ok(events) => events.iter().for_each(|event| visit(notice(event))),
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

impl AsFd for PerDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn number(watch: inotify::WatchDescriptor) -> u64 {
    u64::from(watch.as_raw().cast_unsigned())
}

fn notice(event: &inotify::InotifyEvent) -> Notice {
    if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
        Notice::Lost
    } else if event.mask.contains(AddWatchFlags::IN_IGNORED) {
        Notice::Ended(number(event.wd))
    } else {
        Notice::In(number(event.wd))
    }
}
