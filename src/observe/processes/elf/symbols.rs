//! Addresses of the two names, from the table of exported names (by hash, as
//! the dynamic linker finds them) and from the full symbol table.

use super::layout::{Header, PT_DYNAMIC, PT_LOAD, Segment, Source, number};
use super::{NAMES, TABLE_LIMIT};

type Found = [Option<u64>; NAMES.len()];
/// Offset and size of a table.
type Part = (u64, u64);

const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
/// Entries of the dynamic section, and of one chain of a hash table, that are
/// looked at: real ones have some thirty and ten.
const ENTRIES: u64 = 1024;
const CHAIN: u32 = 512;
const ENDLESS: &str = "an ELF file whose table of names has a chain of more than 512";

const SHT_SYMTAB: u64 = 2;
/// Section headers that are looked at.
const SECTIONS: u64 = 4096;
/// Places of names in a table of strings that are kept.
const PLACES: usize = 256;
/// Bytes of a table that are read at a time: whole symbols of both widths.
const PIECE: usize = 48 << 10;
const TOO_LARGE: &str = "an ELF file with a symbol table of more than 64 MiB";

/// The names that a file exports.
pub(super) fn exported(source: &Source<'_>, header: &Header, segments: &[Segment]) -> Result<Found, String> {
    let Some(table) = Table::find(source, header, segments)? else { return Ok(Found::default()) };
    let mut found = Found::default();
    for (name, place) in NAMES.iter().zip(&mut found) {
        *place = table.look_up(name)?;
    }
    Ok(found)
}

/// What the dynamic linker finds names with.
struct Table<'a> {
    source: &'a Source<'a>,
    width: usize,
    strings: u64,
    symbols: u64,
    gnu: Option<u64>,
    plain: Option<u64>,
}

impl<'a> Table<'a> {
    fn find(source: &'a Source<'a>, header: &Header, segments: &[Segment]) -> Result<Option<Self>, String> {
        let Some(dynamic) = segments.iter().find(|segment| segment.kind == PT_DYNAMIC) else {
            return Ok(None);
        };
        let entry = 2 * header.width;
        let count = (dynamic.size / entry as u64).min(ENTRIES);
        let mut bytes = vec![0; usize::try_from(count).unwrap_or(0) * entry];
        source.read(dynamic.offset, &mut bytes)?;
        let entry = |tag: u64| {
            let mut all = bytes.chunks_exact(entry);
            let found = all.find(|entry| number(entry, 0, header.width) == tag)?;
            place(segments, number(found, header.width, header.width))
        };
        let (Some(strings), Some(symbols)) = (entry(DT_STRTAB), entry(DT_SYMTAB)) else {
            return Ok(None);
        };
        let (gnu, plain) = (entry(DT_GNU_HASH), entry(DT_HASH));
        Ok(Some(Self { source, width: header.width, strings, symbols, gnu, plain }))
    }

    fn look_up(&self, name: &[u8]) -> Result<Option<u64>, String> {
        match (self.gnu, self.plain) {
            (Some(table), _) => self.by_gnu_hash(table, name),
            (None, Some(table)) => self.by_hash(table, name),
            (None, None) => Ok(None),
        }
    }

