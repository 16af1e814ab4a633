//! ELF files that claim more than they have, and the dynamic linker of this machine.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Bytes of a table that is under the limit for one.
pub const TABLE: u64 = (60 << 20) / 24 * 24;

/// `e_machine` of this machine: AArch64 or x86-64.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// glibc's dynamic linker.
pub const LOADER: &str =
    if cfg!(target_arch = "aarch64") { "/lib/ld-linux-aarch64.so.1" } else { "/lib64/ld-linux-x86-64.so.2" };

/// A library that says of itself that it has four tables of 60 MiB, two of
/// symbols and two of their names, and whose hash table has one endless chain of
/// symbols with the hash that is looked for. It takes 70 KiB on the disk.
pub fn library(path: &Path) {
    let mut bytes = vec![0; 20 << 10];
    let mut set = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    set(0, b"\x7fELF\x02\x01\x01");
    let sections = 64 + 2 * 56;
    for (at, value) in [(16, 3_u16), (18, MACHINE), (54, 56), (56, 2), (58, 64), (60, 5)] {
        set(at, &value.to_le_bytes());
    }
    // All of the file is one executable segment; the dynamic section is at 4096.
    let tables = 128 << 10;
    let end = tables + 4 * TABLE;
    for (at, value) in [(32, 64), (40, sections as u64), (64 + 32, end), (120 + 8, 4096), (120 + 32, 64)] {
        set(at, &value.to_le_bytes());
    }
    for (at, value) in [(64, 1_u32), (64 + 4, 5), (120, 2), (120 + 4, 4)] {
        set(at, &value.to_le_bytes());
    }
    for (index, kind, link) in [(1, 11_u32, 2_u32), (2, 3, 0), (3, 2, 4), (4, 3, 0)] {
        let section = sections + 64 * index;
        set(section + 4, &kind.to_le_bytes());
        set(section + 24, &(tables + (index as u64 - 1) * TABLE).to_le_bytes());
        set(section + 32, &TABLE.to_le_bytes());
        set(section + 40, &link.to_le_bytes());
        set(section + 56, &24_u64.to_le_bytes());
    }
    // DT_STRTAB, DT_SYMTAB, DT_GNU_HASH.
    for (index, (tag, value)) in [(5, tables + TABLE), (6, tables), (0x6fff_fef5, 8192)].iter().enumerate() {
        set(4096 + 16 * index, &u64::to_le_bytes(*tag));
        set(4096 + 16 * index + 8, &value.to_le_bytes());
    }
    // One bucket, whose chain begins at symbol 1, and one word of the filter.
    for (index, value) in [1_u32, 1, 1, 0, u32::MAX, u32::MAX, 1].iter().enumerate() {
        set(8192 + 4 * index, &value.to_le_bytes());
    }
    let hash = b"__environ".iter().fold(5381_u32, |hash, byte| hash.wrapping_mul(33) + u32::from(*byte));
    bytes.truncate(8192 + 28);
    bytes.extend((0..16_000).flat_map(|_| (hash & !1).to_le_bytes()));
    let file = File::create(path).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    file.set_len(end).unwrap();
}

/// An executable with a section for symbols and one for their names.
pub fn with_tables(program: &Path, output: &Path, symbols: &[u8], strings: &[u8], sizes: [u64; 2]) {
    let mut bytes = fs::read(program).unwrap();
    bytes.resize(bytes.len().next_multiple_of(4096), 0);
    let places = [bytes.len() as u64, bytes.len() as u64 + sizes[0]];
    let sections = places[1] + sizes[1];
    bytes[40..48].copy_from_slice(&sections.to_ne_bytes());
    bytes[58..64].copy_from_slice(&[64, 0, 3, 0, 2, 0]);
    let section = |kind: u32, offset: u64, size: u64, link: u32, entry: u64| {
        let mut section = vec![0; 64];
        section[4..8].copy_from_slice(&kind.to_ne_bytes());
        section[24..32].copy_from_slice(&offset.to_ne_bytes());
        section[32..40].copy_from_slice(&size.to_ne_bytes());
        section[40..44].copy_from_slice(&link.to_ne_bytes());
        section[56..64].copy_from_slice(&entry.to_ne_bytes());
        section
    };
    let table = [
        section(0, 0, 0, 0, 0),
        section(2, places[0], sizes[0], 2, 24),
        section(3, places[1], sizes[1], 0, 0),
    ];
    fs::copy(program, output).unwrap();
    let file = File::options().write(true).open(output).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    file.write_all_at(symbols, places[0]).unwrap();
    file.write_all_at(strings, places[1]).unwrap();
    file.write_all_at(&table.concat(), sections).unwrap();
}
