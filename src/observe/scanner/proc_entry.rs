//! Reads one process of `/proc`; runs in a helper.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::interface::ProcessSummary;
use crate::observation::{Answer, Environment, HeldDevice, Text};
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::processes::descriptor_tables::DescriptorTables;
use crate::observe::processes::environment::at_exec;
use crate::observe::processes::helpers::depth::Depth;
use crate::observe::processes::refusals::{ReadKind, Refusals};
use crate::observe::procfile::{Stat, may_be_cut};
use crate::sys::dir::Dir;

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
                let other = if stat.is_ending() { Some(another(&process)?) } else { None };
                let (now, at_exec) = self.environment(other.as_ref().unwrap_or(&process), depth)?;
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
        let other = if stat.is_ending() { Some(another(process)?) } else { None };
        let thread = other.as_ref().unwrap_or(process);
        let (Stat { starts: program, .. }, at_exec) = self.environment(thread, depth)?;
        let cgroup = cgroup(thread)?;
        let several = stat.threads > 1;
        let tables = DescriptorTables { process: process.dir(), first: thread, several, is_own: self.is_own };
        let (devices, devices_cut) = match depth.refusal().filter(|_| depth == Depth::Minimal) {
            Some(why) => (Answer::Missing(why.to_owned()), None),
            None => self.devices(tables),
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
    fn devices(&self, tables: DescriptorTables<'_>) -> (Answer<Vec<HeldDevice>>, Option<String>) {
        match tables.read(Instant::now() + TIME) {
            Ok(held) => {
                let (devices, cut) = held.all();
                (Answer::Known(devices), cut)
            }
            Err(errno) => (Answer::Missing(self.refusals.why(ReadKind::Devices, errno)), None),
        }
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

/// A thread that is not ending, of a process whose main thread is; without one the process
/// is gone.
fn another(process: &PinnedProcess) -> Result<PinnedProcess, NotRead> {
    process.living_thread(|stat| !stat.is_ending())?.ok_or(NotRead::Gone)
}
