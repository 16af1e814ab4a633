//! Processes of `/proc`, looked at by helpers.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::interface::{Glimpse, ScanError};
use super::proc_entry::{Found, Look, Question};
use crate::model::CgroupPath;
use crate::observation::{Answer, Environment, Text};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::options::Options;
use crate::observe::processes::helpers::{Crew, Duty};
use crate::observe::processes::procfile::is_own;
use crate::observe::processes::refusals::Refusals;
use crate::sys::dir::Dir;
use crate::sys::helper;

/// Reads processes.
#[derive(Debug)]
pub(super) struct Reader {
    proc: PathBuf,
    root: Dir,
    /// Whether pids of this `/proc` are those of system calls.
    is_own: bool,
    hierarchy: Option<Hierarchy>,
    /// Ids of cgroups by their lines in `/proc/PID/cgroup`, for one scan.
    cgroups: HashMap<Text, Option<u64>>,
    crew: Crew<'static, Question, Option<Found>>,
}

/// An environment, and where code and stack of its program begin.
pub(super) type Executed = ((u64, u64), Answer<Environment>);

impl Reader {
    pub(super) fn new(options: &Options) -> Result<Self, ScanError> {
        let proc = options.proc.clone();
        let refused = |errno: Errno| ScanError::Proc(proc.display().to_string(), errno);
        let (root, theirs) = (Dir::open(&proc).map_err(refused)?, Dir::open(&proc).map_err(refused)?);
        // Without cgroup2 there are no ids that mean anything.
        let hierarchy = Hierarchy::find(options).ok().filter(|hierarchy| !hierarchy.is_legacy());
        let is_own = is_own(&options.proc);
        let crew = Crew::new(theirs, move |root, duty: Duty<'_, Question, Option<Found>>| {
            let mut look = Look { root, is_own, refusals: Refusals::default(), text: Vec::new() };
            duty.answer(|pid, question, care| look.at(pid, question, care));
        });
        Ok(Self { proc, root, is_own, hierarchy, cgroups: HashMap::new(), crew })
    }

    /// Whether there is a cgroup2 hierarchy.
    pub(super) fn has_cgroups(&self) -> bool {
        self.hierarchy.is_some()
    }

    /// Forgets the cgroups: their names may be others' by now.
    pub(super) fn forget(&mut self) {
        self.cgroups.clear();
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
    pub(super) fn own(&mut self) -> Option<Glimpse> {
        self.processes(&[std::process::id()]).pop()
    }

    /// These processes, without those that are gone, have ended or are threads
    /// of the kernel.
    pub(super) fn processes(&mut self, pids: &[u32]) -> Vec<Glimpse> {
        let questions: Vec<_> = pids.iter().map(|pid| (*pid, Question::All)).collect();
        let (mut all, mut lines) = (Vec::new(), Vec::new());
        self.crew.ask(&questions, None, |_, found| {
            if let Some(Found::Process(glimpse, line)) = found.flatten() {
                all.push(glimpse);
                lines.push(line);
            }
        });
        for (glimpse, line) in all.iter_mut().zip(lines) {
            glimpse.cgroup = line.and_then(|line| self.cgroup(line));
        }
        let helpers = self.helpers();
        all.retain(|glimpse| !helpers.contains(&glimpse.pid));
        all
    }

    /// The environments of processes with these start times, by their place in
    /// the list; none of those that are gone.
    pub(super) fn environments(&mut self, processes: &[(u32, u64)]) -> HashMap<usize, Executed> {
        let question = |(pid, start_time): &(u32, u64)| (*pid, Question::Environment(*start_time));
        let questions: Vec<_> = processes.iter().map(question).collect();
        let mut all = HashMap::new();
        self.crew.ask(&questions, None, |index, found| {
            if let Some(Found::Environment(starts, at_exec)) = found.flatten() {
                all.insert(index, (starts, at_exec));
            }
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
