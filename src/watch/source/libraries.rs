//! The processes in scope and the files in which their functions are watched:
//! every distinct C library, also those of containers with a root of their own
//! and of musl; static executables that define the functions themselves;
//! drivers' libraries.
//!
//! A file of root's is watched once, for all processes. One that a user could
//! change is watched for each process in scope apart, so that what it says of
//! itself concerns nobody but who uses it.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::files::{self, Asker, FileId, Files, Use, Version, Wanted};
use super::object::Kernel;
use super::probes::{DRIVERS, ENVIRON, Probe};
use super::{account, drivers};
use crate::observe::process::maps::{Mapping, mappings};
use crate::observe::process::places::is_c_library;
use crate::observe::procfile::parse_stat;
use crate::sys::dir::{Dir, read_all};
use crate::sys::regular::Regular;
use crate::watch::driver::is_driver;

/// Bytes that are read of one process's map: some thousand libraries.
const MAPS_LIMIT: usize = 4 << 20;
/// Bytes of `/proc/PID/stat`.
const STAT_LIMIT: usize = 16 << 10;
/// Distinct C libraries, and drivers' libraries, of one process.
const FILES: usize = 16;
/// Processes whose being there is checked at a time, and how often: for those
/// whose end was not told (it was lost, or they left the scope).
const CHECKED: usize = 256;
const CHECK: Duration = Duration::from_secs(1);
/// How often installed drivers are looked for.
const INSTALLED: Duration = Duration::from_secs(60);
/// A look that takes less is not charged.
const FREE: Duration = Duration::from_millis(1);
/// The place of the node's own files among the processes.
const NODE: u32 = 0;

/// The files that were looked at, and who uses them.
#[derive(Debug)]
pub(super) struct Libraries {
    /// Whether every file is watched for each process apart, so that no other
    /// process is slowed down.
    apart: bool,
    files: Files,
    processes: BTreeMap<u32, Process>,
    /// Drivers' libraries that are installed, mapped or not.
    installed: Vec<PathBuf>,
    buffer: Vec<u8>,
    /// The process that was checked last, and when; when drivers were.
    checked: (u32, Instant),
    listed: Instant,
}

/// What is known of a process.
#[derive(Debug, Default)]
struct Process {
    /// When it started, in clock ticks since boot.
    start: u64,
    /// Who is charged for it, once that was asked.
    uid: Option<u32>,
    uses: HashMap<FileId, Use>,
    /// What it used before it executed another program.
    before: Vec<(FileId, Use)>,
}

