//! Executable mappings of files, of all processes, as the kernel tells them.
//!
//! These are records of performance events (`PERF_RECORD_MMAP2`, perf_event_open(2)):
//! one for each mapping that may be executed, in a ring for each CPU. Nothing is put
//! into the processes, and nobody is woken up: the rings are read when the caller
//! likes.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::c_void;
use nix::errno::Errno;

use super::fields::{long, word};

/// Bytes of a ring, a power of two: some 800 mappings.
const RING: usize = 1 << 17;
/// `PERF_TYPE_SOFTWARE` and `PERF_COUNT_SW_DUMMY`: an event that never counts.
const SOFTWARE: u32 = 1;
const DUMMY: u64 = 9;
/// `PERF_SAMPLE_TIME`.
const TIME: u64 = 1 << 2;
/// Bits of `struct perf_event_attr`: `mmap`, `watermark`, `sample_id_all`, `mmap2`,
/// `use_clockid`.
const FLAGS: u64 = 1 << 8 | 1 << 14 | 1 << 18 | 1 << 23 | 1 << 25;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: u64 = 1 << 3;
/// `PERF_RECORD_LOST` and `PERF_RECORD_MMAP2`.
const LOST: u32 = 2;
const MMAP2: u32 = 10;
/// Where `struct perf_event_mmap_page` has the ends of the data, in bytes.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// What a record of a mapping has before the file's name, and behind it.
const BEFORE_NAME: usize = 72;
const BEHIND_NAME: usize = 8;

/// `struct perf_event_attr` up to `sample_max_stack` (`PERF_ATTR_SIZE_VER5`).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    breakpoint: u32,
    configs: [u64; 2],
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u32,
}

/// A process mapped a file, to execute it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The process, as the pid namespace of this process counts.
    pub pid: u32,
    /// When: `CLOCK_BOOTTIME`, in nanoseconds.
    pub at: u64,
    /// The number of the file's inode.
    pub inode: u64,
    /// The file's path where the process sees it.
    pub path: Vec<u8>,
}

/// The rings of all CPUs that are online.
#[derive(Debug)]
pub struct Mappings(Vec<Ring>);

impl Mappings {
    /// Begins. Since Linux 4.1; needs `CAP_PERFMON` (5.8) or `CAP_SYS_ADMIN`, and the
    /// locked memory that every user may have for it.
    ///
    /// # Errors
    ///
    /// Those of perf_event_open(2) and mmap(2).
    pub fn start() -> Result<Self, Errno> {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").map_err(|_| Errno::ENOSYS)?;
        cpus(&online).into_iter().map(Ring::open).collect::<Result<_, _>>().map(Self)
    }

    /// Passes on what was mapped since the last time, in no order. How many times the
    /// kernel had no room for a mapping.
    pub fn read(&mut self, mut take: impl FnMut(Mapping)) -> u64 {
        let mut lost = 0;
        for ring in &mut self.0 {
            for record in records(&ring.take()) {
                match record {
                    Record::Mapping(mapping) => take(mapping),
                    Record::Lost(count) => lost += count,
                }
            }
        }
        lost
    }
}

/// The numbers of a list of CPUs, such as `0-3,8`.
fn cpus(list: &str) -> Vec<i32> {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<i32>().ok()?..=last.parse::<i32>().ok()?)
    });
    ranges.flatten().collect()
}

/// The ring of one CPU.
#[derive(Debug)]
struct Ring {
    _event: OwnedFd,
    pages: NonNull<c_void>,
    page: usize,
}

