//! Every process by `/proc`: helpers read one after another.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::interface::{ProcessSummary, ScanError, ScanMethod, Scanner};
use crate::model::CgroupPath;
use crate::observation::{Answer, Environment, HeldDevice, Text};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::options::Options;
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::processes::descriptor_tables::DescriptorTables;
use crate::observe::processes::environment::at_exec;
use crate::observe::processes::helpers::{Depth, HelperPool, Requests};
use crate::observe::processes::refusals::{ReadKind, Refusals};
use crate::observe::procfile::{Stat, is_own, may_be_cut};
use crate::sys::dir::Dir;
use crate::sys::helper;

/// Sees processes by `/proc`.
#[derive(Debug)]
pub(super) struct ProcScanner {
    reader: HelperReader,
}

impl ProcScanner {
    pub(super) fn new(reader: HelperReader) -> Self {
        Self { reader }
    }
}

impl Scanner for ProcScanner {
    fn engine(&self) -> ScanMethod {
        ScanMethod::Proc
    }

    fn unread(&self) -> &[u32] {
        self.reader.unread()
    }

    fn scan(&mut self) -> Result<Vec<ProcessSummary>, ScanError> {
        self.reader.begin();
        let pids = self.reader.pids()?;
        let mut found = self.reader.processes(&pids);
        // The kernel lists by pid; a fixture directory may not.
        found.sort_unstable_by_key(|process| process.pid);
        Ok(found)
    }
}

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

/// How long the descriptors of one process may take.
const TIME: Duration = Duration::from_secs(2);

/// What to read of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ProcessQuestion {
    /// Everything.
    All,
    /// The environment at exec, if the process has this start time.
    Environment(u64),
}

/// What was read of a process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum EntryAnswer {
    /// A process without the id of its cgroup, and the path of its cgroup instead.
    Process(ProcessSummary, Option<Text>),
    /// The addresses at which its code and stack begin, and its environment.
    Environment((u64, u64), Answer<Environment>),
}

/// Reads processes; buffers are reused for the next one.
pub(super) struct EntryReader<'a> {
    pub(super) root: &'a Dir,
    /// Whether this `/proc` has the pids that system calls use.
    pub(super) is_own: bool,
    pub(super) refusals: Refusals,
    pub(super) text: Vec<u8>,
}

impl EntryReader<'_> {
    /// Answers a question; `None` if the process is gone, has ended or is a kernel thread.
    pub(super) fn at(
        &mut self,
        pid: u32,
        question: ProcessQuestion,
        depth: Depth,
    ) -> Result<Option<EntryAnswer>, NotRead> {
        let answer = PinnedProcess::open(self.root, pid).and_then(|process| match question {
            ProcessQuestion::All => self.process(&process, depth),
            ProcessQuestion::Environment(start_time) => {
                let stat = process.stat()?;
                let (now, at_exec) = running(&process, &stat, |thread| self.environment(thread, depth))?;
                let found = EntryAnswer::Environment(now.starts, at_exec);
                Ok((stat.start_time == start_time).then_some(found))
            }
        });
        match answer {
            Err(NotRead::Gone) => Ok(None),
            answer => answer,
        }
    }

    fn process(&mut self, process: &PinnedProcess, depth: Depth) -> Result<Option<EntryAnswer>, NotRead> {
        let (uid, stat) = (process.uid()?, process.stat()?);
        if stat.is_kernel_thread() {
            return Ok(None);
        }
        let (program, at_exec) = match running(process, &stat, |thread| self.environment(thread, depth)) {
            Ok((Stat { starts, .. }, at_exec)) => (starts, at_exec),
            Err(why @ NotRead::Fleeting) => (stat.starts, Answer::Missing(why.to_string())),
            Err(why) => return Err(why),
        };
        let cgroup = match running(process, &stat, cgroup) {
            Err(NotRead::Fleeting) => None,
            cgroup => cgroup?,
        };
        let (devices, devices_cut) = match depth.refusal().filter(|_| depth == Depth::Minimal) {
            Some(why) => (Answer::Missing(why.to_owned()), None),
            None => self.devices(process, &stat)?,
        };
        let (pid, start_time, comm) = (process.pid(), stat.start_time, stat.comm);
        let process = ProcessSummary {
            pid,
            start_time,
            program,
            uid,
            comm,
            cgroup: None,
            at_exec,
            devices,
            devices_cut,
        };
        Ok(Some(EntryAnswer::Process(process, cgroup)))
    }

    /// The devices in the descriptor tables, and why they may not be all.
    fn devices(
        &self,
        process: &PinnedProcess,
        main: &Stat,
    ) -> Result<(Answer<Vec<HeldDevice>>, Option<String>), NotRead> {
        let other = match process.other_thread(main) {
            // All of them are listed below.
            Err(NotRead::Fleeting) => None,
            other => other?,
        };
        let (first, several) = (other.as_ref().unwrap_or(process), main.threads > 1);
        let tables = DescriptorTables { process: process.dir(), first, several, is_own: self.is_own };
        Ok(match tables.read(Instant::now() + TIME) {
            Ok(held) => {
                let (devices, cut) = held.all();
                (Answer::Known(devices), cut)
            }
            Err(errno) => (Answer::Missing(self.refusals.why(ReadKind::Devices, errno)), None),
        })
    }

    /// The environment, and what `stat` says of the same program.
    fn environment(
        &mut self,
        thread: &PinnedProcess,
        depth: Depth,
    ) -> Result<(Stat, Answer<Environment>), NotRead> {
        at_exec::of(thread, depth, &mut self.text, &self.refusals)
    }
}

/// The path of its cgroup. One that may be cut can name another cgroup, which somebody made
/// to be found.
fn cgroup(thread: &PinnedProcess) -> Result<Option<Text>, NotRead> {
    match thread.cgroups() {
        Ok(lines) => Ok(lines.unified().filter(|line| !may_be_cut(line)).map(Text::from)),
        Err(NotRead::Failed(_, Errno::ENAMETOOLONG)) => Ok(None),
        Err(why) => Err(why),
    }
}

/// What a thread says that goes on, where the main thread is ending; without one the process
/// is gone.
fn running<T>(
    process: &PinnedProcess,
    main: &Stat,
    ask: impl FnMut(&PinnedProcess) -> Result<T, NotRead>,
) -> Result<T, NotRead> {
    if main.is_ending() && process.is_ending()? {
        return Err(NotRead::Gone);
    }
    process.by_thread(main, ask)
}
