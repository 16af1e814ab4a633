//! The full symbol table, read piece by piece in constant memory: first the
//! names, as offsets in the table of names, then the symbols that have one of
//! these offsets.

use std::io;

use object::endian::NativeEndian;
use object::read::elf::{FileHeader, SectionHeader as _, Sym};
use object::{elf, pod};

use super::ElfError;
use super::header::{ElfHeader, FileRange};
use super::reader::ElfReader;

/// Section headers that are looked at; real files have some 40.
const SECTIONS: u16 = 4096;
/// Bytes of the largest table that is read.
const TABLE: u64 = 64 << 20;
/// Bytes that are looked at at a time: whole symbols of both classes.
const PIECE: usize = 96 << 10;
/// Places at which one name may stand. Linkers let a name begin inside of a
/// longer one with the same end, so there may be some.
const PLACES: usize = 256;

/// As [`super::ElfFile::symbols`].
pub(super) fn symbols<E, R>(
    reader: &mut ElfReader<R>,
    header: &ElfHeader,
    names: &[&str],
    kind: SymbolKind,
) -> Result<Option<Vec<Option<Symbol>>>, ElfError>
where
    E: FileHeader<Endian = NativeEndian>,
    R: FnMut(&mut [u8], u64) -> io::Result<()>,
{
    let Some((table, strings)) = tables::<E, R>(reader, header)? else { return Ok(None) };
    let places = places(reader, strings, names)?;
    let mut found: Vec<Option<Symbol>> = vec![None; names.len()];
    if places.is_empty() {
        return Ok(Some(found));
    }
    pieces(reader, table, 0, |_, piece| {
        let count = piece.len() / size_of::<E::Sym>();
        let symbols = pod::slice_from_bytes::<E::Sym>(piece, count);
        let (symbols, _) = symbols.map_err(|()| ElfError::Malformed("its symbol table"))?;
        for (symbol, start) in symbols.iter().filter_map(|entry| parse(entry, kind)) {
            let Ok(at) = places.binary_search_by_key(&start, |(place, _)| *place) else { continue };
            let slot = places.get(at).and_then(|(_, name)| found.get_mut(*name));
            let Some(slot) = slot else { continue };
            if slot.is_none_or(|known| known.local && !symbol.local) {
                *slot = Some(symbol);
            }
        }
        Ok(())
    })?;
    Ok(Some(found))
}

/// The first full symbol table, and the names that belong to it.
fn tables<E, R>(
    reader: &mut ElfReader<R>,
    header: &ElfHeader,
) -> Result<Option<(FileRange, FileRange)>, ElfError>
where
    E: FileHeader<Endian = NativeEndian>,
    R: FnMut(&mut [u8], u64) -> io::Result<()>,
{
    let (offset, count) = header.sections;
    let mut section = |index: u32| {
        let place = u64::from(index) * size_of::<E::SectionHeader>() as u64;
        reader.structure::<E::SectionHeader>(offset.saturating_add(place))
    };
    for index in 0..u32::from(count.min(SECTIONS)) {
        let table = section(index)?;
        if table.sh_type(NativeEndian) != elf::SHT_SYMTAB {
            continue;
        }
        let (size, names) = (table.sh_entsize(NativeEndian).into(), table.sh_link(NativeEndian));
        if size != size_of::<E::Sym>() as u64 || names >= u32::from(count) {
            return Err(ElfError::Malformed("its symbol table"));
        }
        return Ok(Some((part::<E>(&table), part::<E>(&section(names)?))));
    }
    if count > SECTIONS { Err(ElfError::Malformed("more than 4096 sections")) } else { Ok(None) }
}

fn part<E: FileHeader<Endian = NativeEndian>>(section: &E::SectionHeader) -> FileRange {
    FileRange { offset: section.sh_offset(NativeEndian).into(), size: section.sh_size(NativeEndian).into() }
}

/// Where each name stands in the table of names, with the name's index; sorted.
fn places<R>(
    reader: &mut ElfReader<R>,
    strings: FileRange,
    names: &[&str],
) -> Result<Vec<(u64, usize)>, ElfError>
where
    R: FnMut(&mut [u8], u64) -> io::Result<()>,
{
    let longest = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut found: Vec<(u64, usize)> = Vec::new();
    pieces(reader, strings, longest, |start, piece| {
        // Where a text that is not empty ends: zeros cost nothing.
        let ends = piece.windows(2).enumerate().filter(|(_, pair)| matches!(pair, [1..=255, 0]));
        for end in ends.map(|(at, _)| at + 1) {
            let text = piece.get(..end).unwrap_or_default();
            let ending = names.iter().enumerate().filter(|(_, name)| text.ends_with(name.as_bytes()));
            found.extend(ending.map(|(index, name)| (start + (end - name.len()) as u64, index)));
        }
        // A name in the part that two pieces have was found twice.
        found.sort_unstable();
        found.dedup();
        if found.len() > PLACES * names.len() {
            return Err(ElfError::Malformed("a name stands in it too often"));
        }
        Ok(())
    })?;
    Ok(found)
}

/// Reads a table piece by piece. `visit` is given where in the table a piece
/// begins, and its bytes, of which the first `overlap` ones are the last ones of
/// the piece before.
fn pieces<R>(
    reader: &mut ElfReader<R>,
    table: FileRange,
    overlap: usize,
    mut visit: impl FnMut(u64, &[u8]) -> Result<(), ElfError>,
) -> Result<(), ElfError>
where
    R: FnMut(&mut [u8], u64) -> io::Result<()>,
{
    if table.size > TABLE {
        return Err(ElfError::LargeTable);
    }
    // Words, so that symbols are aligned.
    let mut buffer = vec![0_u64; PIECE / 8];
    let buffer = pod::bytes_of_slice_mut(&mut buffer);
    let mut at = 0;
    while at < table.size {
        let length = (table.size - at).min(PIECE as u64);
        let piece = usize::try_from(length).ok().and_then(|length| buffer.get_mut(..length));
        let piece = piece.unwrap_or_default();
        reader.fill(piece, table.offset.saturating_add(at))?;
        visit(at, piece)?;
        if at + length == table.size {
            break;
        }
        at += length - overlap as u64;
    }
    Ok(())
}

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
