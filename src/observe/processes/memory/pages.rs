//! Tells which pages of a process are present. `/proc/PID/pagemap` says so without
//! faulting anything in. Bits from Documentation/admin-guide/mm/pagemap.rst and
//! `fs/proc/task_mmu.c`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::unistd::{SysconfVar, sysconf};

use super::fault::Fault;
use crate::observe::problems::errno_of;
use crate::sys::dir::Dir;
use crate::sys::retry::again;

/// Bytes that are looked at with one call, whole pages.
pub(super) const MOST: usize = 256 << 10;
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
pub(super) struct Pages(File);

impl Pages {
    pub(super) fn open(dir: &Dir) -> Result<Self, Errno> {
        let file = dir.open_file(c"pagemap");
        file.map(Self).map_err(|errno| if errno == Errno::ENOENT { Errno::ENOSYS } else { errno })
    }

    /// How many bytes from `address` on, at most `length`, can be read without
    /// blocking on a page; at least one.
    pub(super) fn ready(&self, address: u64, length: usize) -> Result<usize, Fault> {
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
    pub(super) fn is_alive(&self) -> bool {
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
        // Reading by the smallest pages is right everywhere, only slower.
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

#[cfg(test)]
mod tests {
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
}
