//! The parts of an ELF file, in both widths, as `linux/elf.h` lays them out.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

pub(super) const PT_LOAD: u32 = 1;
pub(super) const PT_DYNAMIC: u32 = 2;
pub(super) const PT_INTERP: u32 = 3;
pub(super) const PT_PHDR: u32 = 6;
/// `PF_X`: a segment is executable.
const EXECUTABLE: u32 = 1;

/// Bytes that may be read of one file, and how long that may take.
const BYTES: u64 = 128 << 20;
const TIME: Duration = Duration::from_secs(1);
/// Segments that are looked at: real files have about twelve.
const SEGMENTS: u64 = 512;

const CUT: &str = "a malformed ELF file (it ends too early)";

/// A file, and how much and how long may still be read of it.
pub(super) struct Source<'a> {
    file: &'a File,
    left: Cell<u64>,
    begun: Instant,
}

impl<'a> Source<'a> {
    pub(super) fn new(file: &'a File) -> Self {
        Self { file, left: Cell::new(BYTES), begun: Instant::now() }
    }

    /// Fills `buffer` from `offset`.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), String> {
        let left = self.left.get().checked_sub(buffer.len() as u64);
        self.left.set(left.ok_or("an ELF file with tables that are too large")?);
        if self.begun.elapsed() > TIME {
            return Err("an ELF file that takes too long to read".to_owned());
        }
        self.file.read_exact_at(buffer, offset).map_err(|_| CUT.to_owned())
    }

    /// `N` bytes at `offset`.
    pub(super) fn array<const N: usize>(&self, offset: u64) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        self.read(offset, &mut bytes).map(|()| bytes)
    }
}

/// A number of 2, 4 or 8 bytes in this machine's byte order; 0 where there is
/// none.
pub(super) fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let bytes = at.checked_add(size).and_then(|end| bytes.get(at..end)).unwrap_or_default();
    match size {
        2 => bytes.try_into().map_or(0, |bytes| u16::from_ne_bytes(bytes).into()),
        4 => bytes.try_into().map_or(0, |bytes| u32::from_ne_bytes(bytes).into()),
        _ => bytes.try_into().map_or(0, u64::from_ne_bytes),
    }
}

/// The file's header.
pub(super) struct Header {
    /// Bytes of a pointer.
    pub(super) width: usize,
    /// Where the program headers are in the file.
    pub(super) segments: u64,
    segment_count: u64,
    segment_size: u64,
    /// Where the section headers are, how many, and how large each is.
    pub(super) sections: u64,
    pub(super) section_count: u64,
    pub(super) section_size: u64,
}

/// A program header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) kind: u32,
    pub(super) executable: bool,
    pub(super) offset: u64,
    pub(super) address: u64,
    /// Bytes in the file.
    pub(super) size: u64,
}

impl Header {
    pub(super) fn read(source: &Source<'_>) -> Result<Self, String> {
        let ident = source.array::<16>(0).map_err(|_| "no ELF file")?;
        let width = match ident.strip_prefix(b"\x7fELF") {
            Some([1, ..]) => 4,
            Some([2, ..]) => 8,
            _ => return Err("no ELF file".to_owned()),
        };
        let order = if cfg!(target_endian = "little") { 1 } else { 2 };
        if ident.get(5) != Some(&order) {
            return Err("an ELF file of another byte order".to_owned());
        }
        let mut bytes = [0; 64];
        source.read(0, bytes.get_mut(..if width == 8 { 64 } else { 52 }).unwrap_or_default())?;
        let long = width == 8;
        let at = |long_at, short_at| if long { long_at } else { short_at };
        Ok(Self {
            width,
            segments: number(&bytes, at(32, 28), width),
            segment_size: number(&bytes, at(54, 42), 2),
            segment_count: number(&bytes, at(56, 44), 2),
            sections: number(&bytes, at(40, 32), width),
            section_size: number(&bytes, at(58, 46), 2),
            section_count: number(&bytes, at(60, 48), 2),
        })
    }

    /// The program headers.
    pub(super) fn segments(&self, source: &Source<'_>) -> Result<Vec<Segment>, String> {
        let long = self.width == 8;
        let least = if long { 56 } else { 32 };
        if self.segment_count > SEGMENTS || (self.segment_count > 0 && self.segment_size < least) {
            return Err("a malformed ELF file (its program headers)".to_owned());
        }
        let mut bytes = vec![0; usize::try_from(self.segment_count * self.segment_size).unwrap_or(0)];
        source.read(self.segments, &mut bytes)?;
        let size = usize::try_from(self.segment_size.max(1)).unwrap_or(1);
        let segment = |bytes: &[u8]| Segment {
            kind: number(bytes, 0, 4) as u32,
            executable: number(bytes, if long { 4 } else { 24 }, 4) as u32 & EXECUTABLE != 0,
            offset: number(bytes, if long { 8 } else { 4 }, self.width),
            address: number(bytes, if long { 16 } else { 8 }, self.width),
            size: number(bytes, if long { 32 } else { 16 }, self.width),
        };
        Ok(bytes.chunks_exact(size).map(segment).collect())
    }
}
