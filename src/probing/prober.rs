//! The interface to those who attach programs: a [`Prober`] says what is looked for in a
//! file and what is attached to it. Where its probes go is found here: which of the wanted
//! functions a file defines, and at which instruction of each a probe costs least.

use std::fmt::Debug;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use crate::elf::{Cost, ElfError, ElfFile, LONGEST_BEGINNING, SymbolKind, probe_place};
use crate::loader::AttachedProbes;
use crate::observe::processes::mapped_files::mappings;
use crate::sys::window::Windowed;

/// Which file it is among those that exist.
pub type FileId = ((u32, u32), u64);

/// What a file is to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRole {
    /// A driver's library, by its name.
    Driver,
    /// A library that stands before a driver, by its name (`libvgpu.so`,
    /// `libsoftmig.so`).
    Interceptor,
    /// The C library, by its name.
    CLibrary,
    /// The executable of a process that maps no C library.
    Executable,
}

/// Where probes are put.
#[derive(Clone, Copy, Debug)]
pub struct ProbeTarget<'a> {
    /// The file, held open: a path below `/proc/self/fd`.
    pub path: &'a Path,
    /// Which file it is.
    pub id: FileId,
    /// Its name, for display: a user may have chosen it.
    pub shown: &'a [u8],
    /// The only process that gets the probes; `None`: every one.
    pub pid: Option<u32>,
}

/// Puts probes into files.
pub trait Prober {
    /// A place in a file, and what is put there.
    type Point: Clone + Debug;

    /// Whether C libraries, and executables without one, are looked at too.
    const C_LIBRARIES: bool;
    /// Whether only processes are looked at that have a library before a driver, and
    /// in these that library and the driver's.
    const INTERCEPTION: bool = false;
    /// How long a file stays probed that no process uses.
    const UNUSED: Duration;

    /// Finds the places in a file. None: the file is none that is probed.
    ///
    /// # Errors
    ///
    /// Why it cannot be probed.
    fn find(
        &mut self,
        file: Windowed,
        kind: FileRole,
        target: &ProbeTarget<'_>,
    ) -> Result<Vec<Self::Point>, String>;

    /// Attaches the programs.
    ///
    /// # Errors
    ///
    /// Why the kernel does not.
    fn attach(
        &mut self,
        places: &[Self::Point],
        target: &ProbeTarget<'_>,
    ) -> Result<Vec<AttachedProbes>, String>;

    /// A driver's library of a process is not probed, for this reason.
    fn refused(&mut self, _shown: &[u8], _pid: Option<u32>, _why: &str) {}

    /// The probes that a file has for all are taken out.
    fn released(&mut self, _id: FileId) {}
}

/// Where a probe is put for one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionPlace<'n> {
    /// The function.
    pub function: &'n str,
    /// The offset of the probe in the file, in bytes.
    pub offset: u64,
    /// What a call costs that passes it.
    pub cost: Cost,
}

/// The places of probes, for each function of these names that the file defines:
/// in its dynamic symbols, or, in an executable that is linked statically, in its
/// full symbol table.
///
/// # Errors
///
/// What the file is instead of code for this machine, that it is malformed or
/// too large, or that one of the functions is none.
pub fn places<'n>(
    mut file: Windowed,
    names: &[&'n str],
    executable: bool,
) -> Result<Vec<FunctionPlace<'n>>, ElfError> {
    let mut file = ElfFile::open(|buffer: &mut [u8], offset| file.read_exact_at(buffer, offset))?;
    file.check_native()?;
    let mut symbols = file.exported(names, SymbolKind::Function)?;
    if executable && !file.has_interpreter() && symbols.iter().all(Option::is_none) {
        symbols = file.symbols(names, SymbolKind::Function)?.unwrap_or_default();
    }
    let mut places = Vec::new();
    for (name, symbol) in names.iter().zip(symbols) {
        let Some(symbol) = symbol else { continue };
        let function = file.function(&symbol)?;
        let place = probe_place(&function.beginning);
        let offset = function.offset.saturating_add(place.behind);
        places.push(FunctionPlace { function: name, offset, cost: place.cost });
    }
    Ok(places)
}

/// Where the probe of one of this program's own functions goes in its file
/// (`/proc/self/exe`), by the function's address; `None` where it would cost two traps.
pub fn own_place(address: u64) -> Option<u64> {
    // Then the cost of a call is not measured, which the answer says.
    let text = std::fs::read("/proc/self/maps").ok()?;
    let mapping = mappings(&text).find(|one| one.executable && (one.start..one.end).contains(&address))?;
    let offset = address - mapping.start + mapping.offset;
    let mut beginning = [0; LONGEST_BEGINNING];
    // The same.
    std::fs::File::open("/proc/self/exe").ok()?.read_exact_at(&mut beginning, offset).ok()?;
    let place = probe_place(&beginning);
    (place.cost != Cost::TwoTraps).then(|| offset + place.behind)
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
        let found = places(open(libc), &["setenv", "unsetenv", "no_such_function"], false).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|place| place.offset > 0));
        assert!(places(open("/proc/self/cmdline"), &["setenv"], false).is_err());
    }
}
