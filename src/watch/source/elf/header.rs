//! The header of an ELF file and its segments.

use super::Reason;
use super::fields::{half, long, word};
use super::reader::Reader;

/// Sizes of `Elf64_Ehdr` and `Elf64_Phdr`.
const HEADER: usize = 64;
const SEGMENT: usize = 56;
/// Segments that are looked at; real files have some 15.
const SEGMENTS: u16 = 128;

/// `e_type`: an executable, and one that may be loaded anywhere.
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
/// `e_machine` of this machine.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
/// `EI_DATA` of this machine's byte order.
const ORDER: u8 = if cfg!(target_endian = "big") { 2 } else { 1 };

/// `p_type` and `p_flags`.
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PF_X: u32 = 1;

/// What matters of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Header {
    /// Parts that are loaded.
    pub(super) segments: Vec<Segment>,
    /// Offset and size of the dynamic section.
    pub(super) dynamic: Option<(u64, u64)>,
    /// Whether it asks for a dynamic linker.
    pub(super) interpreter: bool,
    /// Offset and number of the section headers.
    pub(super) sections: (u64, u16),
}

/// A part that is loaded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    address: u64,
    offset: u64,
    size: u64,
    pub(super) executable: bool,
}

impl Segment {
    /// Where an address is in the file, if it is in this part.
    pub(super) fn offset(&self, address: u64) -> Option<u64> {
        let inside = address.checked_sub(self.address).filter(|inside| *inside < self.size)?;
        self.offset.checked_add(inside)
    }

    /// Where the part ends in the file.
    pub(super) fn file_end(&self) -> u64 {
        self.offset.saturating_add(self.size)
    }
}

impl Header {
    /// Where an address is in the file.
    pub(super) fn offset(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| segment.offset(address))
    }
}

/// Reads the header and the segments.
pub(super) fn read(reader: &mut Reader) -> Result<Header, Reason> {
    let bytes: [u8; HEADER] = reader.array(0).map_err(|_| "no ELF file".to_owned())?;
    if !bytes.starts_with(b"\x7fELF") {
        return Err("no ELF file".to_owned());
    }
    if bytes.get(4..6) != Some(&[2, ORDER]) {
        return Err("no 64-bit ELF file of this machine's byte order".to_owned());
    }
    if half(&bytes, 18) != MACHINE {
        return Err("a file for another architecture".to_owned());
    }
    let count = half(&bytes, 56);
    let strange = half(&bytes, 54) != SEGMENT as u16 || !matches!(half(&bytes, 16), ET_EXEC | ET_DYN);
    if strange || count > SEGMENTS {
        return Err("a malformed ELF file (its program headers)".to_owned());
    }
    let sections = if half(&bytes, 58) == 64 { (long(&bytes, 40), half(&bytes, 60)) } else { (0, 0) };
    let mut header = Header { sections, ..Header::default() };
    for index in 0..u64::from(count) {
        let place = long(&bytes, 32).saturating_add(index * SEGMENT as u64);
        header.take(&reader.array(place)?);
    }
    Ok(header)
}

impl Header {
    fn take(&mut self, bytes: &[u8; SEGMENT]) {
        let (offset, address, size) = (long(bytes, 8), long(bytes, 16), long(bytes, 32));
        match word(bytes, 0) {
            PT_LOAD => {
                let executable = word(bytes, 4) & PF_X != 0;
                self.segments.push(Segment { address, offset, size, executable });
            }
            PT_DYNAMIC => self.dynamic = Some((offset, size)),
            PT_INTERP => self.interpreter = true,
            _ => {}
        }
    }
}
