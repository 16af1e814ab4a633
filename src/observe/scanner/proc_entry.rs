//! Reads one process of `/proc`; runs in a helper.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::interface::ProcessSummary;
use crate::observation::{Answer, Environment, HeldDevice, Text};
use crate::observe::living_thread::living_thread;
use crate::observe::processes::descriptor_tables::DescriptorTables;
use crate::observe::processes::environment::at_exec;
use crate::observe::processes::helpers::depth::Depth;
use crate::observe::processes::memory::Memory;
use crate::observe::processes::refusals::{ReadKind, Refusals};
use crate::observe::procfile::STAT_LIMIT;
use crate::observe::procfile::{Stat, cgroup_line, may_be_cut, parse_stat};
use crate::sys::dir::Dir;

/// Bytes read of `cgroup`, some fifteen lines.
const CGROUP_LIMIT: usize = 256 << 10;
/// How often an environment is read that does not exist yet.
const TRIES: usize = 3;
/// How long the descriptors of one process may take.
const TIME: Duration = Duration::from_secs(2);
const NO_ENVIRONMENT: &str = "it executes a program or is ending: it has no environment";

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
    /// Answers a question.
    pub(super) fn at(&mut self, pid: u32, question: ProcessQuestion, depth: Depth) -> Option<EntryAnswer> {
        let dir = self.root.child(pid.to_string().as_str()).ok()?;
        match question {
            ProcessQuestion::All => self.process(pid, &dir, depth),
            ProcessQuestion::Environment(start_time) => {
                let stat = self.stat(&dir)?;
                let thread = if stat.is_ending { another(&dir)?.1 } else { dir };
                let (starts, at_exec) = self.environment(&thread, depth)?;
                (stat.start_time == start_time).then_some(EntryAnswer::Environment(starts, at_exec))
            }
        }
    }

    /// One process; `None` if it is gone, has ended or is a kernel thread.
    fn process(&mut self, pid: u32, dir: &Dir, depth: Depth) -> Option<EntryAnswer> {
        let uid = dir.stat().ok()?.uid;
        let stat = self.stat(dir).filter(|stat| !stat.is_kernel_thread)?;
        let living = if stat.is_ending { Some(another(dir)?) } else { None };
        let (first, thread) = living.as_ref().map_or((pid, dir), |(tid, thread)| (*tid, thread));
        let (program, at_exec) = self.environment(thread, depth)?;
        let cgroup = self.cgroup(thread);
        let tables = DescriptorTables {
            process: dir,
            first: (thread, first),
            several: stat.threads > 1,
            is_own: self.is_own,
        };
        let (devices, devices_cut) = match depth.refusal().filter(|_| depth == Depth::Minimal) {
            Some(why) => (Answer::Missing(why.to_owned()), None),
            None => self.devices(tables),
        };
        let (start_time, comm) = (stat.start_time, stat.comm);
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
        Some(EntryAnswer::Process(process, cgroup))
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

    /// The environment, and where code and stack of the same program begin. An
    /// environment without an end does not exist yet, though it reads as empty.
    fn environment(&mut self, thread: &Dir, depth: Depth) -> Option<((u64, u64), Answer<Environment>)> {
        let mut starts = (0, 0);
        for _ in 0..TRIES {
            // In this order: what `stat` says is of the memory, or that is dead.
            let mut memory = match depth {
                Depth::Full => Memory::open(thread),
                Depth::WithoutMemory | Depth::Minimal => Err(Errno::EAGAIN),
            };
            let stat = self.stat(thread)?;
            starts = stat.starts;
            if let Some(why) = depth.refusal() {
                return Some((starts, Answer::Missing(why.to_owned())));
            }
            let found = at_exec::read(&mut memory, stat.environment, &mut self.text, &self.refusals);
            let is_empty = found.known().is_some_and(|one| *one == Environment::default());
            let is_alive = memory.map_or(true, |memory| memory.is_alive());
            if is_alive && (!is_empty || stat.environment.1 != 0) {
                return Some((starts, found));
            }
        }
        Some((starts, Answer::Missing(NO_ENVIRONMENT.to_owned())))
    }

    fn stat(&mut self, dir: &Dir) -> Option<Known> {
        dir.read_piece(c"stat", &mut self.text, STAT_LIMIT).ok()?;
        parse_stat(&self.text).as_ref().map(Known::from)
    }

    fn cgroup(&mut self, dir: &Dir) -> Option<Text> {
        dir.read_piece(c"cgroup", &mut self.text, CGROUP_LIMIT).ok()?;
        // One that may be cut can name another cgroup, which somebody made to be found.
        cgroup_line(&self.text, None).filter(|line| !may_be_cut(line)).map(Text::from)
    }
}

/// A thread that is not ending, of a process whose main thread is.
fn another(dir: &Dir) -> Option<(u32, Dir)> {
    living_thread(dir, |stat| !stat.is_ending())
}

/// Facts from `stat`.
struct Known {
    start_time: u64,
    threads: u32,
    comm: Text,
    starts: (u64, u64),
    environment: (u64, u64),
    is_kernel_thread: bool,
    is_ending: bool,
}

impl From<&Stat<'_>> for Known {
    fn from(stat: &Stat<'_>) -> Self {
        Self {
            start_time: stat.start_time,
            threads: stat.threads,
            comm: stat.comm.into(),
            starts: stat.starts,
            environment: stat.environment,
            is_kernel_thread: stat.is_kernel_thread(),
            is_ending: stat.is_ending(),
        }
    }
}
