//! The files in which functions are watched: every distinct C library of the
//! processes in scope, also those of containers with a root of their own and
//! of musl; static executables that define the functions themselves; drivers'
//! libraries. Each file once, by device and inode number.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::Path;

use super::drivers;
use super::mapped::is_driver;
use super::object::{DRIVERS, ENVIRON, Kernel, Probe};
use super::symbols;
use crate::observe::process::maps::{Mapping, mappings};
use crate::observe::process::places::is_c_library;
use crate::sys::dir::{Dir, read_all};

/// Bytes that are read of one process's map: some thousand libraries.
const MAPS_LIMIT: usize = 4 << 20;
/// Files that are watched at most: a bound for hostile processes.
const FILES: usize = 4096;

/// Which file it is.
pub(super) type FileId = ((u32, u32), u64);

/// The files that were looked at.
#[derive(Debug, Default)]
pub(super) struct Libraries {
    /// Whether functions are watched there, or why not.
    known: HashMap<FileId, Result<(), String>>,
    buffer: Vec<u8>,
}

/// What became of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Coverage {
    /// Its changes are seen.
    Covered,
    /// They are not, for this reason.
    Uncovered(String),
    /// It ended, or is a thread of the kernel.
    None,
}

impl Libraries {
    /// Watches the files of one process that are not watched yet.
    pub(super) fn cover(&mut self, kernel: &mut Kernel, proc: &Path, pid: u32) -> Coverage {
        let place = proc.join(pid.to_string());
        let mut text = std::mem::take(&mut self.buffer);
        let read = Dir::open(&place)
            .and_then(|dir| dir.open_file(c"maps"))
            .and_then(|file| read_all(&file, &mut text, MAPS_LIMIT));
        let coverage = match read {
            Ok(()) if text.is_empty() => Coverage::None,
            Ok(()) => self.cover_maps(kernel, &place, &text),
            Err(nix::errno::Errno::EFBIG) => Coverage::Uncovered("it maps too many files".to_owned()),
            Err(_) => Coverage::None,
        };
        self.buffer = text;
        coverage
    }

    /// Watches the drivers' libraries that are installed below `root`.
    pub(super) fn cover_drivers(&mut self, kernel: &mut Kernel, root: &Path) {
        for found in drivers::installed(root) {
            let attached = || attach(kernel, &found.path(), &DRIVERS);
            self.known.entry(found.id).or_insert_with(attached);
        }
    }

    fn cover_maps(&mut self, kernel: &mut Kernel, place: &Path, text: &[u8]) -> Coverage {
        let mut result = None;
        let code = || mappings(text).filter(|mapping| mapping.executable);
        for mapping in code().filter(|mapping| is_driver(mapping.name())) {
            let _no_driver = self.file(kernel, place, &mapping, &DRIVERS);
        }
        for mapping in code().filter(|mapping| is_c_library(mapping.name())) {
            let one = self.file(kernel, place, &mapping, &ENVIRON);
            result = if result == Some(Ok(())) { result } else { Some(one) };
        }
        let result = result.unwrap_or_else(|| self.executable(kernel, place, code()));
        match result {
            Ok(()) => Coverage::Covered,
            Err(why) => Coverage::Uncovered(why),
        }
    }

    /// A program without a C library: it may have the functions in itself.
    fn executable<'a>(
        &mut self,
        kernel: &mut Kernel,
        place: &Path,
        mut mapped: impl Iterator<Item = Mapping<'a>>,
    ) -> Result<(), String> {
        let exe = fs::read_link(place.join("exe")).map_err(|_| "its executable cannot be read".to_owned())?;
        let exe = std::os::unix::ffi::OsStrExt::as_bytes(exe.as_os_str()).to_vec();
        let own = mapped.find(|mapping| mapping.path == exe);
        let own = own.ok_or_else(|| "no C library is mapped".to_owned())?;
        self.file(kernel, place, &own, &ENVIRON)
    }

    /// Watches a mapped file, unless that is done or failed already.
    fn file(
        &mut self,
        kernel: &mut Kernel,
        place: &Path,
        mapping: &Mapping<'_>,
        probes: &[Probe],
    ) -> Result<(), String> {
        if let Some(known) = self.known.get(&mapping.file()) {
            return known.clone();
        }
        if self.known.len() >= FILES {
            return Err("too many files are watched already".to_owned());
        }
        let path = place.join("map_files").join(format!("{:x}-{:x}", mapping.start, mapping.end));
        let result = attach(kernel, &path, probes);
        self.known.insert(mapping.file(), result.clone());
        result
    }

    /// How many files are watched.
    pub(super) fn count(&self) -> usize {
        self.known.values().filter(|known| known.is_ok()).count()
    }
}

fn attach(kernel: &mut Kernel, path: &Path, probes: &[Probe]) -> Result<(), String> {
    let file = File::open(path).map_err(|_| "its C library cannot be opened".to_owned())?;
    let names: Vec<&str> = probes.iter().map(|probe| probe.function).collect();
    let found = symbols::offsets(file, &names)?;
    if found.is_empty() {
        return Err("a static executable without the C library's functions, or without symbols".to_owned());
    }
    for (name, offset) in found {
        let Some(probe) = probes.iter().find(|probe| probe.function == name) else { continue };
        kernel.attach(probe, path, offset).map_err(|error| error.to_string())?;
    }
    Ok(())
}
