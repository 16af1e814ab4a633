//! Reads a process's memory through `/proc/PID/mem`. The handle is opened once and
//! stays with the address space of that moment, so what is read never comes from a
//! program that is executed later.
//!
//! Only pages that are present are read. Any other page would have to be faulted in
//! first, from a source that the process chose: a file of its own FUSE server, or
//! itself (userfaultfd). That can take for ever. What a process has written is
//! present or swapped out, and so are the strings that the kernel gave it.

mod fault;
mod pages;
pub(super) mod strings;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::problems::errno_of;
use crate::observe::procfile::Stat;
use crate::sys::dir::Dir;
use crate::sys::retry::again;
pub(in crate::observe) use fault::Fault;
use pages::Pages;
pub(in crate::observe::processes) use pages::word;

/// Reads that one process may cost, bytes, and time: an environment that is
/// made to be slow to read is cut.
const CALLS: u32 = 4096;
const BYTES: usize = 128 << 20;
const TIME: Duration = Duration::from_secs(3);
/// How often a process is read that executes another program meanwhile.
const TRIES: usize = 3;
/// An address at which nothing is ever mapped, on any supported architecture.
const NOWHERE: u64 = 0x7fff_ffff_ffff_f000;

/// An address space, and what may still be read of it.
#[derive(Debug)]
pub(in crate::observe) struct Memory {
    file: File,
    pages: Pages,
    /// The mappings of devices: reading there would read the device.
    devices: Vec<(u64, u64)>,
    calls: u32,
    bytes: usize,
    end: Instant,
    /// The first call that failed since this was asked.
    failure: Option<Errno>,
}

/// What `read` makes of the memory of a process and of what `stat` says of the same program:
/// a process that executes another one meanwhile is read again. `None` where `read` had
/// nothing to say each time, or the program was another each time.
///
/// # Errors
///
/// `stat` cannot be read.
pub(in crate::observe) fn of_one_program<T>(
    process: &PinnedProcess,
    mut read: impl FnMut(&mut Result<Memory, Errno>, &Stat) -> Option<T>,
) -> Result<Option<T>, NotRead> {
    for _ in 0..TRIES {
        // In this order: what `stat` says is of this memory, or that is dead.
        let mut memory = Memory::open(process.dir());
        let stat = process.stat()?;
        let found = read(&mut memory, &stat);
        if found.is_some() && memory.map_or(true, |memory| memory.is_alive()) {
            return Ok(found);
        }
    }
    Ok(None)
}

impl Memory {
    /// Opens the memory of the process with this directory.
    ///
    /// # Errors
    ///
    /// Those of openat(2); `ENOSYS` where the kernel does not tell which
    /// pages are there (`CONFIG_PROC_PAGE_MONITOR`).
    pub(in crate::observe) fn open(dir: &Dir) -> Result<Self, Errno> {
        let file = dir.open_file(c"mem")?;
        let pages = Pages::open(dir)?;
        let end = Instant::now() + TIME;
        Ok(Self { file, pages, devices: Vec::new(), calls: CALLS, bytes: BYTES, end, failure: None })
    }

    /// Keeps away from these parts, in which devices are mapped.
    pub(super) fn avoid(&mut self, devices: Vec<(u64, u64)>) {
        self.devices = devices;
    }

    /// Reads at `address` as much as is there, at most `buffer`; at least one
    /// byte.
    pub(super) fn read(&mut self, address: u64, buffer: &mut [u8]) -> Result<usize, Fault> {
        self.calls = self.calls.checked_sub(1).ok_or(Fault::Spent)?;
        self.bytes = self.bytes.checked_sub(buffer.len()).ok_or(Fault::Spent)?;
        if Instant::now() >= self.end {
            return Err(Fault::Spent);
        }
        let read = self.ready(address, buffer);
        if let Err(Fault::Failed(errno)) = read {
            self.failure.get_or_insert(errno);
        }
        read
    }

    fn ready(&self, address: u64, buffer: &mut [u8]) -> Result<usize, Fault> {
        let ready = self.pages.ready(address, buffer.len())?;
        let ready = self.before_devices(address, ready)?;
        let buffer = buffer.get_mut(..ready).unwrap_or_default();
        match again(|| self.file.read_at(buffer, address)).map_err(|error| errno_of(&error)) {
            Ok(0) => Err(Fault::Gone),
            Ok(count) => Ok(count),
            // The page went meanwhile.
            Err(Errno::EIO) => Err(Fault::Absent),
            Err(errno) => Err(Fault::Failed(errno)),
        }
    }

    /// Why calls failed since this was asked, so that what was read lacks something.
    pub(in crate::observe) fn failure(&mut self) -> Option<Errno> {
        self.failure.take()
    }

    /// How many of `length` bytes lie before the next device.
    fn before_devices(&self, address: u64, length: usize) -> Result<usize, Fault> {
        let ahead = self.devices.iter().filter(|(_, end)| *end > address).map(|(start, _)| *start).min();
        match ahead.map(|start| start.saturating_sub(address)) {
            Some(0) => Err(Fault::Absent),
            Some(distance) => Ok(length.min(usize::try_from(distance).unwrap_or(usize::MAX))),
            None => Ok(length),
        }
    }

    /// Reads exactly `N` bytes.
    pub(super) fn array<const N: usize>(&mut self, address: u64) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        if self.read(address, &mut bytes)? == N { Ok(bytes) } else { Err(Fault::Absent) }
    }

    /// Reads `length` bytes into `buffer`, or as many as are there.
    pub(super) fn fill(&mut self, address: u64, length: usize, buffer: &mut Vec<u8>) -> Result<(), Fault> {
        buffer.resize(length, 0);
        let count = self.read(address, buffer).inspect_err(|_| buffer.clear())?;
        buffer.truncate(count);
        Ok(())
    }

    /// Reads from `start` to `end` into `buffer`; what stopped it if there is
    /// less than that.
    pub(super) fn area(&mut self, (start, end): (u64, u64), buffer: &mut Vec<u8>) -> Result<(), Fault> {
        buffer.clear();
        let mut next = start;
        while next < end {
            let length = usize::try_from(end - next).unwrap_or(usize::MAX).min(pages::MOST);
            let old = buffer.len();
            buffer.resize(old + length, 0);
            let count = self.read(next, buffer.get_mut(old..).unwrap_or_default());
            buffer.truncate(old + count.unwrap_or(0));
            next += count? as u64;
        }
        Ok(())
    }

    /// Whether the address space is still in use: a read where nothing can be
    /// mapped fails as long as it is, and ends after.
    pub(in crate::observe) fn is_alive(&self) -> bool {
        // A failure says nothing of the process: an end alone is its end.
        self.pages.is_alive() && !matches!(again(|| self.file.read_at(&mut [0], NOWHERE)), Ok(0))
    }
}
