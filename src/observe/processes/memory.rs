//! Reads a process's memory through `/proc/PID/mem`. The handle is opened once and
//! stays with the address space of that moment, so what is read never comes from a
//! program that is executed later.
//!
//! Only pages that are present are read. Any other page would have to be faulted in
//! first, from a source that the process chose: a file of its own FUSE server, or
//! itself (userfaultfd). That can take for ever. What a process has written is
//! present or swapped out, and so are the strings that the kernel gave it.
//!
//! Where that file is refused, `/proc/PID/environ` may still be had: Yama (`ptrace_scope`
//! 1, as Ubuntu has it) leaves the memory of a process to those who started it, and its
//! environment to its user. It is read in the same way.

use std::ffi::CStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::{SysconfVar, sysconf};

use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::problems::errno_of;
use crate::observe::procfile::Stat;
use crate::sys::dir::Dir;
use crate::sys::retry::again;

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
    part: Part,
    pages: Pages,
    /// The mappings of devices: reading there would read the device.
    devices: Vec<(u64, u64)>,
    calls: u32,
    bytes: usize,
    end: Instant,
    /// The first call that failed since this was asked.
    failure: Option<Errno>,
}

/// What of an address space a file shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Everything, each byte at its address.
    Whole,
    /// The environment that begins at this address.
    Environment(u64),
}

/// Why the memory of a process cannot be read.
#[derive(Debug)]
pub(in crate::observe) struct NoMemory {
    pub(in crate::observe) errno: Errno,
    /// Its environment alone, where that is not refused.
    environment: Option<Memory>,
}

impl NoMemory {
    /// The environment alone, which begins at this address.
    pub(super) fn environment(&mut self, start: u64) -> Option<&mut Memory> {
        let memory = self.environment.as_mut()?;
        memory.part = Part::Environment(start);
        Some(memory)
    }
}

