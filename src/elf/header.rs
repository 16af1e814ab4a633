//! The header of an ELF file and its program headers.

use std::io;

use object::elf;
use object::endian::NativeEndian;
use object::read::elf::{FileHeader, ProgramHeader as _};

use super::reader::ElfReader;
use super::{Elf32, Elf64, ElfError};

/// Program headers that are looked at; real files have some 15.
const SEGMENTS: u16 = 512;
/// `e_machine` of this machine.
const MACHINE: elf::Machine = if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };
/// `EI_DATA` of this machine's byte order.
const ORDER: elf::DataEncoding =
    if cfg!(target_endian = "big") { elf::ELFDATA2MSB } else { elf::ELFDATA2LSB };

/// Whether pointers have 32 or 64 bits (`EI_CLASS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// 32 bits.
    Elf32,
    /// 64 bits.
    Elf64,
}

/// A part of the file that is loaded into memory (`PT_LOAD`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// Its address before relocation.
    pub address: u64,
    /// Bytes that it has in the file.
    pub size: u64,
    /// Whether it is executable.
    pub executable: bool,
}

impl Segment {
    /// Where the byte of this address is in the file, if it is in this segment.
    pub(super) fn place(&self, address: u64) -> Option<u64> {
        let inside = address.checked_sub(self.address).filter(|inside| *inside < self.size)?;
        self.offset.checked_add(inside)
    }

    /// Bytes of the segment in the file from this place on.
    pub(super) fn rest(&self, place: u64) -> u64 {
        self.offset.saturating_add(self.size).saturating_sub(place)
    }
}

/// Where something is in the file, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileRange {
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// What the header and the program headers say.
#[derive(Clone, Debug)]
pub(super) struct ElfHeader {
    pub(super) class: Class,
    kind: elf::FileType,
    machine: elf::Machine,
    /// The parts that are loaded.
    pub(super) segments: Vec<Segment>,
    /// The dynamic section.
    pub(super) dynamic: Option<FileRange>,
    /// Parts with notes.
    pub(super) notes: Vec<FileRange>,
    pub(super) interpreter: bool,
    /// Where the section headers are, and how many.
    pub(super) sections: (u64, u16),
    /// Where the program headers are in the file, and the address that the file
    /// itself says they have (`PT_PHDR`).
    headers: (u64, Option<u64>),
}

impl ElfHeader {
    /// Reads them.
    pub(super) fn read<R>(reader: &mut ElfReader<R>) -> Result<Self, ElfError>
    where
        R: FnMut(&mut [u8], u64) -> io::Result<()>,
    {
        let mut ident = [0; size_of::<elf::Ident>()];
        reader.fill(&mut ident, 0).map_err(|error| match error {
            ElfError::Malformed(_) => ElfError::NotElf,
            error => error,
        })?;
        let [m0, m1, m2, m3, class, order, ..] = ident;
        if [m0, m1, m2, m3] != elf::ELFMAG {
            return Err(ElfError::NotElf);
        }
        if order != ORDER.0 {
            return Err(ElfError::ByteOrder);
        }
        match elf::FileClass(class) {
            elf::ELFCLASS32 => Self::of::<Elf32, R>(reader, Class::Elf32),
            elf::ELFCLASS64 => Self::of::<Elf64, R>(reader, Class::Elf64),
            _ => Err(ElfError::NotElf),
        }
    }

    fn of<E, R>(reader: &mut ElfReader<R>, class: Class) -> Result<Self, ElfError>
    where
        E: FileHeader<Endian = NativeEndian>,
        R: FnMut(&mut [u8], u64) -> io::Result<()>,
    {
        let file: E = reader.structure(0)?;
        let (count, size) = (file.e_phnum(NativeEndian), file.e_phentsize(NativeEndian));
        if count > SEGMENTS || (count > 0 && usize::from(size) != size_of::<E::ProgramHeader>()) {
            return Err(ElfError::Malformed("its program headers"));
        }
        let headers = file.e_phoff(NativeEndian).into();
        let mut header = Self {
            class,
            kind: file.e_type(NativeEndian),
            machine: file.e_machine(NativeEndian),
            segments: Vec::new(),
            dynamic: None,
            notes: Vec::new(),
            interpreter: false,
            sections: sections(&file),
            headers: (headers, None),
        };
        for index in 0..u64::from(count) {
            let place = headers.saturating_add(index * u64::from(size));
            header.take::<E>(&reader.structure(place)?);
        }
        Ok(header)
    }

