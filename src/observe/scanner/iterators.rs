//! Lists processes by BPF iterators: `bpf/scan.bpf.c` writes their records, as `bpf/scan.h`
//! lays them out. Helpers read the environments, once for each program that a process
//! executes.

use std::collections::{HashMap, HashSet};
use std::io::{ErrorKind, Read};
use std::thread;
use std::time::{Duration, Instant};

use super::interface::{ProcessSummary, ScanContents, ScanError, ScanMethod, Scanner};
use super::proc::{Executed, HelperReader};
use crate::loader::interface::SCAN;
use crate::loader::{self, Iterate, IteratorScope, ObjectSpec};
use crate::observation::{Answer, Environment, Text};
use crate::observe::clock;
use crate::observe::processes::devices::HeldDevices;
use crate::sys::fields::{long, word};
use crate::sys::stat::FileKind;

/// Bytes of one read: more than the kernel returns at once (eight pages), so that no
/// record is split.
const ROOM: usize = 64 << 10;

/// Why there is no environment where none was asked for.
const NOT_ASKED: &str = "it was not asked for";

/// How long the kernel may take to show everything. A large node takes a fiftieth of
/// that. But it shows each descriptor of each thread that does not share its main
/// thread's table, and a user can make a thousand million of those for little memory.
const LONGEST: Duration = Duration::from_secs(3);

const TOO_LONG: &str = "it takes too long: some process has very many descriptors";

/// Sees processes by iterators.
#[derive(Debug)]
pub(super) struct Iterators {
    tasks: Box<dyn Iterate>,
    files: Box<dyn Iterate>,
    known: EnvironmentCache,
    /// For what the iterators do not read.
    reader: HelperReader,
    contents: ScanContents,
    /// One for each of the two.
    buffers: [Vec<u8>; 2],
}

impl Iterators {
    /// Loads the programs. The kernel removes them when the value is dropped.
    ///
    /// # Errors
    ///
    /// They cannot be loaded: the kernel is too old or has no BTF, or a right is
    /// missing (`CAP_BPF` and `CAP_PERFMON`, or `CAP_SYS_ADMIN`).
    pub(super) fn load(reader: HelperReader, contents: ScanContents) -> Result<Self, ScanError> {
        let mut loaded = loader::shared()?.load(&ObjectSpec::whole(&SCAN))?;
        let tasks = loaded.iterator("tasks", IteratorScope::All)?;
        let files = loaded.iterator("files", IteratorScope::All)?;
        let buffers = [vec![0; ROOM], vec![0; ROOM]];
        Ok(Self { tasks, files, known: EnvironmentCache::default(), reader, contents, buffers })
    }

    /// Adds what `/proc` lists and no iterator has shown: processes that have
    /// just begun, and those that a hardened kernel keeps from iterators.
    fn add_unseen(&mut self, found: &mut Vec<ProcessSummary>, seen: &HashSet<u32>) -> Result<(), ScanError> {
        let unseen: Vec<u32> = self.reader.pids()?.into_iter().filter(|pid| !seen.contains(pid)).collect();
        found.extend(self.reader.processes(&unseen));
        Ok(())
    }
}

impl Scanner for Iterators {
    fn engine(&self) -> ScanMethod {
        ScanMethod::Iterators
    }

    fn unread(&self) -> &[u32] {
        self.reader.unread()
    }

