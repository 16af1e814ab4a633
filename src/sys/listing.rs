//! Names in a directory, by getdents64(2). The C library's readdir(3) takes `ENOENT` for
//! the end of the directory, and what was not listed for what is not there.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;

use super::retry::again;

/// Bytes of one call: some thousand names, so that most directories take one call and the
/// empty one at the end.
const ROOM: usize = 32 << 10;
/// Where a record (`struct linux_dirent64`) has its length, its type and its name.
const LENGTH: usize = 16;
const TYPE: usize = 18;
const NAME: usize = 19;

/// Calls `visit` with the name of each entry, and whether the file system says that it is
/// a directory, until `visit` returns false. `.` and `..` are left out.
///
/// # Errors
///
/// Those of getdents64(2); `EBADMSG` for records that are malformed.
pub(super) fn each(directory: &OwnedFd, mut visit: impl FnMut(&CStr, bool) -> bool) -> Result<(), Errno> {
    let mut buffer = vec![0; ROOM];
    loop {
        let filled = again(|| fill(directory, &mut buffer))?;
        let mut rest = buffer.get(..filled).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
        while !rest.is_empty() {
            let (name, is_directory, length) = record(rest).ok_or(Errno::EBADMSG)?;
            if name != c"." && name != c".." && !visit(name, is_directory) {
                return Ok(());
            }
            rest = rest.get(length..).unwrap_or_default();
        }
    }
}

/// The first record: its name, whether it is a directory, and its length.
fn record(bytes: &[u8]) -> Option<(&CStr, bool, usize)> {
    let length = usize::from(u16::from_ne_bytes(*bytes.get(LENGTH..)?.first_chunk()?));
    let name = CStr::from_bytes_until_nul(bytes.get(NAME..length)?).ok()?;
    Some((name, *bytes.get(TYPE)? == libc::DT_DIR, length))
}

fn fill(directory: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let (fd, room) = (directory.as_raw_fd(), buffer.len());
    // SAFETY: the kernel writes at most `room` bytes, which the buffer has.
    let filled = unsafe { libc::syscall(libc::SYS_getdents64, fd, buffer.as_mut_ptr(), room) };
    Errno::result(filled).map(|filled| usize::try_from(filled).unwrap_or(0).min(room))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that whole records are read, and nothing of others.
    #[test]
    fn records() {
        let mut bytes = vec![0; LENGTH];
        bytes.extend(24_u16.to_ne_bytes());
        bytes.extend([libc::DT_DIR, b'7', b'1', 0, 9, 9]);
        assert_eq!(record(&bytes), Some((c"71", true, 24)));
        assert!((0..24).all(|length| record(&bytes[..length]).is_none()));
        bytes[LENGTH] = 0;
        assert_eq!(record(&bytes), None);
    }
}
