//! What the library's own variables say in the memory of a process.
//!
//! Some builds look at the shared region once, or ten times a second, and go by
//! what they have noted in between. The region tells neither which build it is nor what
//! it has noted: that is in the memory of the process alone. The libraries are shipped
//! with a full symbol table, which says at which address.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use super::files::why;
use crate::elf::{ElfError, ElfFile, Segment, Symbol, SymbolKind};
use crate::observation::{Answer, LibraryVariables, MappedFile};
use crate::observe::processes::mapped_files::{Mapping, Version, find, mappings, version};
use crate::observe::processes::memory::Memory;
use crate::sys::dir::Dir;

/// The variables, as HAMi-core's C files name them, all of them of type `int`.
const NAMES: [&str; 4] = ["cached_util_switch", "env_utilization_switch", "pidfound", "cached_sm_limit"];

/// Bytes of an `int`.
const INT: u64 = 4;

/// Elements of `cached_sm_limit` (`CUDA_DEVICE_MAX_COUNT`).
const DEVICES: u64 = 16;

/// The largest distance of a segment's start from the start of its mapping: the
/// largest page of the supported architectures.
const LARGEST_PAGE: u64 = 64 << 10;

/// Files that are remembered: a node has a few builds of the library.
const FILES: usize = 64;

/// Where a file has the variables.
#[derive(Clone, Debug)]
struct Places {
    segments: Vec<Segment>,
    symbols: [Option<Symbol>; NAMES.len()],
}

/// Reads variables; each file's table of symbols is read once.
#[derive(Debug, Default)]
pub(super) struct VariableReader {
    files: HashMap<Version, Result<Places, String>>,
}

impl VariableReader {
    /// The variables of the one library that a process has loaded. That of a user
    /// is not looked into: it can say anything.
    pub(super) fn read(
        &mut self,
        dir: &Dir,
        maps: &[u8],
        memory: &mut Memory,
        libraries: &[MappedFile],
    ) -> Answer<LibraryVariables> {
        let mut loaded = libraries.iter().filter(|library| library.executable);
        let (Some(library), None) = (loaded.next(), loaded.next()) else { return Answer::default() };
        if library.file.known().is_none_or(|file| !file.is_of_root_alone()) {
            return Answer::Missing("its library is not root's alone".to_owned());
        }
        let is_code = |mapping: &Mapping<'_>| {
            mapping.executable && mapping.file() == (library.dev.into(), library.inode)
        };
        let Some(code) = mappings(maps).find(is_code) else { return Answer::default() };
        let places = match self.places(dir, &code) {
            Ok(places) => places,
            Err(why) => return Answer::Missing(why),
        };
        match values(&places, &code, memory) {
            Some(values) => Answer::Known(values),
            None => Answer::Missing("the library's variables cannot be read: not in memory".to_owned()),
        }
    }

    fn places(&mut self, dir: &Dir, code: &Mapping<'_>) -> Result<Places, String> {
        let (stat, link) = find(dir, code).map_err(why)?;
        if let Some(known) = self.files.get(&version(&stat)) {
            return known.clone();
        }
        let (file, now) = dir.open_regular(&link).map_err(why)?;
        if version(&now) != version(&stat) {
            return Err("its library was written to meanwhile".to_owned());
        }
        let places = places(&file).map_err(|error| format!("its library is {error}"));
        let places =
            places.and_then(|places| places.ok_or_else(|| "its library has no table of symbols".to_owned()));
        if self.files.len() >= FILES {
            self.files.clear();
        }
        self.files.insert(version(&stat), places.clone());
        places
    }
}

fn places(file: &File) -> Result<Option<Places>, ElfError> {
    let mut elf = ElfFile::open(|buffer: &mut [u8], offset| file.read_exact_at(buffer, offset))?;
    elf.check_native()?;
    let Some(symbols) = elf.symbols(&NAMES, SymbolKind::Variable)? else { return Ok(None) };
    let symbols = std::array::from_fn(|index| symbols.get(index).copied().flatten());
    Ok(Some(Places { segments: elf.segments().to_vec(), symbols }))
}

/// The values; `None` where one that the file has could not be read.
fn values(places: &Places, code: &Mapping<'_>, memory: &mut Memory) -> Option<LibraryVariables> {
    let start = |segment: &Segment| {
        let inside = segment.offset.checked_sub(code.offset).filter(|inside| *inside < LARGEST_PAGE)?;
        Some(code.start.wrapping_add(inside).wrapping_sub(segment.address))
    };
    let bias = places.segments.iter().filter(|segment| segment.executable).find_map(start)?;
    let mut number = |symbol: Symbol, index: u64| {
        let address = symbol.address.wrapping_add(bias).wrapping_add(index * INT);
        // Then the values are not known, which the answer says.
        memory.array::<4>(address).ok().map(i32::from_ne_bytes)
    };
    let [switch, policy, found, limits] = places.symbols;
    let mut one = |symbol: Option<Symbol>| match symbol {
        Some(symbol) if symbol.size == INT => number(symbol, 0).map(Some),
        _ => Some(None),
    };
    let (util_switch, policy, host_pid_found) = (one(switch)?, one(policy)?, one(found)?);
    let limits = limits.filter(|symbol| symbol.size == DEVICES * INT);
    let sm_limits =
        limits.map(|symbol| (0..DEVICES).map(|index| number(symbol, index)).collect::<Option<Vec<i32>>>());
    Some(LibraryVariables {
        util_switch,
        policy,
        host_pid_found,
        sm_limits: match sm_limits {
            Some(limits) => limits?,
            None => Vec::new(),
        },
    })
}
