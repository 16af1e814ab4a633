//! The processes to follow: all, those of a cgroup, or one.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::loader::{LoadError, Loaded};
use crate::observation::Text;
use crate::observe::processes::by_threads;
use crate::sys::absence::OrAbsent as _;
use crate::sys::dir::Dir;

/// Levels of cgroups that are walked, as many as the kernel side looks at.
const LEVELS: usize = 32;

/// Whom to follow: everything, or the union of processes and cgroups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessScope {
    /// Every process.
    pub all: bool,
    /// Processes.
    pub pids: Vec<u32>,
    /// Directories of cgroups, with everything below them.
    pub cgroups: Vec<PathBuf>,
}

impl ProcessScope {
    /// The ids of the cgroups: their directories' inode numbers. One that was removed has
    /// none, and no processes.
    ///
    /// # Errors
    ///
    /// Which cgroup cannot be looked at, and why: its processes would not be followed.
    pub fn cgroup_ids(&self) -> Result<Vec<u64>, String> {
        let id = |path: &PathBuf| match fs::metadata(path).or_removed() {
            Ok(there) => there.map(|meta| Ok(meta.ino())),
            Err(error) => Some(Err(format!("{}: {error}", path.display()))),
        };
        self.cgroups.iter().filter_map(id).collect()
    }

    /// Tells programs that have the maps of `bpf/scope.h` whom to follow. `own`, gpumap
    /// itself, is never followed.
    ///
    /// # Errors
    ///
    /// See [`Loaded::put`]; a cgroup in scope cannot be looked at.
    pub fn put(&self, into: &mut dyn Loaded, own: u32) -> Result<(), LoadError> {
        let cgroups = self.cgroup_ids().map_err(LoadError::Scope)?;
        for pid in &self.pids {
            into.put("pids", &pid.to_ne_bytes(), &1_u32.to_ne_bytes())?;
        }
        for id in &cgroups {
            into.put("cgroups", &id.to_ne_bytes(), &1_u32.to_ne_bytes())?;
        }
        let settings = [u64::from(self.all), u64::from(!cgroups.is_empty()), u64::from(own)];
        for (slot, setting) in (0_u32..).zip(settings) {
            into.put("scope", &slot.to_ne_bytes(), &setting.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Whether a cgroup is one of those or below one: by its path relative to the
    /// directory `root`.
    pub fn has_cgroup(&self, root: &Path, path: &Text) -> bool {
        let below = path.as_bytes().strip_prefix(b"/").unwrap_or(path.as_bytes());
        let path = root.join(Path::new(OsStr::from_bytes(below)));
        self.cgroups.iter().any(|cgroup| path.starts_with(cgroup))
    }

    /// The processes that are in scope now.
    pub fn processes(&self, proc: &Path) -> ScopedProcesses {
        let mut found = ScopedProcesses { pids: self.pids.iter().copied().collect(), unlisted: None };
        if self.all {
            let listed = found.all(proc);
            found.note(proc, listed);
        }
        let mut threads = Vec::new();
        for cgroup in &self.cgroups {
            found.cgroup(cgroup, LEVELS, &mut threads);
        }
        if !threads.is_empty() {
            let listed = found.by_threads(proc, threads);
            found.note(proc, listed);
        }
        found
    }
}

/// The processes in scope, as far as they could be listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopedProcesses {
    /// Those that were found.
    pub pids: BTreeSet<u32>,
    /// Which directory could not be listed, and why: there may be more.
    pub unlisted: Option<String>,
}

impl ScopedProcesses {
    fn all(&mut self, proc: &Path) -> io::Result<()> {
        Ok(Dir::open(proc)?.numbers(c".", |_, pid| {
            self.pids.insert(pid);
            true
        })?)
    }

    fn by_threads(&mut self, proc: &Path, threads: Vec<u32>) -> io::Result<()> {
        let others = by_threads::processes(&Dir::open(proc)?, threads, |pid| self.pids.contains(&pid));
        self.pids.extend(others);
        Ok(())
    }

    /// Processes of a cgroup and below, and their threads. What was removed has none.
    fn cgroup(&mut self, cgroup: &Path, levels: usize, threads: &mut Vec<u32>) {
        let procs = fs::read_to_string(cgroup.join("cgroup.procs"));
        // The file of a threaded cgroup is not readable: the one of its domain, above it,
        // has its processes.
        let is_threaded = procs.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EOPNOTSUPP));
        if !(is_threaded && levels < LEVELS) {
            let listed = procs.map(|procs| self.pids.extend(procs.lines().filter_map(pid)));
            self.note(cgroup, listed);
            let all = fs::read_to_string(cgroup.join("cgroup.threads"));
            self.note(cgroup, all.map(|all| threads.extend(all.lines().filter_map(pid))));
        }
        if levels > 0 {
            let listed = self.below(cgroup, levels - 1, threads);
            self.note(cgroup, listed);
        }
    }

    fn below(&mut self, cgroup: &Path, levels: usize, threads: &mut Vec<u32>) -> io::Result<()> {
        let dir = Dir::open(cgroup)?;
        for name in dir.subdirectories(dir.stat()?)? {
            self.cgroup(&cgroup.join(OsStr::from_bytes(name.as_bytes())), levels, threads);
        }
        Ok(())
    }

    /// Keeps the first failure that does not say that the directory is gone.
    fn note(&mut self, place: &Path, listed: io::Result<()>) {
        if let Err(error) = listed.or_removed() {
            self.unlisted.get_or_insert_with(|| format!("{}: {error}", place.display()));
        }
    }
}

fn pid(line: &str) -> Option<u32> {
    line.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a cgroup that is gone has no processes, and that one that cannot be
    /// listed is told.
    #[test]
    fn unlisted() {
        let of = |path: &str| ProcessScope { cgroups: vec![path.into()], ..ProcessScope::default() };
        let proc = Path::new("/proc");
        assert_eq!(of("/nonexistent").processes(proc), ScopedProcesses::default());
        assert_eq!(of("/nonexistent").cgroup_ids(), Ok(Vec::new()));
        let file = of("/proc/version/below");
        assert!(file.processes(proc).unlisted.is_some_and(|why| why.starts_with("/proc/version/below: ")));
        assert!(file.cgroup_ids().is_err());
        let all = ProcessScope { all: true, ..ProcessScope::default() };
        assert!(all.processes(proc).pids.contains(&std::process::id()));
        assert!(all.processes(Path::new("/proc/version")).unlisted.is_some());
    }
}
