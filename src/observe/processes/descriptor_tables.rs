//! Finds every table of descriptors of a process. Nearly all processes have one,
//! which `/proc/PID/fd` shows. A thread can get its own
//! (`unshare(CLONE_FILES)`), and a main thread that has ended shows none, whatever
//! its other threads hold.

use std::cmp::Ordering;
use std::time::Instant;

use nix::errno::Errno;

use super::devices::{HeldDevices, descriptors};
use crate::sys::dir::Dir;
use crate::sys::kcmp::compare_files;

/// Threads that are asked for their tables, and different tables that are read.
const THREADS: usize = 1 << 14;
const TABLES: usize = 512;

/// A process whose descriptor tables are searched.
#[derive(Clone, Copy, Debug)]
pub(in crate::observe) struct DescriptorTables<'a> {
    /// Its directory.
    pub(in crate::observe) process: &'a Dir,
    /// The directory and number of the thread that is read first: the main thread,
    /// or another if that has ended.
    pub(in crate::observe) first: (&'a Dir, u32),
    /// Whether it has other threads.
    pub(in crate::observe) several: bool,
    /// Whether this `/proc` has the pids that system calls use.
    pub(in crate::observe) is_own: bool,
}

impl DescriptorTables<'_> {
    /// The devices in all tables, each table once, as far as the time suffices.
    ///
    /// # Errors
    ///
    /// Those of reading the first table.
    pub(in crate::observe) fn read(self, end: Instant) -> Result<HeldDevices, Errno> {
        let mut held = HeldDevices::default();
        descriptors(self.first.0, &mut held, end)?;
        if self.several {
            self.others(&mut held, end)?;
        }
        Ok(held)
    }

    /// Adds the tables that are not that of the first thread.
    fn others(self, held: &mut HeldDevices, end: Instant) -> Result<(), Errno> {
        let tasks = self.process.child(c"task")?;
        // A thread of each table, in the order that the kernel gives tables.
        let (mut known, mut threads) = (vec![self.first.1], 0);
        tasks.numbers(c".", |name, tid| {
            threads += 1;
            if threads > THREADS || known.len() > TABLES || Instant::now() >= end {
                held.cut(format!("descriptors of {} threads were looked at, and it has more", threads - 1));
                return false;
            }
            let place = if self.is_own { find(&known, tid) } else { Err(Errno::ENOSYS) };
            if place == Ok(Ok(())) || tid == self.first.1 {
                return true;
            }
            // It may end at any time.
            let Ok(thread) = tasks.child(name) else { return true };
            let mut theirs = HeldDevices::default();
            let read = match place {
                Ok(_) => descriptors(&thread, held, end),
                Err(_) => descriptors(&thread, &mut theirs, end),
            };
            held.join(theirs);
            match (read, place) {
                (Ok(()), Ok(Err(place))) => known.insert(place.min(known.len()), tid),
                (Ok(()), _) | (Err(Errno::ENOENT | Errno::ESRCH), _) => {}
                (Err(_), _) => held.cut("the descriptors of a thread cannot be read"),
            }
            true
        })
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
