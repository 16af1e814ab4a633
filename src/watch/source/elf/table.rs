//! The full symbol table, which static executables have: streamed, in constant
//! memory. Names are found first, as offsets in the string table, then the
//! symbols that have one of these offsets.

use super::Reason;
use super::fields::{half, long, word};
use super::header::Header;
use super::reader::Reader;

/// Size of `Elf64_Sym` and of `Elf64_Shdr`.
pub(super) const SYMBOL: usize = 24;
const SECTION: usize = 64;
/// Bytes that are looked at at a time; a multiple of [`SYMBOL`].
const PIECE: usize = 96 << 10;
/// Places at which one name may stand. Linkers let a name begin inside of a
/// longer one with the same end, so there are some.
const PLACES: usize = 256;

const SHT_SYMTAB: u32 = 2;
const STT_FUNC: u8 = 2;
const STB_LOCAL: u8 = 0;
const SHN_UNDEF: u16 = 0;
const SHN_ABS: u16 = 0xfff1;
const SHN_COMMON: u16 = 0xfff2;

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    /// Its address before relocation.
    pub(super) address: u64,
    /// Its size in bytes; 0 if that is not said.
    pub(super) size: u64,
    local: bool,
}

impl Symbol {
    /// A symbol and the offset of its name, if it is a function that is defined
    /// in a section of the file. One that is chosen at run time (`IFUNC`) is
    /// none: its address is that of the function that chooses.
    pub(super) fn function(bytes: &[u8]) -> Option<(Self, u32)> {
        let (info, section) = (bytes.get(4)?, half(bytes, 6));
        let defined = !matches!(section, SHN_UNDEF | SHN_ABS | SHN_COMMON);
        let local = info >> 4 == STB_LOCAL;
        let symbol = Self { address: long(bytes, 8), size: long(bytes, 16), local };
        (info & 0xf == STT_FUNC && defined).then(|| (symbol, word(bytes, 0)))
    }
}

/// A part of the file.
#[derive(Clone, Copy, Debug)]
struct Part {
    offset: u64,
    size: u64,
}

/// The functions of these names. One that other files see goes before one that
/// they do not.
pub(super) fn symbols<'n>(
    reader: &mut Reader,
    header: &Header,
    names: &[&'n str],
) -> Result<Vec<(&'n str, Symbol)>, Reason> {
    let Some((table, strings)) = find(reader, header)? else { return Ok(Vec::new()) };
    let places = places(reader, strings, names)?;
    let mut found: Vec<(&str, Symbol)> = Vec::new();
    if places.is_empty() {
        return Ok(found);
    }
    pieces(reader, table, 0, |_, piece| {
        for (symbol, start) in piece.chunks_exact(SYMBOL).filter_map(Symbol::function) {
            let Some((_, name)) = places.iter().find(|(place, _)| *place == u64::from(start)) else {
                continue;
            };
            match found.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) if known.local && !symbol.local => *known = symbol,
                Some(_) => {}
                None => found.push((name, symbol)),
            }
        }
        Ok(())
    })?;
    Ok(found)
}

/// The first full symbol table, and the strings that belong to it.
fn find(reader: &mut Reader, header: &Header) -> Result<Option<(Part, Part)>, Reason> {
    let (offset, count) = header.sections;
    let mut section = |index: u32| {
        let place = offset.saturating_add(u64::from(index) * SECTION as u64);
        reader.array::<SECTION>(place)
    };
    for index in 0..u32::from(count) {
        let bytes = section(index)?;
        if word(&bytes, 4) != SHT_SYMTAB {
            continue;
        }
        let strings = word(&bytes, 40);
        if long(&bytes, 56) != SYMBOL as u64 || strings >= u32::from(count) {
            return Err("a malformed ELF file (its symbol table)".to_owned());
        }
        return Ok(Some((part(&bytes), part(&section(strings)?))));
    }
    Ok(None)
}

fn part(section: &[u8]) -> Part {
    Part { offset: long(section, 24), size: long(section, 32) }
}

/// Where each name stands in the string table.
fn places<'n>(reader: &mut Reader, strings: Part, names: &[&'n str]) -> Result<Vec<(u64, &'n str)>, Reason> {
    let longest = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut found: Vec<(u64, &str)> = Vec::new();
    pieces(reader, strings, longest, |start, piece| {
        // The end of a text that is not empty: zeros cost nothing.
        let ends = piece.windows(2).enumerate().filter(|(_, pair)| matches!(pair, [1..=255, 0]));
        for end in ends.map(|(at, _)| at + 1) {
            let text = piece.get(..end).unwrap_or_default();
            let ending = names.iter().filter(|name| text.ends_with(name.as_bytes()));
            found.extend(ending.map(|name| (start + (end - name.len()) as u64, *name)));
        }
        // A name in the part that two pieces have was found twice.
        found.sort_unstable();
        found.dedup();
        if found.len() > PLACES * names.len() {
            return Err("a malformed ELF file (a name stands in it too often)".to_owned());
        }
        Ok(())
    })?;
    Ok(found)
}

/// Looks at a part piece by piece: where each begins in the part, and its
/// bytes. Each begins with `overlap` bytes of the one before.
fn pieces(
    reader: &mut Reader,
    part: Part,
    overlap: usize,
    mut look: impl FnMut(u64, &[u8]) -> Result<(), Reason>,
) -> Result<(), Reason> {
    let mut buffer = vec![0; PIECE];
    let mut at = 0;
    while at < part.size {
        let length = (part.size - at).min(PIECE as u64);
        let piece = usize::try_from(length).ok().and_then(|length| buffer.get_mut(..length));
        let piece = piece.unwrap_or_default();
        reader.into(part.offset.saturating_add(at), piece)?;
        look(at, piece)?;
        if at + length == part.size {
            break;
        }
        at += length - overlap as u64;
    }
    Ok(())
}
