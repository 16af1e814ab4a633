//! Whether a process holds the lock of its memory map for good, and how probes are detached
//! all the same.
//!
//! To attach or detach a uprobe the kernel takes that lock of every process
//! that maps the file, one after another, and keeps fork(2) on the whole node
//! waiting meanwhile (`register_for_each_vma` in kernel/events/uprobes.c holds
//! `dup_mmap_sem`). A user can hold the lock for as long as a FUSE server of
//! theirs is silent: the node would stand still. So nothing is attached or
//! detached while a process does not answer. A process that takes the lock in
//! the moment after it answered is not seen.
//!
//! Probes are detached in a thread of its own. The kernel waits each time until no CPU runs
//! the programs any more, for some tens of milliseconds, and before that for the locks of
//! memory maps.

use std::ffi::CString;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::loader::AttachedProbes;
use crate::sys::dir::Dir;
use crate::sys::helper::{Channel, Ended, Helper, left_behind, wait};
use crate::sys::stat::stat_at;

/// How long one process may take to answer. The kernel itself holds the lock
/// for that long where a large part of memory is given back.
const PATIENCE: Duration = Duration::from_millis(200);

/// How long an answer counts: that all are free, and that one is not.
const FREE: Duration = Duration::from_millis(100);

const HELD: Duration = Duration::from_secs(5);

/// How often those who wait ask again.
const AGAIN: Duration = Duration::from_millis(500);

/// Helpers that may be left behind by this gpumap.
const LEFT_BEHIND: usize = 16;

/// What the helper sends when all processes have answered: shorter than a pid.
const DONE: [u8; 1] = [0];

/// Asks all processes for their locks, and remembers the answer for a moment.
#[derive(Debug)]
pub(super) struct Locks {
    proc: PathBuf,
    helper: Option<Helper>,
    known: Option<(Instant, Result<(), String>)>,
}

impl Locks {
    /// For the processes of this `/proc`. Nothing is asked yet.
    pub(super) fn of(proc: &Path) -> Self {
        Self { proc: proc.to_owned(), helper: None, known: None }
    }

    /// Whether every process of the node answers.
    ///
    /// # Errors
    ///
    /// The one that does not, and whose it is.
    pub(super) fn free(&mut self) -> Result<(), String> {
        // Only how long the answer serves depends on it: both are handed on.
        let counts = |result: &Result<(), String>| if result.is_ok() { FREE } else { HELD };
        if let Some((at, result)) = &self.known
            && at.elapsed() < counts(result)
        {
            return result.clone();
        }
        let result = self.ask();
        self.known = Some((Instant::now(), result.clone()));
        result
    }

    /// Waits until every process of the node answers, for `limit` at most.
    pub(super) fn wait(&mut self, limit: Option<Duration>) {
        let begun = Instant::now();
        // It waits for the failure to pass; who asks next is told one.
        while self.ask().is_err() && limit.is_none_or(|limit| begun.elapsed() < limit) {
            std::thread::sleep(AGAIN);
        }
    }

    fn ask(&mut self) -> Result<(), String> {
        if left_behind() >= LEFT_BEHIND {
            return Err("too many processes hold the locks of their memory maps".to_owned());
        }
        let mut helper = match self.helper.take() {
            Some(helper) => helper,
            None => {
                start(&self.proc).map_err(|errno| format!("no helper can be started: {}", errno.desc()))?
            }
        };
        let ended = |Ended| "the helper that asks for locks has ended".to_owned();
        let before = helper.made();
        helper.send(&[]).map_err(ended)?;
        let (mut list, mut made, mut since) = (Vec::new(), before, Instant::now());
        loop {
            while let Some(message) = helper.receive().map_err(ended)? {
                if message == DONE {
                    self.helper = Some(helper);
                    return Ok(());
                }
                list = message;
            }
            let now = helper.made();
            if now != made {
                (made, since) = (now, Instant::now());
            }
            if since.elapsed() >= PATIENCE && !helper.is_running() {
                return Err(held(&self.proc, asked(&list, made.saturating_sub(before))));
            }
            wait(std::iter::once(&helper), PATIENCE / 4);
        }
    }
}

