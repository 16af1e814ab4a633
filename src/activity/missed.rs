//! Ends of processes and threads that the kernel did not report, because it did not run the
//! program at its tracepoint ([`Kernel::missed`]). Their entries are taken out of the tables
//! here: whoever gets their numbers next is not taken for them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::path::Path;

use super::ActivityError;
use super::kernel::Kernel;
use super::layout::{self, Process};
use super::pending::{self, Threads};
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::sys::absence::is_absence;
use crate::sys::dir::Dir;
use crate::sys::stat::stat_at;

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
    /// time. `tick` is the length of a clock tick in nanoseconds.
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
        if missed == self.known {
            return Ok(());
        }
        let counted = counted(kernel)?;
        let over: BTreeSet<u64> =
            counted.iter().filter(|(_, process)| is_over(proc, process, tick)).map(|(id, _)| *id).collect();
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

/// Whether a process is seen to be gone, or its number to be another one's.
fn is_over(proc: &Path, process: &Process, tick: u64) -> bool {
    match PinnedProcess::at(proc, process.pid).and_then(|found| found.stat()) {
        Ok(stat) => stat.start_time != process.start / tick.max(1) || stat.has_ended() && stat.threads <= 1,
        Err(error) => matches!(error, NotRead::Gone),
    }
}

/// Whether a process is seen to have no such thread.
fn has_no_thread(proc: &Path, pid: u32, tid: u32) -> bool {
    let name = CString::new(format!("{pid}/task/{tid}"));
    let (Ok(proc), Ok(name)) = (Dir::open(proc), name) else { return false };
    matches!(stat_at(&proc, &name), Err(errno) if is_absence(errno))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    const TICK: u64 = 10_000_000;

    fn process(pid: u32, start: u64) -> Process {
        let mut bytes = vec![0; 256];
        bytes[..8].copy_from_slice(&(start * TICK + 1).to_ne_bytes());
        bytes[32..36].copy_from_slice(&pid.to_ne_bytes());
        Process::read(&bytes).unwrap()
    }

    fn start_of(pid: u32) -> u64 {
        PinnedProcess::at("/proc".as_ref(), pid).unwrap().stat().unwrap().start_time
    }

    /// Make sure that a process is over when it has ended, whether or not its parent asked for
    /// that, and when its number is another one's; and that its end is written where it is read.
    #[test]
    fn ends() {
        let proc = Path::new("/proc");
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let known = process(child.id(), start_of(child.id()));
        assert!(!is_over(proc, &known, TICK));
        assert!(is_over(proc, &process(child.id(), start_of(child.id()) + 1), TICK));
        drop(child.stdin.take());
        let began = std::time::Instant::now();
        while !is_over(proc, &known, TICK) {
            assert!(began.elapsed().as_secs() < 60);
        }
        child.wait().unwrap();
        assert!(is_over(proc, &known, TICK));
        assert!(!is_over("/nothing/here".as_ref(), &known, TICK), "what cannot be looked at is not over");
        let mut bytes = vec![0; 256];
        layout::end(&mut bytes, 7);
        assert_eq!(Process::read(&bytes).unwrap().ended, 7);
    }

    /// Make sure that a thread is gone when its process has it no more.
    #[test]
    fn threads() {
        let (pid, proc) = (std::process::id(), Path::new("/proc"));
        let (tell, told) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(nix::unistd::gettid().as_raw()).unwrap();
            wait.recv().unwrap();
        });
        let tid = u32::try_from(told.recv().unwrap()).unwrap();
        assert!(!has_no_thread(proc, pid, tid) && has_no_thread(proc, 1, tid));
        go.send(()).unwrap();
        thread.join().unwrap();
        let began = std::time::Instant::now();
        while !has_no_thread(proc, pid, tid) {
            assert!(began.elapsed().as_secs() < 60);
        }
        assert!(!has_no_thread("/nothing/here".as_ref(), pid, tid), "what cannot be looked at is not gone");
    }
}
