//! The processes in scope and the files in which their functions are watched:
//! every distinct C library, also those of containers with a root of their own
//! and of musl; static executables that define the functions themselves;
//! drivers' libraries.
//!
//! A file of root's is watched once, for all processes. One that a user could
//! change is watched for each process in scope apart, so that what it says of
//! itself concerns nobody but who uses it.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::drivers;
use super::files::{self, Asker, Files, Use, Version, WantedFile};
use super::look::{FILES, Lookers, ProcessFile, Seen, is_there, start};
use super::prober::{FileId, FileRole, Prober};
use crate::observe::processes::credentials;
use crate::sys::absence::OrAbsent as _;
use crate::sys::dir::Dir;
use crate::sys::regular_file::RegularFile;
use crate::sys::stat::FileStat;

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
pub struct Libraries<P> {
    /// Whether every file is watched for each process apart, so that no other
    /// process is slowed down.
    apart: bool,
    files: Files<P>,
    processes: BTreeMap<u32, ProbedProcess>,
    /// Drivers' libraries that are installed, mapped or not.
    installed: Vec<PathBuf>,
    lookers: Lookers,
    /// The process that was checked last, and when; when drivers were.
    checked: (u32, Instant),
    listed: Instant,
}

/// What is known of a process.
#[derive(Debug, Default)]
struct ProbedProcess {
    /// When it started, in clock ticks since boot.
    start: u64,
    /// When it was looked at last (`CLOCK_BOOTTIME`); 0: never.
    looked: u64,
    /// Who is charged for it, once that was asked.
    uid: Option<u32>,
    uses: HashMap<FileId, Use>,
    /// What it used before it executed another program.
    before: Vec<(FileId, Use)>,
}

/// A process that is looked at.
struct Looked {
    pid: u32,
    /// Its directory in `/proc`.
    dir: Dir,
    /// Whether it is followed.
    followed: bool,
    /// The files that it has.
    seen: Vec<FileId>,
}

/// What became of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Its changes are seen.
    Covered,
    /// They are not, for this reason.
    Uncovered(String),
    /// Those of some drivers' libraries are not: the [`Prober`] gave the reason of each.
    Partly,
    /// It ended, or is a thread of the kernel.
    None,
}

impl<P: Clone + Debug> Libraries<P> {
    /// No files yet. `apart`: each will be watched for one process, not for all
    /// that map it. `proc` has the processes of the node.
    pub fn new(apart: bool, proc: &Path) -> Self {
        let (processes, installed, lookers) = (BTreeMap::new(), Vec::new(), Lookers::default());
        let now = Instant::now();
        Self { apart, files: Files::new(proc), processes, installed, lookers, checked: (0, now), listed: now }
    }

    /// Begins to look at processes that are covered next, in this order: a thread
    /// looks at the later ones while the first are covered.
    pub fn expect(&mut self, proc: &Path, pids: &[u32]) {
        self.lookers.begin(pids.iter().map(|pid| proc.join(pid.to_string())).collect());
    }

    /// Watches the files of one process that are not watched yet. One that is
    /// not `followed` only has files of root's watched, for all.
    pub fn cover(
        &mut self,
        prober: &mut impl Prober<Point = P>,
        proc: &Path,
        pid: u32,
        followed: bool,
    ) -> Coverage {
        let begun = Instant::now();
        let uid = self.processes.get(&pid).and_then(|known| known.uid);
        if let Some(Err(over)) = uid.map(|uid| self.files.budgets.has_time(uid, begun)) {
            return Coverage::Uncovered(over);
        }
        let looked = match self.lookers.look(proc.join(pid.to_string())) {
            Ok(looked) => looked,
            Err(why) => {
                self.charge(proc, pid, begun.elapsed());
                return Coverage::Uncovered(why);
            }
        };
        if self.start_of(pid) != looked.as_ref().map(|looked| looked.start) {
            self.forget(pid);
        }
        let Some((seen, looked)) = looked.and_then(|mut looked| Some((looked.seen.take()?, looked))) else {
            self.forget(pid);
            return Coverage::None;
        };
        let known = self.processes.entry(pid).or_default();
        (known.start, known.looked) = (looked.start, looked.at);
        let mut process = Looked { pid, dir: looked.dir, followed, seen: Vec::new() };
        let result = seen.and_then(|seen| self.look_at(prober, &mut process, seen));
        self.keep(pid, &process.seen);
        self.charge(proc, pid, begun.elapsed());
        // What was attached by number belongs to this process only if it is
        // there still.
        if !is_there(&process.dir) {
            self.forget(pid);
            return Coverage::None;
        }
        match result {
            Ok(true) => Coverage::Covered,
            Ok(false) => Coverage::Partly,
            Err(why) => Coverage::Uncovered(why),
        }
    }

