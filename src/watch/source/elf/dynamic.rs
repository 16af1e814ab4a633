//! Exported functions, looked up as the dynamic linker does it: by the hash
//! table of names. The work does not depend on how many names there are.

use super::Reason;
use super::fields::{long, word};
use super::header::Header;
use super::reader::Reader;
use super::table::{SYMBOL, Symbol};

/// Entries of the dynamic section that are looked at; real files have some 40.
const ENTRIES: u64 = 1024;
/// Names of one bucket that are looked at; in real files no bucket has 64.
const CHAIN: usize = 1024;

/// Tags of the dynamic section.
const DT_NULL: u64 = 0;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;
const DT_GNU_HASH: u64 = 0x6fff_fef5;

/// Where the tables are in the file.
#[derive(Clone, Copy, Debug, Default)]
struct Tables {
    gnu_hash: Option<u64>,
    hash: Option<u64>,
    symbols: Option<u64>,
    strings: Option<u64>,
    strings_size: u64,
}

/// The functions of these names that a file exports; none if it exports
/// nothing.
pub(super) fn symbols<'n>(
    reader: &mut Reader,
    header: &Header,
    names: &[&'n str],
) -> Result<Vec<(&'n str, Symbol)>, Reason> {
    let tables = tables(reader, header)?;
    let mut found = Vec::new();
    for name in names {
        let symbol = match (tables.gnu_hash, tables.hash) {
            (Some(place), _) => by_gnu_hash(reader, &tables, place, name)?,
            (None, Some(place)) => by_hash(reader, &tables, place, name)?,
            (None, None) => None,
        };
        found.extend(symbol.map(|symbol| (*name, symbol)));
    }
    Ok(found)
}

fn tables(reader: &mut Reader, header: &Header) -> Result<Tables, Reason> {
    let mut tables = Tables::default();
    let Some((offset, size)) = header.dynamic else { return Ok(tables) };
    for index in 0..(size / 16).min(ENTRIES) {
        let entry: [u8; 16] = reader.array(offset.saturating_add(index * 16))?;
        let value = long(&entry, 8);
        match long(&entry, 0) {
            DT_NULL => break,
            DT_GNU_HASH => tables.gnu_hash = header.offset(value),
            DT_HASH => tables.hash = header.offset(value),
            DT_SYMTAB => tables.symbols = header.offset(value),
            DT_STRTAB => tables.strings = header.offset(value),
            DT_STRSZ => tables.strings_size = value,
            _ => {}
        }
    }
    Ok(tables)
}

/// `DT_GNU_HASH`: four words (buckets, first symbol, size of the filter, its
/// shift), the filter, the buckets, and for each symbol its hash, of which the
/// lowest bit is set at the end of a bucket.
fn by_gnu_hash(
    reader: &mut Reader,
    tables: &Tables,
    place: u64,
    name: &str,
) -> Result<Option<Symbol>, Reason> {
    let start: [u8; 16] = reader.array(place)?;
    let (buckets, first) = (u64::from(word(&start, 0)), u64::from(word(&start, 4)));
    let hash = gnu_hash(name);
    let Some(bucket) = u64::from(hash).checked_rem(buckets) else { return Ok(None) };
    let places = place.saturating_add(16 + u64::from(word(&start, 8)) * 8);
    let chains = places.saturating_add(buckets * 4);
    let begin = u64::from(number(reader, places.saturating_add(bucket * 4))?);
    if begin < first {
        return Ok(None);
    }
    for index in (begin..).take(CHAIN) {
        let other = number(reader, chains.saturating_add((index - first) * 4))?;
        if other | 1 == hash | 1
            && let Some(symbol) = named(reader, tables, index, name)?
        {
            return Ok(Some(symbol));
        }
        if other & 1 == 1 {
            return Ok(None);
        }
    }
    Err(too_long())
}

/// `DT_HASH`: numbers of buckets and of symbols, the buckets, and for each
/// symbol the next one of its bucket.
fn by_hash(reader: &mut Reader, tables: &Tables, place: u64, name: &str) -> Result<Option<Symbol>, Reason> {
    let start: [u8; 8] = reader.array(place)?;
    let buckets = u64::from(word(&start, 0));
    let Some(bucket) = u64::from(hash(name)).checked_rem(buckets) else { return Ok(None) };
    let places = place.saturating_add(8);
    let mut index = number(reader, places.saturating_add(bucket * 4))?;
    for _ in 0..CHAIN {
        if index == 0 {
            return Ok(None);
        }
        if let Some(symbol) = named(reader, tables, index.into(), name)? {
            return Ok(Some(symbol));
        }
        index = number(reader, places.saturating_add((buckets + u64::from(index)) * 4))?;
    }
    Err(too_long())
}

/// A symbol, if it is a function of this name that the file defines.
fn named(reader: &mut Reader, tables: &Tables, index: u64, name: &str) -> Result<Option<Symbol>, Reason> {
    let (Some(symbols), Some(strings)) = (tables.symbols, tables.strings) else { return Ok(None) };
    let bytes: [u8; SYMBOL] = reader.array(symbols.saturating_add(index * SYMBOL as u64))?;
    let Some((symbol, start)) = Symbol::function(&bytes) else { return Ok(None) };
    let mut text = vec![0; name.len() + 1];
    if u64::from(start) + text.len() as u64 > tables.strings_size {
        return Ok(None);
    }
    reader.into(strings.saturating_add(start.into()), &mut text)?;
    Ok((text.strip_suffix(b"\0") == Some(name.as_bytes())).then_some(symbol))
}

fn number(reader: &mut Reader, place: u64) -> Result<u32, Reason> {
    reader.array(place).map(u32::from_ne_bytes)
}

fn too_long() -> Reason {
    "a malformed ELF file (more than 1024 names in one bucket of its hash table)".to_owned()
}

fn gnu_hash(name: &str) -> u32 {
    name.bytes().fold(5381, |hash, byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
}

fn hash(name: &str) -> u32 {
    name.bytes().fold(0, |hash: u32, byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    })
}