impl Ring {
    fn open(cpu: i32) -> Result<Self, Errno> {
        let attributes = Attributes {
            kind: SOFTWARE,
            size: u32::try_from(size_of::<Attributes>()).unwrap_or(0),
            config: DUMMY,
            sample_type: TIME,
            flags: FLAGS,
            wakeup_watermark: u32::MAX,
            clock: libc::CLOCK_BOOTTIME,
            ..Attributes::default()
        };
        // SAFETY: the structure has the size that it says, and the kernel keeps no
        // pointer to it. Of all processes (-1), on one CPU, in no group (-1).
        let fd = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const attributes, -1, cpu, -1, CLOSE_ON_EXEC)
        };
        let fd = Errno::result(fd)?;
        // SAFETY: a new descriptor that nobody else knows; it fits an int.
        let event = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
        // SAFETY: the call takes a number and changes nothing.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        // SAFETY: a new mapping wherever there is room; it touches no other memory.
        let pages = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page + RING,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if pages == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let pages = NonNull::new(pages).ok_or(Errno::ENOMEM)?;
        Ok(Self { _event: event, pages, page })
    }

    /// One of the ends of the data.
    fn end(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: within the first page, which is mapped as long as `self` is there,
        // and aligned; the kernel writes and reads it as one number.
        unsafe { self.pages.byte_add(offset).cast::<AtomicU64>().as_ref() }
    }

    /// Takes all bytes out.
    fn take(&mut self) -> Vec<u8> {
        let (head, tail) = (self.end(HEAD).load(Ordering::Acquire), self.end(TAIL).load(Ordering::Relaxed));
        let length = usize::try_from(head.wrapping_sub(tail)).unwrap_or(RING).min(RING);
        let begin = usize::try_from(tail % RING as u64).unwrap_or(0);
        let mut bytes = vec![0_u8; length];
        let first = length.min(RING - begin);
        let (here, rest) = bytes.split_at_mut(first);
        for (into, from) in [(here, begin), (rest, 0)] {
            // SAFETY: `from` and what is copied lie within the RING bytes behind the
            // first page. The kernel does not write what is between tail and head.
            unsafe {
                let data = self.pages.byte_add(self.page + from).cast::<u8>();
                std::ptr::copy_nonoverlapping(data.as_ptr(), into.as_mut_ptr(), into.len());
            }
        }
        self.end(TAIL).store(head, Ordering::Release);
        bytes
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of `open`, which nobody uses any more.
        unsafe { libc::munmap(self.pages.as_ptr(), self.page + RING) };
    }
}

/// What a ring has.
#[derive(Debug, PartialEq, Eq)]
enum Record {
    Mapping(Mapping),
    /// So many had no room.
    Lost(u64),
}

/// The records among some bytes; those of other kinds are left out.
fn records(bytes: &[u8]) -> Vec<Record> {
    let (mut found, mut rest) = (Vec::new(), bytes);
    while let (Some(kind), Some(size)) = (word(rest, 0), rest.get(6..8)) {
        let size = size.first_chunk().map_or(0, |size| usize::from(u16::from_ne_bytes(*size)));
        let Some((record, further)) = rest.split_at_checked(size).filter(|_| size >= 8) else { break };
        match kind {
            MMAP2 => found.extend(mapping(record).map(Record::Mapping)),
            LOST => found.extend(long(record, 16).map(Record::Lost)),
            _ => {}
        }
        rest = further;
    }
    found
}

fn mapping(record: &[u8]) -> Option<Mapping> {
    let behind = record.len().checked_sub(BEHIND_NAME)?;
    let name = record.get(BEFORE_NAME..behind)?;
    let path = name.split(|byte| *byte == 0).next()?.to_vec();
    Some(Mapping { pid: word(record, 8)?, at: long(record, behind)?, inode: long(record, 48)?, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that records are taken apart, also where one is cut off or lies.
    #[test]
    fn parts() {
        let mut record: Vec<u8> = [MMAP2.to_ne_bytes(), [0, 0, 88, 0], 7_u32.to_ne_bytes()].concat();
        record.resize(48, 1);
        record.extend(99_u64.to_ne_bytes());
        record.resize(72, 0);
        record.extend(b"/a\0\0\0\0\0\0");
        record.extend(5_u64.to_ne_bytes());
        let expected = Record::Mapping(Mapping { pid: 7, at: 5, inode: 99, path: b"/a".to_vec() });
        let lost = [&LOST.to_ne_bytes()[..], &[0, 0, 24, 0], &[0; 8], &3_u64.to_ne_bytes()].concat();
        assert_eq!(records(&[&lost[..], &record, &record[..80]].concat()), [Record::Lost(3), expected]);
        for lie in [&[0; 8][..], &[10, 0, 0, 0, 0, 0, 8, 0], &[10, 0, 0, 0, 0, 0, 255, 255]] {
            assert_eq!(records(lie), []);
        }
        assert_eq!(cpus("0-2,8\n"), [0, 1, 2, 8]);
        assert!(cpus("").is_empty());
    }
}
