//! Reports directories that are made and removed: fanotify for a whole file system,
//! inotify for one directory at a time.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use nix::sys::inotify::{self, AddWatchFlags};
use nix::unistd::read;

use super::dir::Dir;

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
                Ok(count) => parse(self.buffer.get(..count).unwrap_or_default(), &mut visit),
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

/// `struct fanotify_event_metadata`.
const EVENT: usize = 24;
/// `FANOTIFY_METADATA_VERSION`.
const VERSION: u8 = 3;
/// `FAN_Q_OVERFLOW`.
const OVERFLOW: u64 = 0x4000;
/// `FAN_EVENT_INFO_TYPE_DFID_NAME`.
const DIRECTORY_AND_NAME: u8 = 2;
/// The offset of the handle in that piece: its header and a file system id come
/// before.
const HANDLE: usize = 4 + 8;
/// `FILEID_KERNFS` of `linux/exportfs.h` (since Linux 5.5): 8 bytes, the inode
/// number.
const KERNFS: u32 = 0xfe;

/// A change in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A directory was made in or removed from the one with this inode number
    /// ([`WholeFs`]) or watch ([`PerDir`]).
    In(u64),
    /// This watch has ended ([`PerDir`]).
    Ended(u64),
    /// Notices were lost, or one cannot be read: anything may have happened.
    Lost,
}

/// Passes every event in the bytes to `visit`. Bytes that do not parse are
/// [`Notice::Lost`].
fn parse(bytes: &[u8], visit: &mut impl FnMut(Notice)) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = u32_at(rest, 0).map_or(0, |length| length as usize);
        let (Some(event), Some(after)) = (rest.get(..length), rest.get(length..)) else {
            return visit(Notice::Lost);
        };
        if length < EVENT {
            return visit(Notice::Lost);
        }
        visit(directory(event).map_or(Notice::Lost, Notice::In));
        rest = after;
    }
}

/// The inode number of the directory in which something happened.
fn directory(event: &[u8]) -> Option<u64> {
    let overflown = u64_at(event, 8)? & OVERFLOW != 0;
    if overflown || *event.get(4)? != VERSION {
        return None;
    }
    let mut rest = event.get(usize::from(u16_at(event, 6)?)..)?;
    loop {
        let length = usize::from(u16_at(rest, 2)?);
        let piece = rest.get(..length).filter(|piece| piece.len() >= 4)?;
        if piece.first() == Some(&DIRECTORY_AND_NAME) {
            return handle(piece.get(HANDLE..)?);
        }
        rest = rest.get(length..)?;
    }
}

/// `struct file_handle` of a kernfs directory.
fn handle(bytes: &[u8]) -> Option<u64> {
    let known = u32_at(bytes, 0)? == 8 && u32_at(bytes, 4)? == KERNFS;
    known.then(|| u64_at(bytes, 8))?
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|chunk| u16::from_ne_bytes(*chunk))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|chunk| u64::from_ne_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(mask: u64, handle_type: u32, inode: u64) -> Vec<u8> {
        let mut piece = vec![DIRECTORY_AND_NAME, 0, 36, 0];
        piece.extend([0; 8]);
        piece.extend(8_u32.to_ne_bytes());
        piece.extend(handle_type.to_ne_bytes());
        piece.extend(inode.to_ne_bytes());
        piece.extend(b"name\0\0\0\0");
        let mut event = 60_u32.to_ne_bytes().to_vec();
        event.extend([VERSION, 0, 24, 0]);
        event.extend(mask.to_ne_bytes());
        event.extend([0xff; 8]);
        event.extend(piece);
        event
    }

    fn all(bytes: &[u8]) -> Vec<Notice> {
        let mut all = Vec::new();
        parse(bytes, &mut |notice| all.push(notice));
        all
    }

    /// Make sure that directories are found and that overflow, foreign handles
    /// and rubbish mean "anything may have happened".
    #[test]
    fn records() {
        let two = [event(0x4000_0100, KERNFS, 77), event(0x4000_0200, KERNFS, 78)].concat();
        assert_eq!(all(&two), [Notice::In(77), Notice::In(78)]);
        assert_eq!(all(&event(OVERFLOW, KERNFS, 77)), [Notice::Lost]);
        assert_eq!(all(&event(0x100, 1, 77)), [Notice::Lost]);
        assert_eq!(all(&two[..70]), [Notice::In(77), Notice::Lost]);
        assert!(all(&[]).is_empty());
        for cut in 1..60 {
            assert_eq!(all(&two[..cut]), [Notice::Lost], "{cut}");
        }
        assert_eq!(all(&[0; 64]), [Notice::Lost]);
        let mut wrong = event(0x100, KERNFS, 77);
        wrong[6] = 200;
        assert_eq!(all(&wrong), [Notice::Lost]);
    }
}
