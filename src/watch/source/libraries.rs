//! The files in which functions are watched: every distinct C library of the
//! processes in scope, also those of containers with a root of their own and
//! of musl; static executables that define the functions themselves; drivers'
//! libraries. Each file once, by device and inode number.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::attachment::Attachment;
use super::drivers;
use super::object::Kernel;
use super::probes::{DRIVERS, ENVIRON, Probe};
use super::symbols;
use crate::observe::process::maps::{Mapping, mappings};
use crate::observe::process::places::is_c_library;
use crate::sys::dir::{Dir, read_all};
use crate::watch::driver::is_driver;

/// Bytes that are read of one process's map: some thousand libraries.
const MAPS_LIMIT: usize = 4 << 20;
/// Files that are watched at most: a bound for hostile processes.
const FILES: usize = 4096;

/// Which file it is.
pub(super) type FileId = ((u32, u32), u64);

/// The files that were looked at.
#[derive(Debug)]
pub(super) struct Libraries {
    /// Whether a file is watched for each process apart, so that no other
    /// process is slowed down.
    apart: bool,
    /// What watches a file, or why nothing does. The process only if `apart`.
    known: HashMap<(Option<u32>, FileId), Result<Attachment, String>>,
    /// What watched processes before they executed another program.
    before: Vec<(u32, Attachment)>,
    /// Drivers' libraries that are installed, mapped or not.
    installed: Vec<drivers::Installed>,
    buffer: Vec<u8>,
}

/// A process that is looked at.
struct Looked {
    /// Its directory in `/proc`.
    place: PathBuf,
    /// Whom its files are watched for: itself, or everybody.
    whom: Option<u32>,
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
    /// No files yet. `apart`: each will be watched for one process, not for all
    /// that map it.
    pub(super) fn new(apart: bool) -> Self {
        Self { apart, known: HashMap::new(), before: Vec::new(), installed: Vec::new(), buffer: Vec::new() }
    }

    /// Watches the files of one process that are not watched yet.
    pub(super) fn cover(&mut self, kernel: &mut Kernel, proc: &Path, pid: u32) -> Coverage {
        let process = Looked { place: proc.join(pid.to_string()), whom: self.apart.then_some(pid) };
        let mut text = std::mem::take(&mut self.buffer);
        let read = Dir::open(&process.place)
            .and_then(|dir| dir.open_file(c"maps"))
            .and_then(|file| read_all(&file, &mut text, MAPS_LIMIT));
        let coverage = match read {
            Ok(()) if text.is_empty() => Coverage::None,
            Ok(()) => self.cover_maps(kernel, &process, &text),
            Err(nix::errno::Errno::EFBIG) => Coverage::Uncovered("it maps too many files".to_owned()),
            Err(_) => Coverage::None,
        };
        self.buffer = text;
        coverage
    }

    /// Finds the drivers' libraries that are installed below `root`, and watches
    /// them before a process maps them.
    pub(super) fn cover_drivers(&mut self, kernel: &mut Kernel, root: &Path) {
        self.installed = drivers::installed(root);
        if !self.apart {
            self.cover_installed(kernel, None);
        }
    }

    fn cover_installed(&mut self, kernel: &mut Kernel, whom: Option<u32>) {
        for found in &self.installed {
            let attached = || attach(kernel, &found.path(), &DRIVERS, whom);
            self.known.entry((whom, found.id)).or_insert_with(attached);
        }
    }

    /// A process executed another program. If a thread other than the first did
    /// it, what was attached to the first one is of no use any more: all of it
    /// is attached anew, and the old kept until that is done.
    pub(super) fn executed(&mut self, pid: u32) {
        let its: Vec<_> = self.known.keys().filter(|(whom, _)| *whom == Some(pid)).copied().collect();
        for key in its {
            self.before.extend(self.known.remove(&key).and_then(Result::ok).map(|old| (pid, old)));
        }
    }

    /// Ends what is kept of a process from before it executed a program.
    pub(super) fn settled(&mut self, pid: u32) {
        self.before.retain(|(other, _)| *other != pid);
    }

    fn cover_maps(&mut self, kernel: &mut Kernel, process: &Looked, text: &[u8]) -> Coverage {
        if self.apart {
            self.cover_installed(kernel, process.whom);
        }
        let mut result = None;
        let code = || mappings(text).filter(|mapping| mapping.executable);
        for mapping in code().filter(|mapping| is_driver(mapping.name())) {
            let _no_driver = self.file(kernel, process, &mapping, &DRIVERS);
        }
        for mapping in code().filter(|mapping| is_c_library(mapping.name())) {
            let one = self.file(kernel, process, &mapping, &ENVIRON);
            result = if result == Some(Ok(())) { result } else { Some(one) };
        }
        let result = result.unwrap_or_else(|| self.executable(kernel, process, code()));
        match result {
            Ok(()) => Coverage::Covered,
            Err(why) => Coverage::Uncovered(why),
        }
    }

    /// A program without a C library: it may have the functions in itself.
    fn executable<'a>(
        &mut self,
        kernel: &mut Kernel,
        process: &Looked,
        mut mapped: impl Iterator<Item = Mapping<'a>>,
    ) -> Result<(), String> {
        let exe = fs::read_link(process.place.join("exe"))
            .map_err(|_| "its executable cannot be read".to_owned())?;
        let exe = std::os::unix::ffi::OsStrExt::as_bytes(exe.as_os_str()).to_vec();
        let own = mapped.find(|mapping| mapping.path == exe);
        let own = own.ok_or_else(|| "no C library is mapped".to_owned())?;
        self.file(kernel, process, &own, &ENVIRON)
    }

    /// Watches a mapped file, unless that is done or failed already.
    fn file(
        &mut self,
        kernel: &mut Kernel,
        process: &Looked,
        mapping: &Mapping<'_>,
        probes: &[Probe],
    ) -> Result<(), String> {
        let key = (process.whom, mapping.file());
        if let Some(known) = self.known.get(&key) {
            return outcome(known);
        }
        if self.known.len() >= FILES {
            return Err("too many files are watched already".to_owned());
        }
        let path = process.place.join("map_files").join(format!("{:x}-{:x}", mapping.start, mapping.end));
        let result = attach(kernel, &path, probes, process.whom);
        let told = outcome(&result);
        self.known.insert(key, result);
        told
    }

    /// How many files are watched.
    pub(super) fn count(&self) -> usize {
        self.known.values().filter(|known| known.is_ok()).count()
    }
}

fn outcome(known: &Result<Attachment, String>) -> Result<(), String> {
    known.as_ref().map(|_| ()).map_err(Clone::clone)
}

fn attach(
    kernel: &mut Kernel,
    path: &Path,
    probes: &[Probe],
    whom: Option<u32>,
) -> Result<Attachment, String> {
    let file = File::open(path).map_err(|_| "its C library cannot be opened".to_owned())?;
    let names: Vec<&str> = probes.iter().map(|probe| probe.function).collect();
    let found = symbols::offsets(file, &names)?;
    if found.is_empty() {
        return Err("a static executable without the C library's functions, or without symbols".to_owned());
    }
    let probe = |name| probes.iter().find(|probe| probe.function == name);
    let found: Vec<_> = found.iter().filter_map(|(name, offset)| Some((probe(*name)?, *offset))).collect();
    kernel.attach(&found, path, whom).map_err(|error| error.to_string())
}
