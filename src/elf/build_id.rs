//! The build id, a note that the linker writes into a file.

use std::io;

use object::elf;
use object::endian::NativeEndian;

use super::ElfError;
use super::header::{ElfHeader, FileRange};
use super::reader::ElfReader;

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
