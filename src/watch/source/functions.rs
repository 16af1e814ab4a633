//! Where probes are put in a file: which of the wanted functions it defines, and
//! at which instruction of each a probe costs least.

use crate::elf::{ElfError, ElfFile, SymbolKind, probe_place};
use crate::sys::window::Windowed;

/// The file offsets of probes, for each function of these names that the file
/// defines: in its dynamic symbols, or, in an executable that is linked
/// statically, in its full symbol table.
///
/// # Errors
///
/// What the file is instead of code for this machine, that it is malformed or
/// too large, or that one of the functions is none.
pub(super) fn probe_offsets<'n>(
    mut file: Windowed,
    names: &[&'n str],
    executable: bool,
) -> Result<Vec<(&'n str, u64)>, ElfError> {
    let mut file = ElfFile::open(|buffer: &mut [u8], offset| file.read_exact_at(buffer, offset))?;
    file.check_native()?;
    let mut symbols = file.exported(names, SymbolKind::Function)?;
    if executable && !file.has_interpreter() && symbols.iter().all(Option::is_none) {
        symbols = file.symbols(names, SymbolKind::Function)?.unwrap_or_default();
    }
    let mut offsets = Vec::new();
    for (name, symbol) in names.iter().zip(symbols) {
        let Some(symbol) = symbol else { continue };
        let function = file.function(&symbol)?;
        let place = probe_place(&function.beginning);
        offsets.push((*name, function.offset.saturating_add(place.behind)));
    }
    Ok(offsets)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn open(path: &str) -> Windowed {
        let file = File::open(path).unwrap();
        let size = file.metadata().unwrap().len();
        Windowed::new(file, size)
    }

    /// Make sure that functions of a library are found and nothing else is.
    #[test]
    fn own_libc() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut paths = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
        let Some(libc) = paths.find(|path| path.contains("/libc.so")) else { return };
        let found = probe_offsets(open(libc), &["setenv", "unsetenv", "no_such_function"], false).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|(_, offset)| *offset > 0));
        assert!(probe_offsets(open("/proc/self/cmdline"), &["setenv"], false).is_err());
    }
}