/// A process that is looked at.
struct Looked {
    pid: u32,
    /// Its directory in `/proc`: that of this very process, and no longer one
    /// of any when that has ended.
    dir: Dir,
    /// Whether it is followed.
    followed: bool,
    /// The files that it has.
    seen: Vec<FileId>,
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
        let (processes, installed, buffer) = (BTreeMap::new(), Vec::new(), Vec::new());
        let now = Instant::now();
        Self { apart, files: Files::new(), processes, installed, buffer, checked: (0, now), listed: now }
    }

    /// Watches the files of one process that are not watched yet. One that is
    /// not `followed` only has files of root's watched, for all.
    pub(super) fn cover(&mut self, kernel: &mut Kernel, proc: &Path, pid: u32, followed: bool) -> Coverage {
        let begun = Instant::now();
        let dir = Dir::open(&proc.join(pid.to_string()));
        let found = dir.ok().and_then(|dir| Some((start(&dir)?, dir)));
        if self.start_of(pid) != found.as_ref().map(|(start, _)| *start) {
            self.forget(pid);
        }
        let Some((start, dir)) = found else { return Coverage::None };
        self.processes.entry(pid).or_default().start = start;
        let mut looked = Looked { pid, dir, followed, seen: Vec::new() };
        let coverage = self.look(kernel, &mut looked);
        self.charge(&looked, begun.elapsed());
        // What was attached by number belongs to this process only if it is
        // there still.
        if coverage == Coverage::None || self::start(&looked.dir) != Some(start) {
            self.forget(pid);
            return Coverage::None;
        }
        coverage
    }

    /// Finds the drivers' libraries that are installed on the node, and watches
    /// them before a process maps them.
    pub(super) fn cover_drivers(&mut self, kernel: &mut Kernel) {
        self.installed = drivers::installed(Path::new("/"));
        self.listed = Instant::now();
        if self.apart {
            return;
        }
        let mut seen = Vec::new();
        for path in self.installed.clone() {
            if let Ok(file) = Regular::find_path(&path) {
                let wanted = Wanted { file: &file, mapping: None, probes: &DRIVERS, executable: false };
                let asker = Asker { process: None, uid: 0, pid: None, apart: false };
                let _no_driver = self.watch(kernel, NODE, &wanted, &asker);
                seen.push(files::id(file.stat()));
            }
        }
        self.keep(NODE, &seen);
    }

    /// A process executed another program. If a thread other than the first did
    /// it, what was attached to the first one is of no use any more: all of it
    /// is attached anew, and the old kept until that is done.
    pub(super) fn executed(&mut self, pid: u32, start: u64) {
        if let Some(process) = self.processes.get_mut(&pid).filter(|process| process.start == start) {
            process.before.extend(process.uses.drain());
        }
    }

    /// Ends what is kept of a process from before it executed a program.
    pub(super) fn settled(&mut self, pid: u32) {
        let before = self.processes.get_mut(&pid).map(|process| std::mem::take(&mut process.before));
        for (id, ended) in before.into_iter().flatten() {
            self.files.end(id, ended);
        }
    }

    /// A process was forked: it has the files of its parent. Whether it must be
    /// looked at, because its parent's probes are not its own.
    pub(super) fn forked(&mut self, pid: u32, start: u64, parent: u32) -> bool {
        if self.apart || self.start_of(pid) == Some(start) {
            return false;
        }
        self.forget(pid);
        let Some(parent) = self.processes.get(&parent) else { return true };
        let shared = parent.uses.iter().filter_map(|(id, one)| Some((*id, self.files.share(*id, one)?)));
        let uses: HashMap<FileId, Use> = shared.collect();
        let whole = uses.len() == parent.uses.len() && !uses.is_empty();
        self.processes.insert(pid, Process { start, uid: parent.uid, uses, before: Vec::new() });
        !whole
    }

    /// A process ended.
    pub(super) fn exited(&mut self, pid: u32, start: u64) {
        if self.start_of(pid) == Some(start) {
            self.forget(pid);
        }
    }

    fn start_of(&self, pid: u32) -> Option<u64> {
        self.processes.get(&pid).map(|known| known.start)
    }

    fn forget(&mut self, pid: u32) {
        let Some(process) = self.processes.remove(&pid) else { return };
        for (id, ended) in process.uses.into_iter().chain(process.before) {
            self.files.end(id, ended);
        }
    }

    /// Lets go of what nobody uses; looks for installed drivers from time to
    /// time.
    pub(super) fn tidy(&mut self, kernel: &mut Kernel, proc: &Path) {
        if self.checked.1.elapsed() >= CHECK {
            self.check(proc);
        }
        if self.listed.elapsed() >= INSTALLED {
            self.cover_drivers(kernel);
        }
        self.files.tidy();
    }

    /// How many files are watched.
    pub(super) fn count(&self) -> usize {
        self.files.count()
    }

    /// Looks whether some of the processes still are there.
    fn check(&mut self, proc: &Path) {
        let after = (std::ops::Bound::Excluded(self.checked.0.max(NODE)), std::ops::Bound::Unbounded);
        let next: Vec<(u32, u64)> =
            self.processes.range(after).map(|(pid, process)| (*pid, process.start)).take(CHECKED).collect();
        // From the beginning again after the last one.
        let last = next.last().filter(|_| next.len() == CHECKED).map_or(NODE, |(pid, _)| *pid);
        self.checked = (last, Instant::now());
        for (pid, known) in next {
            let dir = Dir::open(&proc.join(pid.to_string()));
            if dir.ok().and_then(|dir| start(&dir)) != Some(known) {
                self.forget(pid);
            }
        }
    }

    fn look(&mut self, kernel: &mut Kernel, process: &mut Looked) -> Coverage {
        let uid = self.processes.get(&process.pid).and_then(|known| known.uid);
        if let Some(Err(over)) = uid.map(|uid| self.files.budgets.has_time(uid, Instant::now())) {
            return Coverage::Uncovered(over);
        }
        let mut text = std::mem::take(&mut self.buffer);
        let read = process.dir.open_file(c"maps").and_then(|file| read_all(&file, &mut text, MAPS_LIMIT));
        let coverage = match read {
            Ok(()) if text.is_empty() => Coverage::None,
            Ok(()) => match self.look_at(kernel, process, &text) {
                Ok(()) => Coverage::Covered,
                Err(why) => Coverage::Uncovered(why),
            },
            Err(nix::errno::Errno::EFBIG) => {
                Coverage::Uncovered("it maps more than 4 MiB of its map's lines can name".to_owned())
            }
            Err(_) => Coverage::None,
        };
        self.buffer = text;
        self.keep(process.pid, &process.seen);
        coverage
    }

    fn look_at(&mut self, kernel: &mut Kernel, process: &mut Looked, text: &[u8]) -> Result<(), String> {
        if self.apart {
            for path in self.installed.clone() {
                if let Ok(file) = Regular::find_path(&path) {
                    let wanted = Wanted { file: &file, mapping: None, probes: &DRIVERS, executable: false };
                    let _no_driver = self.file(kernel, process, &wanted);
                }
            }
        }
        let (driver, _) = distinct(text, is_driver);
        for mapping in driver {
            let _no_driver = self.mapped(kernel, process, &mapping, &DRIVERS);
        }
        let (libraries, more) = distinct(text, is_c_library);
        if libraries.is_empty() {
            return self.executable(kernel, process);
        }
        let results: Vec<_> =
            libraries.iter().map(|mapping| self.mapped(kernel, process, mapping, &ENVIRON)).collect();
        // One beside it may have the name and not the functions.
        let any = results.iter().any(Result::is_ok);
        let failed = results.into_iter().filter_map(Result::err);
        let why = failed.filter(|why| !any || why != files::none(false)).next();
        match why {
            Some(why) => Err(format!("its C library is not watched: {why}")),
            None if more => Err(format!("it maps more than {FILES} C libraries")),
            None => Ok(()),
        }
    }

    fn mapped(
        &mut self,
        kernel: &mut Kernel,
        process: &mut Looked,
        mapping: &Mapping<'_>,
        probes: &'static [Probe],
    ) -> Result<(), String> {
        let name = CString::new(format!("map_files/{:x}-{:x}", mapping.start, mapping.end));
        let file = find(&process.dir, &name.unwrap_or_default())?;
        let wanted = Wanted { file: &file, mapping: Some(mapping), probes, executable: false };
        self.file(kernel, process, &wanted)
    }

    /// A program without a C library: it may have the functions in itself.
    fn executable(&mut self, kernel: &mut Kernel, process: &mut Looked) -> Result<(), String> {
        let file =
            find(&process.dir, c"exe").map_err(|why| format!("its executable is not watched: {why}"))?;
        let wanted = Wanted { file: &file, mapping: None, probes: &ENVIRON, executable: true };
        self.file(kernel, process, &wanted).map_err(|why| match why {
            why if why == files::none(true) => why,
            why => format!("its executable is not watched: {why}"),
        })
    }

    /// Watches one file that a process has.
    fn file(&mut self, kernel: &mut Kernel, process: &mut Looked, wanted: &Wanted<'_>) -> Result<(), String> {
        process.seen.push(files::id(wanted.file.stat()));
        let uid = self.uid(process).ok_or("it is gone")?;
        let pid = process.followed.then_some(process.pid);
        let asker = Asker { process: Some(&process.dir), uid, pid, apart: self.apart };
        self.watch(kernel, process.pid, wanted, &asker)
    }

    /// Watches a file for a process, unless it is.
    fn watch(
        &mut self,
        kernel: &mut Kernel,
        pid: u32,
        wanted: &Wanted<'_>,
        asker: &Asker<'_>,
    ) -> Result<(), String> {
        let (id, version) = (files::id(wanted.file.stat()), Version::of(wanted.file.stat()));
        let process = self.processes.entry(pid).or_default();
        if process.uses.get(&id).is_some_and(|known| known.version == version) {
            return Ok(());
        }
        if let Some(changed) = process.uses.remove(&id) {
            self.files.end(id, changed);
        }
        let begun = self.files.begin(kernel, wanted, asker)?;
        process.uses.insert(id, begun);
        Ok(())
    }

    /// Ends what a process used and does not have any more.
    fn keep(&mut self, pid: u32, seen: &[FileId]) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let gone: Vec<FileId> = process.uses.keys().filter(|id| !seen.contains(id)).copied().collect();
        for id in gone {
            if let Some(ended) = process.uses.remove(&id) {
                self.files.end(id, ended);
            }
        }
    }

    /// Who is charged for a process; asked once.
    fn uid(&mut self, process: &Looked) -> Option<u32> {
        let known = self.processes.entry(process.pid).or_default();
        known.uid = known.uid.or_else(|| account::of(&process.dir, self.files.grounds.user()));
        known.uid
    }

    fn charge(&mut self, process: &Looked, time: Duration) {
        if time >= FREE
            && let Some(uid) = self.uid(process)
        {
            self.files.budgets.spend(uid, time, Instant::now());
        }
    }
}