/// Whether what was read is of one program: the address space is still in use, or nothing
/// of it was read.
pub(in crate::observe) fn is_alive(memory: &Result<Memory, NoMemory>) -> bool {
    match memory {
        Ok(memory) => memory.is_alive(),
        Err(refused) => refused.environment.as_ref().is_none_or(Memory::is_alive),
    }
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
    mut read: impl FnMut(&mut Result<Memory, NoMemory>, &Stat) -> Option<T>,
) -> Result<Option<T>, NotRead> {
    for _ in 0..TRIES {
        // In this order: what `stat` says is of this memory, or that is dead.
        let mut memory = Memory::open(process.dir());
        let stat = process.stat()?;
        let found = read(&mut memory, &stat);
        if found.is_some() && is_alive(&memory) {
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
    /// Those of openat(2), with the environment alone where that may be read; `ENOSYS`
    /// where the kernel does not tell which pages are there (`CONFIG_PROC_PAGE_MONITOR`).
    pub(in crate::observe) fn open(dir: &Dir) -> Result<Self, NoMemory> {
        Self::of(dir, c"mem", Part::Whole).map_err(|errno| {
            let is_refused = matches!(errno, Errno::EACCES | Errno::EPERM);
            // Where this fails too, the first refusal is the reason.
            let environment = || Self::of(dir, c"environ", Part::Environment(0)).ok();
            NoMemory { errno, environment: is_refused.then(environment).flatten() }
        })
    }

    fn of(dir: &Dir, name: &CStr, part: Part) -> Result<Self, Errno> {
        let file = dir.open_file(name)?;
        let pages = Pages::open(dir)?;
        let end = Instant::now() + TIME;
        Ok(Self { file, part, pages, devices: Vec::new(), calls: CALLS, bytes: BYTES, end, failure: None })
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
        let place = match self.part {
            Part::Whole => address,
            Part::Environment(start) => address.checked_sub(start).ok_or(Fault::Absent)?,
        };
        match again(|| self.file.read_at(buffer, place)).map_err(|error| errno_of(&error)) {
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
    pub(in crate::observe) fn area(
        &mut self,
        (start, end): (u64, u64),
        buffer: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        buffer.clear();
        let mut next = start;
        while next < end {
            let length = usize::try_from(end - next).unwrap_or(usize::MAX).min(MOST);
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
        let is_at_end = || matches!(again(|| self.file.read_at(&mut [0], NOWHERE)), Ok(0));
        self.pages.is_alive() && !(self.part == Part::Whole && is_at_end())
    }
}

/// Bytes that are looked at with one call, whole pages.
const MOST: usize = 256 << 10;
/// The smallest page there is.
const SMALLEST: usize = 4096;
/// Bytes of an entry.
const ENTRY: usize = 8;

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// Of a file, or shared memory.
const FILE: u64 = 1 << 61;
/// Since Linux 6.15: a page that must not be touched.
const GUARD: u64 = 1 << 58;
/// Since Linux 5.13: userfaultfd write-protects it.
const WRITE_PROTECTED: u64 = 1 << 57;
/// The bits for the number of the swap area, and the least `MAX_SWAPFILES` of
/// `linux/swap.h`: higher numbers mean memory of devices, pages that are being
/// moved, and markers.
const AREA: u64 = 0x1f;
const AREAS: u64 = 23;

/// The pages of one address space.
#[derive(Debug)]
struct Pages(File);

impl Pages {
    fn open(dir: &Dir) -> Result<Self, Errno> {
        let file = dir.open_file(c"pagemap");
        file.map(Self).map_err(|errno| if errno == Errno::ENOENT { Errno::ENOSYS } else { errno })
    }

    /// How many bytes from `address` on, at most `length`, can be read without
    /// blocking on a page; at least one.
    fn ready(&self, address: u64, length: usize) -> Result<usize, Fault> {
        let size = size();
        let inside = usize::try_from(address % size as u64).unwrap_or(0);
        let length = length.min(MOST);
        let mut entries = [0; (MOST / SMALLEST + 1) * ENTRY];
        let wanted = (inside + length).div_ceil(size) * ENTRY;
        let wanted = entries.get_mut(..wanted).ok_or(Fault::Absent)?;
        let place = address / size as u64 * ENTRY as u64;
        match again(|| self.0.read_at(wanted, place)) {
            Ok(0) => return Err(if self.is_alive() { Fault::Absent } else { Fault::Gone }),
            Ok(_) => {}
            Err(error) => return Err(Fault::Failed(errno_of(&error))),
        }
        // Entries that could not be read are zero, which means a page that is not
        // there.
        let there = wanted.chunks_exact(ENTRY).take_while(|entry| is_there(word(entry)));
        match (there.count() * size).saturating_sub(inside).min(length) {
            0 => Err(Fault::Absent),
            ready => Ok(ready),
        }
    }

    /// Whether the address space is still in use.
    fn is_alive(&self) -> bool {
        // A failure says nothing of the process: an end alone is its end.
        !matches!(again(|| self.0.read_at(&mut [0; ENTRY], 0)), Ok(0))
    }
}

/// Whether reading this page blocks on nothing but, at most, the swap disk.
fn is_there(entry: u64) -> bool {
    let is_swapped = entry & (SWAPPED | FILE | GUARD | WRITE_PROTECTED) == SWAPPED;
    entry & PRESENT != 0 || (is_swapped && entry & AREA < AREAS)
}

/// Bytes of a page here.
fn size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        // The C library has it from the kernel (AT_PAGESZ): this does not fail.
        let size = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
        size.and_then(|size| usize::try_from(size).ok()).unwrap_or(SMALLEST).max(SMALLEST)
    })
}

/// A pointer of 4 or 8 bytes in this machine's byte order.
pub(in crate::observe::processes) fn word(bytes: &[u8]) -> u64 {
    match bytes.try_into() {
        Ok(long) => u64::from_ne_bytes(long),
        // No failure: it has 4 bytes and not 8.
        Err(_) => bytes.try_into().map_or(0, |short| u32::from_ne_bytes(short).into()),
    }
}

/// Bytes of a page: each read goes at least to the end of one. The most bytes of a read.
const PAGE: usize = 4096;
const STRINGS_MOST: usize = 64 << 10;

/// A part of memory.
#[derive(Debug, Default)]
pub(in crate::observe::processes) struct StringReader {
    start: u64,
    bytes: Vec<u8>,
    size: usize,
}

impl StringReader {
    /// The string at `address` with its terminator, or its first `length`
    /// bytes, or as much as can be read.
    pub(in crate::observe::processes) fn text(
        &mut self,
        memory: &mut Memory,
        address: u64,
        length: usize,
    ) -> Result<&[u8], Fault> {
        if !self.holds(address, length) {
            self.load(memory, address, length)?;
        }
        let text = self.from(address);
        let text = text.get(..length).unwrap_or(text);
        let end = text.iter().position(|byte| *byte == 0).map_or(text.len(), |end| end + 1);
        Ok(text.get(..end).unwrap_or_default())
    }

    fn from(&self, address: u64) -> &[u8] {
        let at = address.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.bytes.get(at..)).unwrap_or_default()
    }

    fn holds(&self, address: u64, length: usize) -> bool {
        let text = self.from(address);
        text.len() >= length || text.contains(&0)
    }

    /// Reads on where the last part ended with ever larger steps.
    fn load(&mut self, memory: &mut Memory, address: u64, length: usize) -> Result<(), Fault> {
        let near = address.wrapping_sub(self.start) <= (self.bytes.len() + PAGE) as u64;
        self.size = if near { (self.size * 4).clamp(PAGE, STRINGS_MOST) } else { PAGE };
        let rest = self.size - (address % PAGE as u64) as usize;
        self.start = address;
        memory.fill(address, rest.max(length), &mut self.bytes)
    }
}

/// Why there are no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::observe) enum Fault {
    /// Nothing is there that can be read without waiting for it.
    Absent,
    /// The address space is gone.
    Gone,
    /// Enough has been read.
    Spent,
    /// A call failed, which says nothing of what is there.
    Failed(Errno),
}