    /// Four words, the filter, the buckets, and for each symbol from the first
    /// hashed one on its hash, whose lowest bit ends a chain.
    fn by_gnu_hash(&self, table: u64, name: &[u8]) -> Result<Option<u64>, String> {
        let [buckets, first, filter, _] = self.words::<4>(table)?;
        if buckets == 0 {
            return Ok(None);
        }
        let hash =
            name.iter().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add((*byte).into()));
        let heads = table.wrapping_add(16).wrapping_add(u64::from(filter) * self.width as u64);
        let [head] = self.words::<1>(heads.wrapping_add(u64::from(hash % buckets) * 4))?;
        let hashes = heads.wrapping_add(u64::from(buckets) * 4);
        for index in (head..=u32::MAX).take_while(|index| *index >= first && head != 0).take(CHAIN as usize) {
            let [other] = self.words::<1>(hashes.wrapping_add(u64::from(index - first) * 4))?;
            if other | 1 == hash | 1
                && let Some(value) = self.value(index, name)?
            {
                return Ok(Some(value));
            }
            if other & 1 == 1 {
                return Ok(None);
            }
        }
        if head < first || head == 0 { Ok(None) } else { Err(ENDLESS.to_owned()) }
    }

    /// Two words, the buckets, and for each symbol the next one of its chain.
    fn by_hash(&self, table: u64, name: &[u8]) -> Result<Option<u64>, String> {
        let [buckets, _] = self.words::<2>(table)?;
        if buckets == 0 {
            return Ok(None);
        }
        let hash = name.iter().fold(0_u32, |hash, byte| {
            let hash = (hash << 4).wrapping_add((*byte).into());
            (hash ^ (hash >> 24 & 0xf0)) & 0x0fff_ffff
        });
        let chains = table.wrapping_add(8).wrapping_add(u64::from(buckets) * 4);
        let [mut index] = self.words::<1>(table.wrapping_add(8 + u64::from(hash % buckets) * 4))?;
        for _ in 0..CHAIN {
            if index == 0 {
                return Ok(None);
            }
            if let Some(value) = self.value(index, name)? {
                return Ok(Some(value));
            }
            [index] = self.words::<1>(chains.wrapping_add(u64::from(index) * 4))?;
        }
        Err(ENDLESS.to_owned())
    }

    /// The value of a symbol if it has this name and is data.
    fn value(&self, index: u32, name: &[u8]) -> Result<Option<u64>, String> {
        let mut bytes = [0; 24];
        let symbol = bytes.get_mut(..Symbol::size(self.width)).unwrap_or_default();
        let place = u64::from(index) * symbol.len() as u64;
        self.source.read(self.symbols.wrapping_add(place), symbol)?;
        let symbol = Symbol::parse(symbol, self.width);
        let mut text = [0; 16];
        let text = text.get_mut(..=name.len()).unwrap_or_default();
        self.source.read(self.strings.wrapping_add(symbol.name), text)?;
        let is_it = symbol.is_data && text.strip_suffix(b"\0") == Some(name);
        Ok(is_it.then_some(symbol.value))
    }

    fn words<const N: usize>(&self, offset: u64) -> Result<[u32; N], String> {
        let mut words = [0; N];
        for (index, word) in words.iter_mut().enumerate() {
            *word = u32::from_ne_bytes(self.source.array(offset.wrapping_add(index as u64 * 4))?);
        }
        Ok(words)
    }
}

/// Where in the file the byte is that has this address.
fn place(segments: &[Segment], address: u64) -> Option<u64> {
    let mut loaded = segments.iter().filter(|segment| segment.kind == PT_LOAD);
    loaded.find_map(|segment| {
        let inside = address.checked_sub(segment.address).filter(|inside| *inside < segment.size)?;
        segment.offset.checked_add(inside)
    })
}

/// A symbol.
struct Symbol {
    name: u64,
    value: u64,
    /// Whether it is defined, and may be a variable.
    is_data: bool,
}

impl Symbol {
    fn size(width: usize) -> usize {
        if width == 8 { 24 } else { 16 }
    }

    fn parse(bytes: &[u8], width: usize) -> Self {
        let (kind, section, value) = if width == 8 { (4, 6, 8) } else { (12, 14, 4) };
        // STT_NOTYPE and STT_OBJECT; SHN_UNDEF is section 0.
        let is_variable = bytes.get(kind).is_some_and(|info| info & 0xf <= 1);
        Self {
            name: number(bytes, 0, 4),
            value: number(bytes, value, width),
            is_data: is_variable && number(bytes, section, 2) != 0,
        }
    }
}

/// The names in the full symbol table; `None` if there is none.
pub(super) fn own(source: &Source<'_>, header: &Header) -> Result<Option<Found>, String> {
    let Some((symbols, strings)) = tables(source, header)? else { return Ok(None) };
    let places = places(source, strings)?;
    let mut found = Found::default();
    pieces(source, symbols, 0, |_, piece| {
        for symbol in piece.chunks_exact(Symbol::size(header.width)) {
            let symbol = Symbol::parse(symbol, header.width);
            let which = places.iter().find(|(place, _)| *place == symbol.name && symbol.is_data);
            if let Some(slot) = which.and_then(|(_, name)| found.get_mut(*name)) {
                *slot = Some(symbol.value);
            }
        }
    })?;
    Ok(Some(found))
}

