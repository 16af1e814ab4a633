//! Reading a file through a small mapping of it.
//!
//! read(2) waits for the lock of the inode on some file systems (XFS, NFS), and
//! a user can hold that lock for ever: write(2) into the file, from a page that
//! a FUSE server of the same user never gives. Faults of a mapping do not take
//! the lock. The bytes are copied by process_vm_readv(2) from this very
//! process, which answers `EFAULT` where touching the page of a file that was
//! cut off meanwhile would be SIGBUS.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr::NonNull;

use libc::{c_void, iovec};
use nix::errno::Errno;

/// Bytes that are mapped at a time; a multiple of every page size in use. Mapped
/// bytes count as this process's memory.
const WINDOW: usize = 1 << 20;

/// A file and the part of it that is mapped.
#[derive(Debug)]
pub struct Windowed {
    file: File,
    size: u64,
    mapped: Option<Mapped>,
}

impl Windowed {
    /// A file that is open for reading, with its size in bytes.
    pub fn new(file: File, size: u64) -> Self {
        Self { file, size, mapped: None }
    }

    /// Fills `buffer` with what begins at `offset`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::UnexpectedEof`] where there is no such part, or no
    /// longer; those of mmap(2).
    pub fn read_exact_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.copy(buffer, offset).map_err(|errno| match errno {
            Errno::EFAULT => io::ErrorKind::UnexpectedEof.into(),
            errno => errno.into(),
        })
    }

    fn copy(&mut self, buffer: &mut [u8], offset: u64) -> Result<(), Errno> {
        let end = offset.checked_add(buffer.len() as u64).ok_or(Errno::EFAULT)?;
        if end > self.size {
            return Err(Errno::EFAULT);
        }
        let (mut at, mut left) = (offset, buffer);
        while !left.is_empty() {
            let start = at - at % WINDOW as u64;
            let inside = usize::try_from(at - start).map_err(|_| Errno::EFAULT)?;
            let count = left.len().min(WINDOW - inside);
            let (now, later) = left.split_at_mut(count);
            self.window(start)?.copy(inside, now)?;
            left = later;
            at += count as u64;
        }
        Ok(())
    }

    fn window(&mut self, start: u64) -> Result<&Mapped, Errno> {
        let kept = self.mapped.take().filter(|mapped| mapped.start == start);
        let mapped = if let Some(mapped) = kept { mapped } else { Mapped::new(&self.file, start)? };
        Ok(self.mapped.insert(mapped))
    }
}

/// A mapped part of a file.
#[derive(Debug)]
struct Mapped {
    /// Its offset in the file.
    start: u64,
    address: NonNull<c_void>,
}

// SAFETY: a mapping belongs to the process, not to a thread; no reference into
// it is ever made.
unsafe impl Send for Mapped {}

impl Mapped {
    fn new(file: &File, start: u64) -> Result<Self, Errno> {
        let offset = libc::off_t::try_from(start).map_err(|_| Errno::EFAULT)?;
        // A private one would get the breakpoints of all uprobes in the file,
        // those of others included, as if this process ran it.
        let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
        // SAFETY: a new mapping at a place that the kernel chooses.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), WINDOW, read, shared, file.as_raw_fd(), offset) };
        if address == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        NonNull::new(address).map(|address| Self { start, address }).ok_or(Errno::EFAULT)
    }

    /// Copies what begins at `inside`; as much as `buffer` has room for, which
    /// is inside the window.
    fn copy(&self, inside: usize, buffer: &mut [u8]) -> Result<(), Errno> {
        if inside.checked_add(buffer.len()).is_none_or(|end| end > WINDOW) {
            return Err(Errno::EFAULT);
        }
        let into = iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: `inside` lies in the mapping. The pointer is given to the
        // kernel alone.
        let from = unsafe { self.address.as_ptr().byte_add(inside) };
        let from = iovec { iov_base: from, iov_len: buffer.len() };
        let own = std::process::id().cast_signed();
        // SAFETY: the kernel writes no more than the length of `buffer` into it
        // and checks the other address as it does for a foreign process.
        let count = unsafe { libc::process_vm_readv(own, &raw const into, 1, &raw const from, 1, 0) };
        let count = Errno::result(count)?;
        if usize::try_from(count) == Ok(buffer.len()) { Ok(()) } else { Err(Errno::EFAULT) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping of this value, into which nobody points.
        unsafe { libc::munmap(self.address.as_ptr(), WINDOW) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Make sure that bytes come from where they are, over the border of a
    /// window too, and that a file that is cut off is an error and no signal.
    #[test]
    fn parts() {
        let path = std::env::temp_dir().join(format!("gpumap-window-{}", std::process::id()));
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let bytes: Vec<u8> = (0..WINDOW + 8192).map(|at| (at % 251) as u8).collect();
        file.write_all(&bytes).unwrap();
        let mut windowed = Windowed::new(file.try_clone().unwrap(), bytes.len() as u64);
        let mut found = vec![0; 6000];
        let ends = |read: io::Result<()>| read.err().map(|error| error.kind());
        for at in [0, 1, WINDOW - 1, WINDOW - 3000, bytes.len() - 6000] {
            windowed.read_exact_at(&mut found, at as u64).unwrap();
            assert!(found == bytes[at..at + 6000], "{at}");
        }
        for past in [bytes.len() as u64 - 5999, u64::MAX - 3] {
            assert_eq!(ends(windowed.read_exact_at(&mut found, past)), Some(io::ErrorKind::UnexpectedEof));
        }
        file.set_len(100).unwrap();
        assert_eq!(ends(windowed.read_exact_at(&mut found, 8192)), Some(io::ErrorKind::UnexpectedEof));
    }
}
