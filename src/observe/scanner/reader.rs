//! Reads processes of `/proc` by helpers.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::interface::{ProcessSummary, ScanError};
use super::proc_entry::{EntryAnswer, EntryReader, ProcessQuestion};
use crate::model::CgroupPath;
use crate::observation::{Answer, Environment, Text};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::options::Options;
use crate::observe::processes::helpers::{HelperPool, Requests};
use crate::observe::processes::refusals::Refusals;
use crate::observe::procfile::is_own;
use crate::sys::dir::Dir;
use crate::sys::helper;

/// Reads processes.
#[derive(Debug)]
pub(super) struct HelperReader {
    proc: PathBuf,
    root: Dir,
    /// Whether this `/proc` has the pids that system calls use.
    is_own: bool,
    hierarchy: Option<Hierarchy>,
    /// Ids of cgroups by their lines in `/proc/PID/cgroup`, for one scan.
    cgroups: HashMap<Text, Option<u64>>,
    pool: HelperPool<'static, ProcessQuestion, Reply>,
    /// Processes of this scan that may be there and could not be read, by pid.
    unread: Vec<u32>,
}

/// An answer; `None` if the process is gone; an error if it cannot be read.
type Reply = Result<Option<EntryAnswer>, ()>;

/// An environment, and where code and stack of its program begin.
pub(super) type Executed = ((u64, u64), Answer<Environment>);

impl HelperReader {
    pub(super) fn new(options: &Options) -> Result<Self, ScanError> {
        let proc = options.proc.clone();
        let refused = |errno: Errno| ScanError::Proc(proc.display().to_string(), errno);
        let (root, theirs) = (Dir::open(&proc).map_err(refused)?, Dir::open(&proc).map_err(refused)?);
        // Without cgroup2 there are no ids that mean anything.
        let hierarchy = Hierarchy::find(options).ok().filter(|hierarchy| !hierarchy.is_legacy());
        let is_own = is_own(&options.proc);
        let pool = HelperPool::new(theirs, move |root, requests: Requests<'_, ProcessQuestion, Reply>| {
            let mut look = EntryReader { root, is_own, refusals: Refusals::default(), text: Vec::new() };
            requests.answer(|pid, question, depth| look.at(pid, question, depth).map_err(drop));
        });
        Ok(Self { proc, root, is_own, hierarchy, cgroups: HashMap::new(), pool, unread: Vec::new() })
    }

    /// Whether there is a cgroup2 hierarchy.
    pub(super) fn has_cgroups(&self) -> bool {
        self.hierarchy.is_some()
    }

    /// Begins a scan: forgets the cgroups, because their names may have been reused.
    pub(super) fn begin(&mut self) {
        self.cgroups.clear();
        self.unread.clear();
    }

    /// The processes of this scan that may be there and could not be read, by pid.
    pub(super) fn unread(&self) -> &[u32] {
        &self.unread
    }

    /// All pids.
    pub(super) fn pids(&self) -> Result<Vec<u32>, ScanError> {
        let mut pids = Vec::new();
        let visit = |_: &std::ffi::CStr, pid| {
            pids.push(pid);
            true
        };
        let listed = self.root.numbers(c".", visit);
        listed.map_err(|errno| ScanError::Proc(self.proc.display().to_string(), errno))?;
        Ok(pids)
    }

    /// This very process.
    pub(super) fn own(&mut self) -> Option<ProcessSummary> {
        self.processes(&[std::process::id()]).pop()
    }

    /// These processes, without those that are gone, have ended or are kernel
    /// threads.
    pub(super) fn processes(&mut self, pids: &[u32]) -> Vec<ProcessSummary> {
        let questions: Vec<_> = pids.iter().map(|pid| (*pid, ProcessQuestion::All)).collect();
        let (mut all, mut lines) = (Vec::new(), Vec::new());
        let unread = &mut self.unread;
        self.pool.ask(&questions, None, |index, found| match found {
            Some(Ok(Some(EntryAnswer::Process(process, line)))) => {
                all.push(process);
                lines.push(line);
            }
            // It has ended, or is not asked about.
            Some(Ok(_)) => {}
            Some(Err(())) | None => unread.extend(pids.get(index)),
        });
        for (process, line) in all.iter_mut().zip(lines) {
            process.cgroup = line.and_then(|line| self.cgroup(line));
        }
        let helpers = self.helpers();
        all.retain(|process| !helpers.contains(&process.pid));
        all
    }

    /// The environments of processes with these start times, by position in the
    /// list; processes that are gone are left out.
    pub(super) fn environments(&mut self, processes: &[(u32, u64)]) -> HashMap<usize, Executed> {
        let question = |(pid, start_time): &(u32, u64)| (*pid, ProcessQuestion::Environment(*start_time));
        let questions: Vec<_> = processes.iter().map(question).collect();
        let mut all = HashMap::new();
        let unread = &mut self.unread;
        self.pool.ask(&questions, None, |index, found| match found {
            Some(Ok(Some(EntryAnswer::Environment(starts, at_exec)))) => {
                all.insert(index, (starts, at_exec));
            }
            // It has ended, or is not asked about.
            Some(Ok(_)) => {}
            Some(Err(())) | None => unread.extend(processes.get(index).map(|(pid, _)| *pid)),
        });
        all
    }

    /// The pids of gpumap's own helpers, which are no part of the answer.
    pub(super) fn helpers(&self) -> Vec<u32> {
        if self.is_own { helper::own() } else { Vec::new() }
    }

    fn cgroup(&mut self, line: Text) -> Option<u64> {
        let hierarchy = self.hierarchy.as_ref()?;
        let id = || {
            let inside = hierarchy.mount.inside(line.as_bytes())?;
            let path = Path::new(".").join(OsStr::from_bytes(CgroupPath::new(&inside).relative()));
            // `None` says that it is not known.
            Some(hierarchy.handle.child(&path).ok()?.stat().ok()?.inode)
        };
        if let Some(known) = self.cgroups.get(&line) {
            return *known;
        }
        let id = id();
        self.cgroups.insert(line, id);
        id
    }
}
