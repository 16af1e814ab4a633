//! Ends of processes and threads that the kernel did not report, because it did not run the
//! program at its tracepoint ([`Kernel::missed`]). Their entries are taken out of the tables
//! here: whoever gets their numbers next is not taken for them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::ActivityError;
use super::kernel::Kernel;
use super::layout::{self, Process};
use super::pending::{self, Threads};
use crate::probing::gone::{has_no_thread, is_over, shows_all};

/// What was settled of missed ends.
#[derive(Debug, Default)]
pub(super) struct MissedEnds {
    /// How often programs had not been run when processes were last looked at.
    known: u64,
    /// Launches of threads whose entries were taken out.
    launches: Threads,
}

impl MissedEnds {
    /// Looks which processes and threads have ended, if programs were not run since the last
    /// time. In a pid namespace, or where processes are hidden, nobody is seen to be gone: that
    /// programs were not run is told all the same. `tick` is the length of a clock tick in nanoseconds.
    ///
    /// # Errors
    ///
    /// That of the kernel: it is done again the next time.
    pub(super) fn settle(
        &mut self,
        kernel: &mut Kernel,
        proc: &Path,
        tick: u64,
    ) -> Result<(), ActivityError> {
        let missed = kernel.missed()?;
        if missed == self.known || !shows_all(proc) {
            return Ok(());
        }
        let counted = counted(kernel)?;
        let over: BTreeSet<u64> = counted
            .iter()
            .filter(|(_, process)| is_over(proc, process.pid, process.start / tick.max(1)))
            .map(|(id, _)| *id)
            .collect();
        let is_gone = |tid: u32, process: u64| match counted.get(&process) {
            // One that came since.
            None => false,
            // The first thread stays until the parent asks for the end of the process.
            Some(known) => has_no_thread(proc, known.pid, tid) || over.contains(&process) && tid == known.pid,
        };
        let mut gone = pending::read(kernel)?;
        gone.retain(|(tid, process), _| is_gone(*tid, *process));
        // What the programs did not take out until now they will not take out: whoever is gone
        // from /proc was at its tracepoint before.
        for (thread, launches) in pending::read(kernel)? {
            if gone.contains_key(&thread) {
                self.launches.insert(thread, launches);
                let account = counted.get(&thread.1).map(|process| process.account);
                kernel.forget_thread(thread.0, account)?;
            }
        }
        let ended = |id: &u64, process: &Process| process.ended == 0 && over.contains(id);
        for (id, process) in self::counted(kernel)?.into_iter().filter(|(id, process)| ended(id, process)) {
            kernel.end(id, process.pid)?;
        }
        self.known = missed;
        Ok(())
    }

    /// Adds the launches of threads whose entries were taken out to those of all others, as
    /// long as their process is counted.
    pub(super) fn complete(&mut self, threads: &mut Threads, processes: &BTreeMap<u64, Process>) {
        self.launches.retain(|(_, process), _| processes.contains_key(process));
        threads.extend(self.launches.iter().map(|(thread, launches)| (*thread, *launches)));
    }
}

/// The processes that are counted, with those that have ended since the last reading.
fn counted(kernel: &Kernel) -> Result<BTreeMap<u64, Process>, ActivityError> {
    let entries = kernel.entries("processes")?;
    let read = |(key, value): &(Vec<u8>, Vec<u8>)| layout::long(key).zip(Process::read(value));
    Ok(entries.iter().filter_map(read).filter(|(_, process)| process.pid != 0).collect())
}
