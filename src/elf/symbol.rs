//! Entries of symbol tables.

use object::elf;
use object::endian::NativeEndian;
use object::read::elf::Sym;

/// What a symbol may stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolKind {
    /// A function that is defined in a section of the file. One that is chosen
    /// at run time (`IFUNC`) is not meant: its address is that of the function
    /// that chooses.
    Function,
    /// A variable that the file defines, also one without a type.
    Variable,
}

/// A symbol that a file defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its address before relocation.
    pub address: u64,
    /// Its size in bytes; 0 if the file does not say it.
    pub size: u64,
    /// Whether other files do not see it.
    pub(super) local: bool,
}

/// A symbol of this kind, with the offset of its name in the table of names.
pub(super) fn parse<S>(symbol: &S, kind: SymbolKind) -> Option<(Symbol, u64)>
where
    S: Sym<Endian = NativeEndian>,
{
    let section = symbol.st_shndx(NativeEndian);
    let (symbol_type, is_defined) = (symbol.st_type(), section != elf::SHN_UNDEF);
    let is_in_section = is_defined && section != elf::SHN_ABS && section != elf::SHN_COMMON;
    let is_wanted = match kind {
        SymbolKind::Function => symbol_type == elf::STT_FUNC && is_in_section,
        SymbolKind::Variable => matches!(symbol_type, elf::STT_NOTYPE | elf::STT_OBJECT) && is_defined,
    };
    let found = Symbol {
        address: symbol.st_value(NativeEndian).into(),
        size: symbol.st_size(NativeEndian).into(),
        local: symbol.st_bind() == elf::STB_LOCAL,
    };
    is_wanted.then(|| (found, u64::from(symbol.st_name(NativeEndian))))
}