/// The process that the helper asks, after so many messages and steps: the first is
/// the list of pids, and there is one for each process that it began with.
fn asked(list: &[u8], made: u64) -> u32 {
    let index = usize::try_from(made).ok().and_then(|made| made.checked_sub(2));
    let pid = index.and_then(|index| list.as_chunks().0.get(index));
    pid.map_or(0, |pid| u32::from_ne_bytes(*pid))
}

/// The reason, with the user to ask.
fn held(proc: &Path, pid: u32) -> String {
    let dir = Dir::open(&proc.join(pid.to_string()));
    // One that is gone or cannot be read is named by pid alone.
    let whose = dir.and_then(|dir| dir.stat()).map_or(String::new(), |stat| format!(" of uid {}", stat.uid));
    format!(
        "process {pid}{whose} holds the lock of its memory map, and a probe now would keep the whole \
         node from starting processes"
    )
}

fn start(proc: &Path) -> Result<Helper, Errno> {
    let proc = Dir::open(proc)?;
    Helper::start(&[proc.as_fd()], |channel| while channel.receive().is_some() && ask_all(&proc, channel) {})
}

/// Sends the list of processes, asks one after another, and counts each before it
/// does; whether anybody listens.
fn ask_all(proc: &Dir, channel: &mut Channel) -> bool {
    let mut pids = Vec::new();
    let listed = proc.numbers(c".", |_, pid| {
        pids.push(pid);
        true
    });
    let list: Vec<u8> = pids.iter().flat_map(|pid| pid.to_ne_bytes()).collect();
    // Without an answer its asker says that the list cannot be had.
    if listed.is_err() || !channel.send(&list) {
        return false;
    }
    for pid in pids {
        if !channel.step() {
            return false;
        }
        // Where nothing is mapped: the kernel takes the lock, looks and lets go
        // (proc_map_files_lookup in fs/proc/base.c). A process that is gone, a
        // missing right and the usual ENOENT are all the same here.
        if let Ok(name) = CString::new(format!("{pid}/map_files/0-1000")) {
            let _locked_and_let_go = stat_at(proc, &name);
        }
    }
    channel.send(&DONE)
}

/// How many descriptors the links of a file take, at most.
pub(super) fn descriptors(links: &[AttachedProbes]) -> usize {
    links.iter().map(AttachedProbes::descriptors).sum()
}

/// A thread that drops what it is given. It ends with the value.
#[derive(Debug)]
pub(super) struct Release {
    sender: Option<Sender<Vec<AttachedProbes>>>,
    descriptors: Arc<AtomicUsize>,
}

impl Release {
    /// Starts it; `descriptors` is the number of those in use. Where no thread
    /// can be had, links are dropped by the caller.
    pub(super) fn start(descriptors: Arc<AtomicUsize>, mut locks: Locks) -> Self {
        let (sender, receiver) = channel::<Vec<AttachedProbes>>();
        let count = Arc::clone(&descriptors);
        let run = move || {
            for links in receiver {
                locks.wait(None);
                end(links, &count);
            }
        };
        let thread = thread::Builder::new().name("release".to_owned()).spawn(run);
        // Without a thread the probes are taken out at once.
        Self { sender: thread.ok().map(|_| sender), descriptors }
    }

    /// Takes the probes of a file out soon.
    pub(super) fn end(&self, links: Vec<AttachedProbes>) {
        let kept = match &self.sender {
            Some(sender) => sender.send(links).err().map(|back| back.0),
            None => Some(links),
        };
        if let Some(links) = kept {
            end(links, &self.descriptors);
        }
    }
}

fn end(links: Vec<AttachedProbes>, in_use: &AtomicUsize) {
    let count = descriptors(&links);
    drop(links);
    in_use.fetch_sub(count, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the process is named that was asked last.
    #[test]
    fn named() {
        let list: Vec<u8> = [7_u32, 8, 9].iter().flat_map(|pid| pid.to_ne_bytes()).collect();
        assert_eq!([0, 1, 2, 4, 5].map(|made| asked(&list, made)), [0, 0, 7, 9, 0]);
    }

    /// Make sure that the processes of this machine are asked, again and again.
    #[test]
    fn answers() {
        let mut locks = Locks::of(Path::new("/proc"));
        for _ in 0..3 {
            locks.known = None;
            assert_eq!(locks.ask(), Ok(()));
        }
        assert!(locks.helper.is_some());
    }
}