    fn scan(&mut self) -> Result<Vec<ProcessSummary>, ScanError> {
        self.reader.begin();
        // A tick earlier: a process has its start time before it is there.
        let begun = clock::ticks_since_boot().saturating_sub(1);
        let [tasks, files] = &mut self.buffers;
        let contents = self.contents;
        let (links, reader, known) = ((&*self.tasks, &*self.files), &mut self.reader, &mut self.known);
        let (processes, devices) = thread::scope(|scope| {
            let devices = scope.spawn(|| open_devices(links.1, files));
            let processes = processes(links.0, tasks, reader, known, contents);
            (processes, devices.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        self.known.turn();
        let ((mut found, mut seen), mut devices) = (processes?, devices?);
        // The files of one that has begun since may have been passed already.
        found.retain(|process| process.start_time < begun || !seen.remove(&process.pid));
        let helpers = self.reader.helpers();
        found.retain(|process| !helpers.contains(&process.pid));
        for process in &mut found {
            if let Some(open) = devices.remove(&(process.pid, process.start_time)) {
                let (devices, cut) = open.held.all();
                process.devices = Answer::Known(devices);
                process.devices_cut = cut;
            }
        }
        self.add_unseen(&mut found, &seen)?;
        found.sort_unstable_by_key(|process| process.pid);
        Ok(found)
    }
}

/// All processes without their devices, and the pids that were shown.
fn processes(
    iterator: &dyn Iterate,
    buffer: &mut [u8],
    reader: &mut HelperReader,
    known: &mut EnvironmentCache,
    contents: ScanContents,
) -> Result<(Vec<ProcessSummary>, HashSet<u32>), ScanError> {
    let (mut tasks, mut seen) = (Vec::new(), HashSet::new());
    each(iterator, buffer, |bytes| {
        let (task, length) = task(bytes)?;
        // The main thread has ended, and shows the cgroup in which it did. Others may
        // be elsewhere: `/proc` shows one that lives.
        if task.is_process && task.program == (0, 0) {
            return Some(length);
        }
        seen.insert(task.pid);
        if task.is_process {
            tasks.push(task);
        }
        Some(length)
    })?;
    let found = match contents {
        ScanContents::Environments => with_environments(tasks, reader, known),
        ScanContents::DevicesOnly => {
            let unread = || Answer::Missing(NOT_ASKED.to_owned());
            tasks.into_iter().map(|task| process((task.program, unread()), task, reader)).collect()
        }
    };
    Ok((found, seen))
}

/// Adds environments to processes: known ones that are still valid, and those that
/// helpers read now.
fn with_environments(
    tasks: Vec<Task>,
    reader: &mut HelperReader,
    known: &mut EnvironmentCache,
) -> Vec<ProcessSummary> {
    let last: Vec<_> = tasks.iter().map(|task| known.take(task)).collect();
    let new = tasks.iter().zip(&last).filter(|(_, last)| last.is_none());
    let new: Vec<(u32, u64)> = new.map(|(task, _)| (task.pid, task.start_time)).collect();
    let mut read = reader.environments(&new);
    let (mut next, mut found) = (0.., Vec::new());
    for (task, last) in tasks.into_iter().zip(last) {
        let executed = match last {
            Some(at_exec) => Some((task.program, at_exec)),
            None => next.next().and_then(|place| read.remove(&place)),
        };
        // A process without an environment is gone.
        let Some((program, at_exec)) = executed else { continue };
        if program == task.program && at_exec.known().is_some() {
            known.keep(&task, &at_exec);
        }
        found.push(process((program, at_exec), task, reader));
    }
    found
}

/// The devices that are open anywhere.
fn open_devices(iterator: &dyn Iterate, buffer: &mut [u8]) -> Result<Devices, ScanError> {
    let mut devices = Devices::new();
    each(iterator, buffer, |bytes| {
        let (open, length) = open(bytes)?;
        add(&mut devices, &open);
        Some(length)
    })?;
    Ok(devices)
}

/// A process without its devices.
fn process((program, at_exec): Executed, task: Task, reader: &HelperReader) -> ProcessSummary {
    ProcessSummary {
        pid: task.pid,
        start_time: task.start_time,
        program,
        uid: task.uid,
        comm: task.comm,
        cgroup: reader.has_cgroups().then_some(task.cgroup),
        at_exec,
        devices: Answer::default(),
        devices_cut: None,
    }
}

/// Runs a program over all its objects. `visit` parses the first record of the bytes
/// and returns its length; `None` for an incomplete record.
fn each(
    iterator: &dyn Iterate,
    buffer: &mut [u8],
    mut visit: impl FnMut(&[u8]) -> Option<usize>,
) -> Result<(), ScanError> {
    let end = Instant::now() + LONGEST;
    let mut file = iterator.open().map_err(|error| ScanError::Read(error.to_string()))?;
    loop {
        let length = read(&mut *file, buffer, end)?;
        let mut rest = buffer.get(..length).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
        while !rest.is_empty() {
            let torn = || ScanError::Read("a record is not whole".to_owned());
            rest = visit(rest).and_then(|length| rest.get(length..)).ok_or_else(torn)?;
        }
    }
}

/// Reads on. The kernel returns at the latest after a million objects, and asks for the
/// read to be repeated if none of them gave a record.
fn read(file: &mut dyn Read, buffer: &mut [u8], end: Instant) -> Result<usize, ScanError> {
    while Instant::now() < end {
        match file.read(buffer) {
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            other => return other.map_err(|error| ScanError::Read(error.to_string())),
        }
    }
    Err(ScanError::Read(TOO_LONG.to_owned()))
}

/// Which program of which process: start time, programs executed, and where
/// code and stack begin.
type Program = (u64, u64, (u64, u64));

/// Environments by pid, those of the last scan.
#[derive(Debug, Default)]
pub(super) struct EnvironmentCache {
    last: HashMap<u32, (Program, Answer<Environment>)>,
    next: HashMap<u32, (Program, Answer<Environment>)>,
}

impl EnvironmentCache {
    /// The environment of a process, if it runs the same program still.
    pub(super) fn take(&mut self, task: &Task) -> Option<Answer<Environment>> {
        let (program, at_exec) = self.last.remove(&task.pid)?;
        (program == key(task)).then_some(at_exec)
    }

    /// Keeps it for the next scan.
    pub(super) fn keep(&mut self, task: &Task, at_exec: &Answer<Environment>) {
        self.next.insert(task.pid, (key(task), at_exec.clone()));
    }

    /// Ends a scan: environments that were not used are forgotten.
    pub(super) fn turn(&mut self) {
        self.last = std::mem::take(&mut self.next);
    }
}

fn key(task: &Task) -> Program {
    (task.start_time, task.executed, task.program)
}

/// Devices by process.
pub(super) type Devices = HashMap<(u32, u64), ProcessDevices>;

/// The open devices of one process.
#[derive(Debug, Default)]
pub(super) struct ProcessDevices {
    pub(super) held: HeldDevices,
    /// The first thread that showed each table. A process can have as many tables as
    /// threads, so that a list of them would have to be searched too often.
    tables: HashMap<u64, u32>,
}

/// Counts an open device, unless its table was shown by another thread.
pub(super) fn add(devices: &mut Devices, open: &Open) {
    let process = devices.entry((open.pid, open.start_time)).or_default();
    let thread = *process.tables.entry(open.table).or_insert(open.thread);
    if thread == open.thread {
        process.held.open(open.kind, open.rdev);
    }
}

/// Nanoseconds of a clock tick of `/proc` (`USER_HZ` is 100 everywhere).
pub(super) const TICK: u64 = 10_000_000;

/// Sizes of `struct scan_task` and `struct scan_file`.
const TASK: usize = 72;

const COMM: usize = 16;

const FILE: usize = 32;

/// `SCAN_NO_PROCESS` of `enum scan_flag`.
const NO_PROCESS: u32 = 1;

/// Bits of a minor number in the kernel's `dev_t` (`linux/kdev_t.h`).
const MINOR_BITS: u32 = 20;

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) pid: u32,
    pub(super) start_time: u64,
    pub(super) program: (u64, u64),
    /// Counts the programs that it has executed, as its first thread sees it.
    pub(super) executed: u64,
    pub(super) uid: u32,
    pub(super) comm: Text,
    pub(super) cgroup: u64,
    /// Whether it is neither a thread of the kernel nor has ended.
    pub(super) is_process: bool,
}

/// A device that a thread has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) pid: u32,
    pub(super) start_time: u64,
    /// Only for comparing.
    pub(super) table: u64,
    pub(super) thread: u32,
    pub(super) kind: FileKind,
    pub(super) rdev: (u32, u32),
}

