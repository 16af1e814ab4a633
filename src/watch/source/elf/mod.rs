//! Where functions are in an ELF file: file offsets, as uprobes want them.
//!
//! The file may be a user's, and say anything. So tables are never read whole:
//! exported names are looked up by the hash table that the dynamic linker uses,
//! a full symbol table is streamed through one small buffer, and all that is
//! read of a file is counted against one limit. An offset is given only where
//! it is the first instruction of a function in executable code.

mod code;
mod dynamic;
mod fields;
mod header;
mod reader;
mod table;
#[cfg(test)]
mod tests;

use crate::sys::window::Windowed;
use header::{Header, Segment};
use reader::Reader;
use table::Symbol;

/// What makes a file one that is not watched.
pub(super) type Reason = String;

/// The file offsets of functions, for each name that the file defines: in its
/// dynamic symbols, or, in an executable that is linked statically, in its full
/// symbol table.
///
/// # Errors
///
/// A reason: no ELF file of this machine's 64-bit architecture, a malformed
/// one, one whose tables are larger than gpumap reads, or one of whose
/// functions is none.
pub(super) fn functions<'n>(
    file: Windowed,
    names: &[&'n str],
    executable: bool,
) -> Result<Vec<(&'n str, u64)>, Reason> {
    let mut reader = Reader::new(file);
    let header = header::read(&mut reader)?;
    let mut found = dynamic::symbols(&mut reader, &header, names)?;
    if found.is_empty() && executable && !header.interpreter {
        found = table::symbols(&mut reader, &header, names)?;
    }
    let mut offsets = Vec::new();
    for (name, symbol) in found {
        let offset = offset(&mut reader, &header, symbol);
        offsets.push((name, offset?.ok_or_else(|| format!("its {name} is not in executable code"))?));
    }
    Ok(offsets)
}

/// Where a function begins in the file; `None` if that is outside of
/// executable code.
fn offset(reader: &mut Reader, header: &Header, symbol: Symbol) -> Result<Option<u64>, Reason> {
    let inside = |segment: &&Segment| segment.executable && segment.offset(symbol.address).is_some();
    let Some(segment) = header.segments.iter().find(inside) else { return Ok(None) };
    let Some(offset) = segment.offset(symbol.address) else { return Ok(None) };
    let room = segment.file_end().saturating_sub(offset);
    code::check(reader, offset, symbol.size, room)?;
    Ok(Some(offset))
}