    fn take<E: FileHeader<Endian = NativeEndian>>(&mut self, found: &E::ProgramHeader) {
        let (offset, size) = (found.p_offset(NativeEndian).into(), found.p_filesz(NativeEndian).into());
        let address = found.p_vaddr(NativeEndian).into();
        match found.p_type(NativeEndian) {
            elf::PT_LOAD => {
                let executable = found.p_flags(NativeEndian).0 & elf::PF_X.0 != 0;
                self.segments.push(Segment { offset, address, size, executable });
            }
            elf::PT_DYNAMIC => self.dynamic = Some(FileRange { offset, size }),
            elf::PT_NOTE => self.notes.push(FileRange { offset, size }),
            elf::PT_INTERP => self.interpreter = true,
            elf::PT_PHDR => self.headers.1 = Some(address),
            _ => {}
        }
    }

    /// Where the byte of this address is in the file.
    pub(super) fn place(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| segment.place(address))
    }

    /// As [`super::ElfFile::program_headers`].
    pub(super) fn program_headers(&self) -> Option<u64> {
        let (offset, said) = self.headers;
        let loaded = |segment: &Segment| {
            let inside = offset.checked_sub(segment.offset).filter(|inside| *inside < segment.size)?;
            Some(segment.address.wrapping_add(inside))
        };
        said.or_else(|| self.segments.iter().find_map(loaded))
    }

    /// As [`super::ElfFile::check_native`].
    pub(super) fn check_native(&self) -> Result<(), ElfError> {
        if self.class != Class::Elf64 || self.machine != MACHINE {
            return Err(ElfError::Architecture);
        }
        match self.kind {
            elf::ET_EXEC | elf::ET_DYN => Ok(()),
            _ => Err(ElfError::NotLoadable),
        }
    }
}

/// Where the section headers are, and how many; none if they have another size
/// than they should.
fn sections<E: FileHeader<Endian = NativeEndian>>(file: &E) -> (u64, u16) {
    let offset = file.e_shoff(NativeEndian).into();
    let is_usual = usize::from(file.e_shentsize(NativeEndian)) == size_of::<E::SectionHeader>();
    if offset > 0 && is_usual { (offset, file.e_shnum(NativeEndian)) } else { (0, 0) }
}

/// Notes that are looked at; real files have some five.
const NOTES: usize = 256;
/// Bytes of the longest build id; usual ones have 20 (SHA-1) or 16.
const LONGEST: u32 = 64;
const NAME: &[u8; 4] = b"GNU\0";

/// As [`super::ElfFile::build_id`].
pub(super) fn read<R>(reader: &mut ElfReader<R>, header: &ElfHeader) -> Result<Option<Vec<u8>>, ElfError>
where
    R: FnMut(&mut [u8], u64) -> io::Result<()>,
{
    let mut left = NOTES;
    for part in &header.notes {
        if let Some(found) = in_part(reader, *part, &mut left)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Looks at the notes of one part: each has a header, a name, and its contents.
/// Both are padded to 4 bytes, except where a note of 8 is aligned; the name
/// `GNU` and its header need no padding in either.
fn in_part<R>(
    reader: &mut ElfReader<R>,
    part: FileRange,
    left: &mut usize,
) -> Result<Option<Vec<u8>>, ElfError>
where
    R: FnMut(&mut [u8], u64) -> io::Result<()>,
{
    const HEADER: u64 = size_of::<elf::NoteHeader32<NativeEndian>>() as u64;
    let mut at = 0_u64;
    while at.saturating_add(HEADER) <= part.size && *left > 0 {
        *left -= 1;
        let place = part.offset.saturating_add(at);
        let note: elf::NoteHeader32<NativeEndian> = reader.structure(place)?;
        let [name, contents] = [note.n_namesz, note.n_descsz].map(|size| size.get(NativeEndian));
        let is_it = name as usize == NAME.len() && note.n_type.get(NativeEndian) == elf::NT_GNU_BUILD_ID;
        if is_it && (1..=LONGEST).contains(&contents) {
            let mut found = vec![0; NAME.len() + contents as usize];
            reader.fill(&mut found, place.saturating_add(HEADER))?;
            if found.starts_with(NAME) {
                return Ok(Some(found.split_off(NAME.len())));
            }
        }
        at = at.saturating_add(HEADER + padded(name) + padded(contents));
    }
    Ok(None)
}

fn padded(size: u32) -> u64 {
    u64::from(size).next_multiple_of(4)
}
