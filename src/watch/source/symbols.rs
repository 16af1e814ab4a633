//! Where functions are in an ELF file: file offsets, as uprobes want them.

use std::fs::File;

use object::read::elf::ElfFile64;
use object::{
    Architecture, Endianness, Object as _, ObjectSegment as _, ObjectSymbol as _, ReadCache, SymbolKind,
};

use crate::observe::process::elf::Bounded;

/// File offsets of the functions that a file defines, one for each name that
/// it has.
///
/// # Errors
///
/// A reason: no ELF file of this machine's 64-bit architecture.
pub(super) fn offsets<'n>(file: File, names: &[&'n str]) -> Result<Vec<(&'n str, u64)>, String> {
    let cache = ReadCache::new(file);
    let elf =
        ElfFile64::<Endianness, _>::parse(Bounded(&cache)).map_err(|_| "no 64-bit ELF file".to_owned())?;
    if elf.architecture() != native() {
        return Err("a file for another architecture".to_owned());
    }
    let mut found: Vec<(&str, u64)> = Vec::new();
    for symbol in elf.dynamic_symbols().chain(elf.symbols()) {
        if symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
            continue;
        }
        let Ok(text) = symbol.name() else { continue };
        let Some(name) = names.iter().find(|name| **name == text) else { continue };
        if found.iter().any(|(known, _)| known == name) {
            continue;
        }
        let address = symbol.address();
        let offset = elf.segments().find_map(|segment| {
            let (start, size) = segment.file_range();
            let inside = address.checked_sub(segment.address()).filter(|inside| *inside < size)?;
            start.checked_add(inside)
        });
        found.extend(offset.map(|offset| (*name, offset)));
    }
    Ok(found)
}

fn native() -> Architecture {
    if cfg!(target_arch = "aarch64") { Architecture::Aarch64 } else { Architecture::X86_64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that functions of a library are found and nothing else is.
    #[test]
    fn own_libc() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc = maps
            .lines()
            .find_map(|line| Some(&line[line.find('/')?..]).filter(|path| path.contains("/libc.so")));
        let Some(libc) = libc else { return };
        let found = offsets(File::open(libc).unwrap(), &["setenv", "unsetenv", "no_such_function"]).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|(_, offset)| *offset > 0));
        assert!(offsets(File::open("/proc/self/maps").unwrap(), &["setenv"]).is_err());
    }
}