/// The first record of a process and its length; `None` if it is not whole.
pub(super) fn task(bytes: &[u8]) -> Option<(Task, usize)> {
    let comm = bytes.get(TASK - COMM..TASK)?.split(|byte| *byte == 0).next()?;
    let (code, is_process) = (long(bytes, 16)?, word(bytes, 48)? & NO_PROCESS == 0);
    let task = Task {
        pid: word(bytes, 40)?,
        start_time: long(bytes, 0)? / TICK,
        program: (code, long(bytes, 24)?),
        executed: long(bytes, 32)?,
        uid: word(bytes, 44)?,
        comm: comm.into(),
        cgroup: long(bytes, 8)?,
        is_process,
    };
    Some((task, TASK))
}

/// The first record of a file and its length; `None` if it is not whole.
pub(super) fn open(bytes: &[u8]) -> Option<(Open, usize)> {
    let rdev = word(bytes, 20)?;
    let open = Open {
        pid: word(bytes, 16)?,
        start_time: long(bytes, 0)? / TICK,
        table: long(bytes, 8)?,
        thread: word(bytes, 28)?,
        kind: if word(bytes, 24)? == 0 { FileKind::Char } else { FileKind::Block },
        rdev: (rdev >> MINOR_BITS, rdev & ((1 << MINOR_BITS) - 1)),
    };
    Some((open, FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_task() -> Task {
        Task {
            pid: 31,
            start_time: 77,
            program: (10, 11),
            executed: 3,
            uid: 0,
            comm: "x".into(),
            cgroup: 9,
            is_process: true,
        }
    }

    /// Make sure that an environment is only used for the same program of the same
    /// process, and only from the last scan.
    #[test]
    fn programs() {
        let at_exec = Answer::Known(Environment::default());
        let others = [
            Task { pid: 32, ..a_task() },
            Task { start_time: 78, ..a_task() },
            Task { executed: 4, ..a_task() },
            Task { program: (10, 12), ..a_task() },
        ];
        for other in others {
            let mut known = EnvironmentCache::default();
            known.keep(&a_task(), &at_exec);
            known.turn();
            assert_eq!(known.take(&other), None);
        }
        let mut known = EnvironmentCache::default();
        known.keep(&a_task(), &at_exec);
        known.turn();
        assert_eq!(known.take(&a_task()), Some(at_exec));
        known.turn();
        assert_eq!(known.take(&a_task()), None);
    }

    fn record(flags: u32) -> Vec<u8> {
        let mut record = Vec::new();
        for long in [77 * TICK + 1, 9, 10, 11, 3_u64] {
            record.extend(long.to_ne_bytes());
        }
        for word in [31, 1000, flags, 0] {
            record.extend(u32::to_ne_bytes(word));
        }
        record.extend(b"python3\0\0\0\0\0\0\0\0\0");
        assert_eq!(record.len(), TASK);
        record
    }

    /// Make sure that records of several processes are read in a row.
    #[test]
    fn processes() {
        let two = [record(0), record(NO_PROCESS)].concat();
        let (first, length) = task(&two).unwrap();
        let expected = Task {
            pid: 31,
            start_time: 77,
            program: (10, 11),
            executed: 3,
            uid: 1000,
            comm: "python3".into(),
            cgroup: 9,
            is_process: true,
        };
        assert_eq!((first, length), (expected, TASK));
        assert!(!task(&two[length..]).unwrap().0.is_process);
        assert!((0..TASK).all(|length| task(&two[..length]).is_none()));
    }

    /// Make sure that device numbers are taken apart as the kernel joins them.
    #[test]
    fn files() {
        let mut record = Vec::new();
        record.extend((77 * TICK).to_ne_bytes());
        record.extend(5_u64.to_ne_bytes());
        for word in [31, 195 << 20 | 255, 0, 32] {
            record.extend(u32::to_ne_bytes(word));
        }
        let expected =
            Open { pid: 31, start_time: 77, table: 5, thread: 32, kind: FileKind::Char, rdev: (195, 255) };
        assert_eq!(open(&record), Some((expected, FILE)));
        assert!((0..FILE).all(|length| open(&record[..length]).is_none()));
    }
}
