//! What an executable or a library says about the environ array: read from the
//! file, never from memory that a process can write.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::elf::{Class, ElfError, ElfFile, Symbol, SymbolKind};
use crate::sys::retry::again;

/// The array as the C library itself calls it, and as programs do. Where an
/// executable defines only the second, that is a variable of its own.
const NAMES: [&str; 2] = ["__environ", "environ"];

/// What an ELF file says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::observe) struct Image {
    /// Bytes of a pointer.
    pub(super) width: usize,
    /// Address of the program headers before relocation.
    pub(super) headers: Option<u64>,
    /// Whether it asks for a dynamic linker.
    pub(super) interpreter: bool,
    /// Offset and address of executable segments.
    pub(super) code: Vec<(u64, u64)>,
    /// Addresses, before relocation, of the names that it exports.
    pub(super) exported: [Option<u64>; NAMES.len()],
    /// The same from its full symbol table, if it has one; looked at in a program
    /// without interpreter alone.
    pub(super) own: Option<[Option<u64>; NAMES.len()]>,
}

/// What a file is to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::observe) enum Role {
    /// What it executes.
    Program,
    /// What it maps: only exported names are of interest.
    Library,
}

/// Reads a file.
///
/// # Errors
///
/// No ELF file, one that is malformed, one of another byte order, one whose
/// tables are too large, or one that takes too long.
pub(in crate::observe) fn read(file: &File, role: Role) -> Result<Image, ElfError> {
    let mut elf = ElfFile::open(|buffer: &mut [u8], offset| again(|| file.read_exact_at(buffer, offset)))?;
    let interpreter = elf.has_interpreter();
    let exported = addresses(&elf.exported(&NAMES, SymbolKind::Variable)?);
    let own = if role == Role::Program && !interpreter {
        elf.symbols(&NAMES, SymbolKind::Variable)?.as_deref().map(addresses)
    } else {
        None
    };
    let code = elf.segments().iter().filter(|segment| segment.executable);
    Ok(Image {
        width: if elf.class() == Class::Elf64 { 8 } else { 4 },
        headers: elf.program_headers(),
        interpreter,
        code: code.map(|segment| (segment.offset, segment.address)).collect(),
        exported,
        own,
    })
}

fn addresses(symbols: &[Option<Symbol>]) -> [Option<u64>; NAMES.len()] {
    std::array::from_fn(|index| symbols.get(index).copied().flatten().map(|symbol| symbol.address))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that what a program says of itself is read, and its symbols only
    /// where nobody else can have the array.
    #[test]
    fn own_executable() {
        let file = File::open("/proc/self/exe").unwrap();
        let image = read(&file, Role::Program).unwrap();
        assert!(image.width == size_of::<usize>() && !image.code.is_empty() && image.headers.is_some());
        assert!(image.own.is_none() == image.interpreter);
        assert!(read(&File::open("/proc/self/cmdline").unwrap(), Role::Library).is_err());
    }
}
