//! Reads ELF files: which segments and sections a file has, which symbols it
//! exports, where a function begins in the file and with which bytes, and with which
//! bytes a variable begins.
//!
//! The file may belong to a user and say anything. So no table is read whole:
//! an exported name is looked up in the hash table that the dynamic linker uses,
//! a full symbol table is read piece by piece through one small buffer, and both
//! the bytes read and the time taken have a limit. What contradicts itself is an
//! error.
//!
//! This room makes no system call. The caller gives a function that reads a part
//! of the file, so that each room reads in the way that is safe for it.

#[cfg(any(test, target_arch = "aarch64"))]
mod a64;
mod dynamic;
mod function;
mod header;
mod probe_place;
mod reader;
mod symbol_table;
#[cfg(test)]
mod tests;

use std::io;

use object::elf::{FileHeader32, FileHeader64};
use object::endian::NativeEndian;

use header::ElfHeader;
use reader::ElfReader;

pub use function::{Function, LONGEST_BEGINNING};
pub use header::{Class, Segment};
pub use probe_place::{Cost, ProbePlace, probe_place};
pub use reader::ElfError;
pub use symbol_table::{Symbol, SymbolKind};

/// The layouts of `linux/elf.h` in this machine's byte order.
type Elf32 = FileHeader32<NativeEndian>;
type Elf64 = FileHeader64<NativeEndian>;

/// An ELF file in this machine's byte order, of 32 or 64 bits.
pub struct ElfFile<R> {
    reader: ElfReader<R>,
    header: ElfHeader,
}

impl<R: FnMut(&mut [u8], u64) -> io::Result<()>> ElfFile<R> {
    /// Reads the file's header and its segments. `read` fills a buffer from an
    /// offset in the file; it says [`io::ErrorKind::UnexpectedEof`] where the
    /// file ends before that. All calls together read at most 128 MiB, in a
    /// second.
    ///
    /// # Errors
    ///
    /// No ELF file, one of another byte order, or a malformed one.
    pub fn open(read: R) -> Result<Self, ElfError> {
        let mut reader = ElfReader::new(read);
        let header = ElfHeader::read(&mut reader)?;
        Ok(Self { reader, header })
    }

    /// Whether the file's pointers have 32 or 64 bits.
    pub fn class(&self) -> Class {
        self.header.class
    }

    /// Whether it asks for a dynamic linker (`PT_INTERP`).
    pub fn has_interpreter(&self) -> bool {
        self.header.interpreter
    }

    /// The parts that are loaded into memory (`PT_LOAD`), in the file's order.
    pub fn segments(&self) -> &[Segment] {
        &self.header.segments
    }

    /// The address at which its program headers are loaded, before relocation;
    /// `None` if they are not loaded.
    pub fn program_headers(&self) -> Option<u64> {
        self.header.program_headers()
    }

    /// Checks that the file is code for this machine: an executable or a library
    /// of this processor, with 64 bits.
    ///
    /// # Errors
    ///
    /// What it is instead.
    pub fn check_native(&self) -> Result<(), ElfError> {
        self.header.check_native()
    }

    /// The symbols of this kind that the file exports under these names, in the
    /// order of the names. The work does not depend on how many symbols there are.
    ///
    /// # Errors
    ///
    /// A malformed or unreadable file, or a limit.
    pub fn exported(&mut self, names: &[&str], kind: SymbolKind) -> Result<Vec<Option<Symbol>>, ElfError> {
        match self.header.class {
            Class::Elf32 => dynamic::exported::<Elf32, _>(&mut self.reader, &self.header, names, kind),
            Class::Elf64 => dynamic::exported::<Elf64, _>(&mut self.reader, &self.header, names, kind),
        }
    }

    /// The same from the full symbol table, which files that were not stripped
    /// have; `None` if there is no such table. A symbol that other files see goes
    /// before one of the same name that they do not see.
    ///
    /// # Errors
    ///
    /// A malformed or unreadable file, or a limit: neither the table nor its
    /// names may have more than 64 MiB.
    pub fn symbols(
        &mut self,
        names: &[&str],
        kind: SymbolKind,
    ) -> Result<Option<Vec<Option<Symbol>>>, ElfError> {
        match self.header.class {
            Class::Elf32 => symbol_table::symbols::<Elf32, _>(&mut self.reader, &self.header, names, kind),
            Class::Elf64 => symbol_table::symbols::<Elf64, _>(&mut self.reader, &self.header, names, kind),
        }
    }

    /// Where a function begins in the file, and its first bytes.
    ///
    /// # Errors
    ///
    /// That it is not in executable code or does not begin with instructions;
    /// that the file is malformed or unreadable.
    pub fn function(&mut self, symbol: &Symbol) -> Result<Function, ElfError> {
        function::read(&mut self.reader, &self.header, symbol)
    }

    /// The bytes with which a variable begins, as the file has them: pointers in it are
    /// not relocated.
    ///
    /// # Errors
    ///
    /// That its size is not `N`, or that the file does not have all of it.
    pub fn variable<const N: usize>(&mut self, symbol: &Symbol) -> Result<[u8; N], ElfError> {
        let wrong = ElfError::Malformed("a variable");
        let found = self.header.segments.iter().find_map(|segment| {
            let place = segment.place(symbol.address)?;
            (symbol.size == N as u64 && segment.rest(place) >= symbol.size).then_some(place)
        });
        let mut bytes = [0; N];
        self.reader.fill(&mut bytes, found.ok_or(wrong)?)?;
        Ok(bytes)
    }

    /// The build id that the linker wrote (`NT_GNU_BUILD_ID`); `None` if it wrote
    /// none.
    ///
    /// # Errors
    ///
    /// A malformed or unreadable file.
    pub fn build_id(&mut self) -> Result<Option<Vec<u8>>, ElfError> {
        header::read(&mut self.reader, &self.header)
    }
}