/// Offset and size of the symbol table, and of the strings that belong to it.
fn tables(source: &Source<'_>, header: &Header) -> Result<Option<(Part, Part)>, String> {
    let long = header.width == 8;
    if header.sections == 0 || header.section_size < if long { 64 } else { 40 } {
        return Ok(None);
    }
    let section = |index: u64| {
        let mut bytes = [0; 64];
        let bytes = bytes.get_mut(..if long { 64 } else { 40 }).unwrap_or_default();
        source.read(header.sections.wrapping_add(index * header.section_size), bytes)?;
        let offset = number(bytes, if long { 24 } else { 16 }, header.width);
        let size = number(bytes, if long { 32 } else { 20 }, header.width);
        let link = number(bytes, if long { 40 } else { 24 }, 4);
        Ok::<_, String>((number(bytes, 4, 4), (offset, size), link))
    };
    for index in 0..header.section_count.min(SECTIONS) {
        let (kind, symbols, link) = section(index)?;
        if kind == SHT_SYMTAB {
            return Ok(Some((symbols, section(link)?.1)));
        }
    }
    Ok(None)
}

/// Where the names are in a table of strings, each with its number. One may be
/// the end of a longer string.
fn places(source: &Source<'_>, strings: (u64, u64)) -> Result<Vec<(u64, usize)>, String> {
    const LONGEST: usize = NAMES[0].len() + 1;
    let mut places = Vec::new();
    pieces(source, strings, LONGEST, |start, piece| {
        let ends = piece.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at);
        for end in ends.filter(|end| *end > 0) {
            let text = piece.get(..end).unwrap_or_default();
            for (index, name) in NAMES.iter().enumerate().filter(|(_, name)| text.ends_with(name)) {
                let place = (start + (end - name.len()) as u64, index);
                if places.len() < PLACES && !places.contains(&place) {
                    places.push(place);
                }
            }
        }
    })?;
    Ok(places)
}

/// Reads a table piece by piece, each with the last `again` bytes of the one
/// before. `visit` is given where in the table a piece begins.
fn pieces(
    source: &Source<'_>,
    (offset, size): (u64, u64),
    again: usize,
    mut visit: impl FnMut(u64, &[u8]),
) -> Result<(), String> {
    if size > TABLE_LIMIT {
        return Err(TOO_LARGE.to_owned());
    }
    let mut piece = vec![0; PIECE];
    let mut start = 0;
    while start < size {
        let length = usize::try_from(size - start).unwrap_or(PIECE).min(PIECE);
        let piece = piece.get_mut(..length).unwrap_or_default();
        source.read(offset.wrapping_add(start), piece)?;
        visit(start, piece);
        let step = if length == PIECE { PIECE - again } else { length };
        start += step as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::observe::processes::elf;

    /// Make sure that the C library's names are found as the dynamic linker
    /// finds them, and others not.
    #[test]
    fn library() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let library = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
        let Some(library) = library.into_iter().find(|path| path.ends_with("libc.so.6")) else {
            return println!("skipped: not linked with glibc");
        };
        let file = File::open(library).unwrap();
        let image = elf::read(&file, elf::Role::Library).unwrap();
        assert!(image.exported[0].is_some() && image.exported[0] == image.exported[1], "{image:?}");
        let source = Source::new(&file);
        let header = Header::read(&source).unwrap();
        let segments = header.segments(&source).unwrap();
        let table = Table::find(&source, &header, &segments).unwrap().unwrap();
        assert_eq!(table.look_up(b"environ_").unwrap(), None);
        // A function is no variable.
        assert_eq!(table.look_up(b"getenv").unwrap(), None);
        if let Some(plain) = table.plain {
            assert_eq!(table.by_hash(plain, b"environ").unwrap(), image.exported[1]);
        }
    }
}