    /// Finds the drivers' libraries that are installed on the node, and watches
    /// them before a process maps them.
    pub fn cover_drivers(&mut self, prober: &mut impl Prober<Point = P>) {
        let found = drivers::installed(Path::new("/"));
        self.installed = found.paths;
        for (place, why) in found.unread {
            prober.refused(place.as_os_str().as_bytes(), None, &why);
        }
        self.listed = Instant::now();
        if self.apart {
            return;
        }
        let mut seen = Vec::new();
        for path in self.installed.clone() {
            let found = RegularFile::find_path(&path).or_absent();
            let found = found.unwrap_or_else(|why| {
                prober.refused(path.as_os_str().as_bytes(), None, &why.to_string());
                None
            });
            if let Some(file) = found {
                let wanted = WantedFile {
                    file: &file,
                    mapped: None,
                    kind: FileRole::Driver,
                    shown: path.as_os_str().as_bytes(),
                };
                let asker = Asker { process: None, uid: 0, pid: None, apart: false };
                if let Err(why) = self.watch(prober, NODE, &wanted, &asker) {
                    prober.refused(wanted.shown, None, &why);
                }
                seen.push(files::id(file.stat()));
            }
        }
        self.keep(NODE, &seen);
    }

    /// A process executed another program. If a thread other than the first did
    /// it, what was attached to the first one is of no use any more: all of it
    /// is attached anew, and the old kept until that is done.
    pub fn executed(&mut self, pid: u32, start: u64) {
        if let Some(process) = self.processes.get_mut(&pid).filter(|process| process.start == start) {
            process.before.extend(process.uses.drain());
        }
    }

    /// Ends what is kept of a process from before it executed a program.
    pub fn settled(&mut self, pid: u32) {
        let before = self.processes.get_mut(&pid).map(|process| std::mem::take(&mut process.before));
        for (id, ended) in before.into_iter().flatten() {
            self.files.end(id, ended);
        }
    }

    /// A process was forked: it has the files of its parent. Whether it must be
    /// looked at, because its parent's probes are not its own.
    pub fn forked(&mut self, pid: u32, start: u64, parent: u32) -> bool {
        if self.apart || self.start_of(pid) == Some(start) {
            return false;
        }
        self.forget(pid);
        let Some(parent) = self.processes.get(&parent) else { return true };
        let shared = parent.uses.iter().filter_map(|(id, one)| Some((*id, self.files.share(*id, one)?)));
        let uses: HashMap<FileId, Use> = shared.collect();
        let whole = uses.len() == parent.uses.len() && !uses.is_empty();
        self.processes
            .insert(pid, ProbedProcess { start, looked: 0, uid: parent.uid, uses, before: Vec::new() });
        !whole
    }

