//! Exported symbols, looked up as the dynamic linker does it: by a hash table of
//! their names.

use std::io;

use object::elf;
use object::endian::NativeEndian;
use object::read::elf::{Dyn as _, FileHeader};

use super::ElfError;
use super::header::ElfHeader;
use super::reader::ElfReader;
use super::symbol_table::{self, Symbol, SymbolKind};

/// Entries of the dynamic section that are looked at; real files have some 40.
const ENTRIES: u64 = 1024;
/// Symbols of one bucket that are looked at; no bucket of a real file has 64.
const BUCKET: usize = 1024;
const LONG_BUCKET: ElfError = ElfError::Malformed("more than 1024 names in one bucket of its hash table");

/// Where the tables are in the file.
#[derive(Clone, Copy, Debug, Default)]
struct Tables {
    gnu_hash: Option<u64>,
    hash: Option<u64>,
    symbols: Option<u64>,
    strings: Option<u64>,
}

/// Looks names up.
struct Lookup<'a, R> {
    reader: &'a mut ElfReader<R>,
    /// Offset of the symbols and of their names.
    symbols: u64,
    strings: u64,
    kind: SymbolKind,
}

/// As [`super::ElfFile::exported`].
pub(super) fn exported<E, R>(
    reader: &mut ElfReader<R>,
    header: &ElfHeader,
    names: &[&str],
    kind: SymbolKind,
) -> Result<Vec<Option<Symbol>>, ElfError>
where
    E: FileHeader<Endian = NativeEndian>,
    R: FnMut(&mut [u8], u64) -> io::Result<()>,
{
    let tables = tables::<E, R>(reader, header)?;
    let (Some(symbols), Some(strings)) = (tables.symbols, tables.strings) else {
        return Ok(vec![None; names.len()]);
    };
    let mut lookup = Lookup { reader, symbols, strings, kind };
    let find = |name: &&str| match (tables.gnu_hash, tables.hash) {
        (Some(table), _) => lookup.by_gnu_hash::<E>(table, name.as_bytes()),
        (None, Some(table)) => lookup.by_hash::<E>(table, name.as_bytes()),
        (None, None) => Ok(None),
    };
    names.iter().map(find).collect()
}

/// Reads the dynamic section. Of entries that are there twice the last counts,
/// as it does for the dynamic linker.
fn tables<E, R>(reader: &mut ElfReader<R>, header: &ElfHeader) -> Result<Tables, ElfError>
where
    E: FileHeader<Endian = NativeEndian>,
    R: FnMut(&mut [u8], u64) -> io::Result<()>,
{
    let mut tables = Tables::default();
    let Some(dynamic) = header.dynamic else { return Ok(tables) };
    let size = size_of::<E::Dyn>() as u64;
    for index in 0..(dynamic.size / size).min(ENTRIES) {
        let entry: E::Dyn = reader.structure(dynamic.offset.saturating_add(index * size))?;
        let place = header.place(entry.d_val(NativeEndian).into());
        match entry.d_tag(NativeEndian) {
            elf::DT_NULL => break,
            elf::DT_GNU_HASH => tables.gnu_hash = place,
            elf::DT_HASH => tables.hash = place,
            elf::DT_SYMTAB => tables.symbols = place,
            elf::DT_STRTAB => tables.strings = place,
            _ => {}
        }
    }
    Ok(tables)
}

impl<R: FnMut(&mut [u8], u64) -> io::Result<()>> Lookup<'_, R> {
    /// `DT_GNU_HASH`: a header, the filter, the first symbol of each bucket, and
    /// for each symbol its hash, of which the lowest bit is set at the end of a
    /// bucket.
    fn by_gnu_hash<E>(&mut self, table: u64, name: &[u8]) -> Result<Option<Symbol>, ElfError>
    where
        E: FileHeader<Endian = NativeEndian>,
    {
        let start: elf::GnuHashHeader<NativeEndian> = self.reader.structure(table)?;
        let [buckets, first, filter] = [start.bucket_count, start.symbol_base, start.bloom_count]
            .map(|number| u64::from(number.get(NativeEndian)));
        let hash = elf::gnu_hash(name);
        let Some(bucket) = u64::from(hash).checked_rem(buckets) else { return Ok(None) };
        // A word of the filter is as long as a pointer.
        let filter = filter * size_of::<E::Word>() as u64;
        let places = table.saturating_add(size_of_val(&start) as u64 + filter);
        let hashes = places.saturating_add(buckets * 4);
        let begin = u64::from(self.reader.number(places.saturating_add(bucket * 4))?);
        if begin == 0 || begin < first {
            return Ok(None);
        }
        for index in (begin..).take(BUCKET) {
            let other = self.reader.number(hashes.saturating_add((index - first) * 4))?;
            if other | 1 == hash | 1
                && let Some(symbol) = self.named::<E>(index, name)?
            {
                return Ok(Some(symbol));
            }
            if other & 1 == 1 {
                return Ok(None);
            }
        }
        Err(LONG_BUCKET)
    }

    /// `DT_HASH`: a header, the first symbol of each bucket, and for each symbol
    /// the next one of its bucket.
    fn by_hash<E>(&mut self, table: u64, name: &[u8]) -> Result<Option<Symbol>, ElfError>
    where
        E: FileHeader<Endian = NativeEndian>,
    {
        let start: elf::HashHeader<NativeEndian> = self.reader.structure(table)?;
        let buckets = u64::from(start.bucket_count.get(NativeEndian));
        let Some(bucket) = u64::from(elf::hash(name)).checked_rem(buckets) else { return Ok(None) };
        let places = table.saturating_add(size_of_val(&start) as u64);
        let mut index = self.reader.number(places.saturating_add(bucket * 4))?;
        for _ in 0..BUCKET {
            if index == 0 {
                return Ok(None);
            }
            if let Some(symbol) = self.named::<E>(index.into(), name)? {
                return Ok(Some(symbol));
            }
            index = self.reader.number(places.saturating_add((buckets + u64::from(index)) * 4))?;
        }
        Err(LONG_BUCKET)
    }

    /// A symbol, if it has this name and is of the kind that is looked for.
    fn named<E>(&mut self, index: u64, name: &[u8]) -> Result<Option<Symbol>, ElfError>
    where
        E: FileHeader<Endian = NativeEndian>,
    {
        let place = self.symbols.saturating_add(index * size_of::<E::Sym>() as u64);
        let entry: E::Sym = self.reader.structure(place)?;
        let Some((symbol, start)) = symbol_table::parse(&entry, self.kind) else { return Ok(None) };
        let mut text = vec![0; name.len() + 1];
        self.reader.fill(&mut text, self.strings.saturating_add(start))?;
        Ok((text.strip_suffix(b"\0") == Some(name)).then_some(symbol))
    }
}