/// The executable mappings of files with such names, one for each file, and
/// whether there are more than gpumap looks at.
fn distinct(text: &[u8], is: fn(&[u8]) -> bool) -> (Vec<Mapping<'_>>, bool) {
    let mut found: Vec<Mapping<'_>> = Vec::new();
    for mapping in mappings(text).filter(|mapping| mapping.executable && is(mapping.name())) {
        // On btrfs files of several subvolumes have the same number: one of the
        // same name is the same library.
        let same = |known: &Mapping<'_>| known.file() == mapping.file() && known.path == mapping.path;
        if found.iter().any(same) {
            continue;
        }
        if found.len() == FILES {
            return (found, true);
        }
        found.push(mapping);
    }
    (found, false)
}

fn find(process: &Dir, name: &CStr) -> Result<Regular, String> {
    use nix::errno::Errno;
    Regular::find(process, name).map_err(|errno| match errno {
        Errno::EACCES => "nobody but the owner of its file system (FUSE) may look at it".to_owned(),
        Errno::EINVAL => "it is no regular file".to_owned(),
        errno => format!("it cannot be looked at ({})", errno.desc()),
    })
}

/// When a process started, in clock ticks since boot.
fn start(process: &Dir) -> Option<u64> {
    let mut text = Vec::new();
    process.read_piece(c"stat", &mut text, STAT_LIMIT).ok()?;
    parse_stat(&text).map(|stat| stat.start_time)
}