    /// A process ended.
    pub fn exited(&mut self, pid: u32, start: u64) {
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
    pub fn tidy(&mut self, prober: &mut impl Prober<Point = P>, proc: &Path) {
        if self.listed.elapsed() >= INSTALLED {
            self.cover_drivers(prober);
        }
        self.tidy_used(prober, proc);
    }

    /// Lets go of what nobody uses.
    pub fn tidy_used(&mut self, prober: &mut impl Prober<Point = P>, proc: &Path) {
        if self.checked.1.elapsed() >= CHECK {
            self.check(proc);
        }
        self.files.tidy(prober);
    }

    /// How many processes are known.
    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    /// The known process that comes after this one, by pid.
    pub fn after(&self, pid: u32) -> Option<u32> {
        let after = (std::ops::Bound::Excluded(pid), std::ops::Bound::Unbounded);
        self.processes.range(after).map(|(pid, _)| *pid).next()
    }

    /// The processes that had none of the files when they were looked at: pids, starts
    /// in clock ticks, and when that was (`CLOCK_BOOTTIME`).
    pub fn idle(&self) -> impl Iterator<Item = (u32, u64, u64)> {
        let idle = self.processes.iter().filter(|(_, process)| process.uses.is_empty());
        idle.map(|(pid, process)| (*pid, process.start, process.looked))
    }

    /// The processes that have some of the files: pids, starts in clock ticks, and which.
    pub fn users(&self) -> impl Iterator<Item = (u32, u64, impl Iterator<Item = FileId> + '_)> {
        let users = self.processes.iter().filter(|(pid, process)| **pid != NODE && !process.uses.is_empty());
        users.map(|(pid, process)| (*pid, process.start, process.uses.keys().copied()))
    }

    /// How many files are watched.
    pub fn count(&self) -> usize {
        self.files.count()
    }

    /// Looks whether some of the processes still are there.
    fn check(&mut self, proc: &Path) {
        let after = (std::ops::Bound::Excluded(self.checked.0), std::ops::Bound::Unbounded);
        let next: Vec<(u32, u64)> =
            self.processes.range(after).map(|(pid, process)| (*pid, process.start)).take(CHECKED).collect();
        // From the beginning again after the last one.
        let last = next.last().filter(|_| next.len() == CHECKED).map_or(NODE, |(pid, _)| *pid);
        self.checked = (last, Instant::now());
        for (pid, known) in next {
            let there = Dir::open(&proc.join(pid.to_string())).and_then(|dir| start(&dir)).or_ended();
            // One that cannot be read may still be there.
            if there.is_ok_and(|there| there != Some(known)) {
                self.forget(pid);
            }
        }
    }

    /// Watches the files that were seen. Whether that could be done with all drivers'
    /// libraries, where these are all that counts.
    fn look_at<Q: Prober<Point = P>>(
        &mut self,
        prober: &mut Q,
        process: &mut Looked,
        seen: Seen,
    ) -> Result<bool, String> {
        if Q::INTERCEPTION {
            return self.intercepted(prober, process, &seen).map(|()| true);
        }
        if self.apart {
            for path in self.installed.clone() {
                let found = ProcessFile {
                    file: RegularFile::find_path(&path).map_err(|why| why.to_string()),
                    mapped: None,
                    shown: path.as_os_str().as_bytes().to_vec(),
                };
                // When the process maps it, it is tried again, and a failure told.
                let _no_driver = self.file(prober, process, &found, FileRole::Driver);
            }
        }
        let mut whole = true;
        for driver in &seen.drivers {
            if let Err(why) = self.file(prober, process, driver, FileRole::Driver) {
                prober.refused(&driver.shown, Some(process.pid), &why);
                whole &= why == files::none(FileRole::Driver);
            }
        }
        if !Q::C_LIBRARIES {
            return Ok(whole);
        }
        if let Some(executable) = &seen.executable {
            // A program without a C library: it may have the functions in itself.
            let watched = self.file(prober, process, executable, FileRole::Executable);
            return watched.map(|()| whole).map_err(|why| match why {
                why if why == files::none(FileRole::Executable) => why,
                why => format!("its executable is not watched: {why}"),
            });
        }
        let libraries = seen.libraries.iter();
        let results: Vec<_> =
            libraries.map(|library| self.file(prober, process, library, FileRole::CLibrary)).collect();
        // One beside it may have the name and not the functions.
        let any = results.iter().any(Result::is_ok);
        let mut failed = results.into_iter().filter_map(Result::err);
        match failed.find(|why| !any || why != files::none(FileRole::CLibrary)) {
            Some(why) => Err(format!("its C library is not watched: {why}")),
            None if seen.more => Err(format!("it maps more than {FILES} C libraries")),
            None => Ok(whole),
        }
    }

    /// Watches the libraries that stand before the driver of a process, and the driver's
    /// where there are some. One without the functions takes no calls.
    fn intercepted(
        &mut self,
        prober: &mut impl Prober<Point = P>,
        process: &mut Looked,
        seen: &Seen,
    ) -> Result<(), String> {
        let mut any = false;
        for library in &seen.interceptors {
            any |= self.has_functions(prober, process, library, FileRole::Interceptor)?;
        }
        for driver in seen.drivers.iter().filter(|_| any) {
            self.has_functions(prober, process, driver, FileRole::Driver)?;
        }
        Ok(())
    }

    /// Watches one file that a process has, if the functions are in it; whether they are.
    fn has_functions(
        &mut self,
        prober: &mut impl Prober<Point = P>,
        process: &mut Looked,
        found: &ProcessFile,
        kind: FileRole,
    ) -> Result<bool, String> {
        match self.file(prober, process, found, kind) {
            Err(why) if why == files::none(kind) => Ok(false),
            watched => watched.map(|()| true),
        }
    }

    /// Watches one file that a process has.
    fn file(
        &mut self,
        prober: &mut impl Prober<Point = P>,
        process: &mut Looked,
        found: &ProcessFile,
        kind: FileRole,
    ) -> Result<(), String> {
        let file = found.file.as_ref().map_err(Clone::clone)?;
        process.seen.push(files::id(file.stat()));
        if self.uses(process.pid, file.stat()) {
            return Ok(());
        }
        if let Some(joined) = self.files.join(file.stat()) {
            self.replace(process.pid, files::id(file.stat()), joined);
            return Ok(());
        }
        // Only who makes work is charged, and finding out who that is takes a while.
        let uid = self.uid(&process.dir, process.pid).ok_or("it is gone")?;
        let wanted = WantedFile { file, mapped: found.mapped, kind, shown: &found.shown };
        let pid = process.followed.then_some(process.pid);
        let asker = Asker { process: Some(&process.dir), uid, pid, apart: self.apart };
        self.watch(prober, process.pid, &wanted, &asker)
    }

    /// Watches a file for a process, unless it is.
    fn watch(
        &mut self,
        prober: &mut impl Prober<Point = P>,
        pid: u32,
        wanted: &WantedFile<'_>,
        asker: &Asker<'_>,
    ) -> Result<(), String> {
        let stat = wanted.file.stat();
        if self.uses(pid, stat) {
            return Ok(());
        }
        let begun = self.files.begin(prober, wanted, asker);
        let begun = begun.inspect_err(|_| self.end(pid, files::id(stat)))?;
        self.replace(pid, files::id(stat), begun);
        Ok(())
    }

    /// Whether a process is known to use this version of a file.
    fn uses(&self, pid: u32, stat: &FileStat) -> bool {
        let known = self.processes.get(&pid).and_then(|process| process.uses.get(&files::id(stat)));
        known.is_some_and(|known| known.version == Version::of(stat))
    }

    /// A process uses another version of a file. The old use ends after the new one
    /// has begun: meanwhile the file is in use.
    fn replace(&mut self, pid: u32, id: FileId, begun: Use) {
        let old = self.processes.entry(pid).or_default().uses.insert(id, begun);
        if let Some(old) = old {
            self.files.end(id, old);
        }
    }

    fn end(&mut self, pid: u32, id: FileId) {
        let old = self.processes.get_mut(&pid).and_then(|process| process.uses.remove(&id));
        if let Some(old) = old {
            self.files.end(id, old);
        }
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
    fn uid(&mut self, dir: &Dir, pid: u32) -> Option<u32> {
        let known = self.processes.entry(pid).or_default();
        known.uid = known.uid.or_else(|| credentials::responsible_user(dir, self.files.file_systems.user()));
        known.uid
    }

    fn charge(&mut self, proc: &Path, pid: u32, time: Duration) {
        if time < FREE {
            return;
        }
        // Nobody is charged for what nobody answers for; only speed depends on it.
        let Ok(dir) = Dir::open(&proc.join(pid.to_string())) else { return };
        if let Some(uid) = self.uid(&dir, pid) {
            self.files.budgets.spend(uid, time, Instant::now());
        }
    }
}
