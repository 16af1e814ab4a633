//! Finds every table of descriptors of a process. Nearly all processes have one,
//! which `/proc/PID/fd` shows. A thread can get its own
//! (`unshare(CLONE_FILES)`), and a main thread that has ended shows none, whatever
//! its other threads hold.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Instant;

use nix::errno::Errno;

use super::devices::{HeldDevices, descriptors};
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::sys::absence::is_end;
use crate::sys::dir::Dir;
use crate::sys::pidfd::compare_files;

/// Threads that are asked for their tables, and different tables that are read.
const THREADS: usize = 1 << 14;
const TABLES: usize = 512;
/// How often threads are listed that end before they are looked at.
const LISTINGS: usize = 16;

/// A process whose descriptor tables are searched.
#[derive(Clone, Copy, Debug)]
pub(in crate::observe) struct DescriptorTables<'a> {
    /// Its directory.
    pub(in crate::observe) process: &'a Dir,
    /// The thread that is read first: the main thread, or another if that has ended.
    pub(in crate::observe) first: &'a PinnedProcess,
    /// Whether it has other threads.
    pub(in crate::observe) several: bool,
    /// Whether this `/proc` has the pids that system calls use.
    pub(in crate::observe) is_own: bool,
}

/// What was looked at so far.
#[derive(Debug)]
struct Progress {
    /// A thread of each table, in the order that the kernel gives tables.
    tables: Vec<u32>,
    /// The threads that were looked at.
    threads: BTreeSet<u32>,
    /// Whether a thread ended before it was looked at: what it held another may hold.
    vanished: bool,
}

impl DescriptorTables<'_> {
    /// The devices in all tables, each table once, as far as the time suffices.
    ///
    /// # Errors
    ///
    /// Those of reading the first table.
    pub(in crate::observe) fn read(self, end: Instant) -> Result<HeldDevices, Errno> {
        let mut held = HeldDevices::default();
        match descriptors(self.first.dir(), &mut held, end) {
            // It has ended meanwhile, and others have what it had.
            Err(errno) if self.several && self.first.failed("/fd", errno) == NotRead::Gone => {}
            read => read?,
        }
        if self.several {
            self.others(&mut held, end)?;
        }
        Ok(held)
    }

    /// Adds the tables that are not that of the first thread. Threads are listed again as
    /// long as some end before they are looked at.
    fn others(self, held: &mut HeldDevices, end: Instant) -> Result<(), Errno> {
        let tasks = self.process.child(c"task")?;
        let first = self.first.pid();
        let (tables, threads) = (vec![first], BTreeSet::from([first]));
        let mut progress = Progress { tables, threads, vanished: true };
        for _ in 0..LISTINGS {
            if !std::mem::take(&mut progress.vanished) {
                return Ok(());
            }
            tasks.numbers(c".", |_, tid| {
                let Progress { threads, tables, .. } = &progress;
                if threads.len() > THREADS || tables.len() > TABLES || Instant::now() >= end {
                    let count = threads.len();
                    held.cut(format!("descriptors of {count} threads were looked at, and it has more"));
                    return false;
                }
                if !threads.contains(&tid) {
                    self.thread(&tasks, tid, &mut progress, held, end);
                }
                true
            })?;
        }
        if progress.vanished {
            held.cut("its threads begin and end faster than their descriptors can be looked at");
        }
        Ok(())
    }

    /// Adds the table of one thread, if it is not known yet.
    fn thread(self, tasks: &Dir, tid: u32, progress: &mut Progress, held: &mut HeldDevices, end: Instant) {
        let place = if self.is_own { find(&progress.tables, tid) } else { Err(Errno::ENOSYS) };
        // It shares the only table that there is.
        if place == Ok(Ok(())) && progress.tables.len() == 1 {
            progress.threads.insert(tid);
            return;
        }
        let mut theirs = HeldDevices::default();
        let thread = PinnedProcess::open(tasks, tid);
        let read = match (&thread, place) {
            (Err(NotRead::Gone), _) => Err(Errno::ESRCH),
            (Err(NotRead::Failed(_, errno)), _) => Err(*errno),
            (Err(NotRead::Fleeting), _) => Err(Errno::EAGAIN),
            (Ok(_), Ok(Ok(()))) => Ok(()),
            // No failure: the place where its table belongs.
            (Ok(thread), Ok(Err(_))) => descriptors(thread.dir(), held, end),
            // Where tables cannot be compared, each thread's is read.
            (Ok(thread), Err(_)) => descriptors(thread.dir(), &mut theirs, end),
        };
        held.join(theirs);
        // A thread that is ending has no table any more, as all others that are: it looks
        // empty, or the same as another one.
        let is_ending = |thread: &PinnedProcess| match thread.stat() {
            Ok(stat) => stat.is_ending(),
            Err(NotRead::Gone) => true,
            Err(NotRead::Fleeting | NotRead::Failed(..)) => false,
        };
        // One that could not be opened is told below.
        progress.vanished |= thread.as_ref().is_ok_and(is_ending);
        match read {
            Ok(()) => {}
            Err(errno) if is_end(errno) => {
                progress.vanished = true;
                return;
            }
            // The reason is told with the devices.
            Err(_) => held.cut("the descriptors of a thread cannot be read"),
        }
        progress.threads.insert(tid);
        if let (Ok(()), Ok(Err(place))) = (read, place) {
            progress.tables.insert(place.min(progress.tables.len()), tid);
        }
    }
}

/// The position of a thread's table among these: the table it shares, or the place
/// where its own belongs.
fn find(known: &[u32], tid: u32) -> Result<Result<(), usize>, Errno> {
    let (mut low, mut high) = (0, known.len());
    while low < high {
        let middle = low.midpoint(high);
        let other = known.get(middle).copied().ok_or(Errno::ESRCH)?;
        match compare_files(other, tid)? {
            Ordering::Equal => return Ok(Ok(())),
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
        }
    }
    Ok(Err(low))
}
