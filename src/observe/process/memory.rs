//! A process's memory through `/proc/PID/mem`, opened once: the handle stays with
//! the address space of that moment, so what is read never comes from a
//! program executed later.

use std::fs::File;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;

use crate::sys::dir::Dir;

/// Reads that one process may cost, and bytes: an environment that is made to
/// be slow to read is cut.
const CALLS: u32 = 4096;
const BYTES: usize = 128 << 20;

/// An address space, and what may still be read of it.
#[derive(Debug)]
pub(super) struct Memory {
    file: File,
    calls: u32,
    bytes: usize,
}

/// Why there are no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing is mapped there, or it cannot be read.
    Unmapped,
    /// The address space is gone.
    Gone,
    /// Enough has been read.
    Spent,
}

impl Memory {
    /// Opens the memory of the process with this directory.
    pub(super) fn open(dir: &Dir) -> Result<Self, Errno> {
        Ok(Self { file: dir.open_file(c"mem")?, calls: CALLS, bytes: BYTES })
    }

    /// Reads at `address` as much as is mapped there, at most `buffer`; at least
    /// one byte.
    pub(super) fn read(&mut self, address: u64, buffer: &mut [u8]) -> Result<usize, Fault> {
        self.calls = self.calls.checked_sub(1).ok_or(Fault::Spent)?;
        self.bytes = self.bytes.checked_sub(buffer.len()).ok_or(Fault::Spent)?;
        match self.file.read_at(buffer, address) {
            Ok(0) => Err(Fault::Gone),
            Ok(count) => Ok(count),
            Err(_) => Err(Fault::Unmapped),
        }
    }

    /// Reads exactly `N` bytes.
    pub(super) fn array<const N: usize>(&mut self, address: u64) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        if self.read(address, &mut bytes)? == N { Ok(bytes) } else { Err(Fault::Unmapped) }
    }

    /// Reads `length` bytes into `buffer`, or as many as are mapped.
    pub(super) fn fill(&mut self, address: u64, length: usize, buffer: &mut Vec<u8>) -> Result<(), Fault> {
        buffer.resize(length, 0);
        let count = self.read(address, buffer).inspect_err(|_| buffer.clear())?;
        buffer.truncate(count);
        Ok(())
    }

    /// Whether the address space is still in use: a read where nothing can be
    /// mapped fails as long as it is, and ends after.
    pub(super) fn is_alive(&self) -> bool {
        !matches!(self.file.read_at(&mut [0], 0), Ok(0))
    }
}

impl Fault {
    /// In words.
    pub(super) fn why(self) -> &'static str {
        match self {
            Self::Unmapped => "its memory cannot be read there",
            Self::Gone => "it has ended",
            Self::Spent => "it takes too long to read",
        }
    }
}