impl Fault {
    /// In words.
    pub(in crate::observe::processes) fn why(self) -> &'static str {
        match self {
            Self::Absent => "its memory cannot be read there: the page is not mapped or not resident",
            Self::Gone => "it has ended",
            Self::Spent => "it takes too long to read",
            Self::Failed(_) => "its memory could not be read: a call failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Make sure that only pages count that no process can keep from coming.
    #[test]
    fn entries() {
        for there in [PRESENT, PRESENT | FILE, PRESENT | WRITE_PROTECTED | 0x1234, SWAPPED, SWAPPED | 22] {
            assert!(is_there(there), "{there:#x}");
        }
        for absent in [0, FILE, SWAPPED | FILE, SWAPPED | GUARD, SWAPPED | WRITE_PROTECTED, SWAPPED | 23] {
            assert!(!is_there(absent), "{absent:#x}");
        }
    }

    /// Make sure that written memory of this process counts as present, and
    /// untouched memory does not.
    #[test]
    fn own() {
        let dir = Dir::open("/proc/self".as_ref()).unwrap();
        let pages = Pages::open(&dir).unwrap();
        let written = vec![7_u8; 3 * MOST];
        let address = written.as_ptr() as u64;
        assert_eq!(pages.ready(address, 100), Ok(100));
        assert_eq!(pages.ready(address, 2 * MOST), Ok(MOST));
        let untouched: Vec<u8> = Vec::with_capacity(64 << 20);
        assert_eq!(pages.ready(untouched.as_ptr() as u64 + (32 << 20), 100), Err(Fault::Absent));
        for wild in [0, 8, u64::MAX - 100, 1 << 62] {
            assert_eq!(pages.ready(wild, 100), Err(Fault::Absent), "{wild:#x}");
        }
    }

    /// Make sure that the environment alone is at the addresses that it has in memory, and
    /// nothing else is there.
    #[test]
    fn environment() {
        let process = PinnedProcess::at(Path::new("/proc"), std::process::id()).unwrap();
        let (start, end) = process.stat().unwrap().environment;
        let whole = &mut Memory::open(process.dir()).unwrap();
        let alone = Memory::of(process.dir(), c"environ", Part::Environment(0)).unwrap();
        let refused = &mut NoMemory { errno: Errno::EACCES, environment: Some(alone) };
        let alone = refused.environment(start).unwrap();
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        assert_eq!(whole.area((start, end), &mut expected), Ok(()));
        assert_eq!(alone.area((start, end), &mut found), Ok(()));
        assert!(!found.is_empty() && found == expected);
        assert_eq!(alone.area((start + 3, end - 3), &mut found), Ok(()));
        assert_eq!(found, expected[3..expected.len() - 3]);
        assert_eq!(alone.area((start - 8, start), &mut found), Err(Fault::Absent));
        assert!(alone.is_alive() && refused.environment.is_some());
    }
}
