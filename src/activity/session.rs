//! A running count: which processes are looked at, and what a reading gives.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::ActivityError;
use super::cookie::Cookie;
use super::kernel::{Kernel, RECORDS};
use super::layout::{Life, LifeEvent};
use super::prober::Counting;
use super::reading::{Clocks, Tables, lost};
use crate::observation::Activity;
use crate::probing::{Coverage, Libraries, Mode, ProcessScope, Waiting};
use crate::sys::clock::{boot_ns, monotonic_ns};

/// How long processes are looked at before others have their turn.
const LOOKING: Duration = Duration::from_millis(10);
/// How often work is looked for while nothing is told.
const TURN: Duration = Duration::from_millis(250);
/// In how many turns every process is looked at once more: one may open a
/// library of its own long after it began.
const ROUND: usize = 240;
/// What Linux counts clock ticks in for user space, on every architecture that
/// gpumap runs on.
const TICKS: u64 = 100;

/// How calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// One launch out of so many is timed and looked at when it returns; 1: every
    /// one.
    pub every: u32,
    /// The kind of probes; `None`: the cheapest that the kernel has.
    pub mode: Option<Mode>,
    /// Whether functions that programs call often are probed where that takes two
    /// traps a call.
    pub costly: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { every: 64, mode: None, costly: false }
    }
}

/// A running count. What it loaded and attached is gone with it, however gpumap
/// ends.
pub struct Session {
    counting: Counting,
    libraries: Libraries<(Cookie, u64)>,
    scope: ProcessScope,
    /// The only processes that are looked at; `None`: any in scope.
    only: Option<Vec<u32>>,
    proc: PathBuf,
    every: u32,
    /// When counting began; and when the processes of that time had been looked
    /// at, with those that had no driver's library then.
    since: u64,
    looked: u64,
    idle: BTreeSet<(u32, u64)>,
    waiting: Waiting,
    /// The last turn, the process that was looked at last, records that were lost.
    turned: Instant,
    last: u32,
    records: u64,
}

impl Session {
    /// Begins to count the calls of processes in scope; gpumap's own are not
    /// counted. A process that begins later is counted from its first call, if
    /// its library is one that is installed or that another process uses already.
    /// Needs Linux 5.15 with BTF, and the rights to load programs (root).
    ///
    /// A process is in scope if it was when a thread of it made its first call.
    ///
    /// # Errors
    ///
    /// Why the kernel does not let it.
    pub fn start(scope: &ProcessScope, proc: &Path, options: Options) -> Result<Self, ActivityError> {
        let mut kernel = Kernel::load(options.mode, options.every)?;
        kernel.programs.set_scope(scope, std::process::id())?;
        kernel.programs.attach_tracepoints()?;
        let only = (!scope.all && scope.cgroups.is_empty()).then(|| scope.pids.clone());
        let now = Instant::now();
        let mut session = Self {
            counting: Counting::new(kernel, options.costly),
            libraries: Libraries::new(only.is_some(), proc),
            scope: scope.clone(),
            only,
            proc: proc.to_owned(),
            every: options.every.max(1),
            since: boot_ns(),
            looked: 0,
            idle: BTreeSet::new(),
            waiting: Waiting::default(),
            turned: now,
            last: 0,
            records: 0,
        };
        session.libraries.cover_drivers(&mut session.counting);
        session.cover_all();
        session.looked = boot_ns();
        session.idle = session.libraries.idle().collect();
        Ok(session)
    }

    /// What was counted until now. Processes that have ended are in one reading,
    /// and in none after it.
    ///
    /// # Errors
    ///
    /// That of the kernel. Nothing is lost then: the next reading has it all.
    pub fn read(&mut self) -> Result<Activity, ActivityError> {
        self.follow();
        let kernel = &self.counting.kernel;
        let tables = Tables::read(kernel)?;
        let lost = lost(&kernel.lost()?);
        // In this order: what the clocks say does not come before what was read.
        let (monotonic, boot) = (monotonic_ns(), boot_ns());
        let clocks = Clocks { asleep: boot.saturating_sub(monotonic), ticks: TICKS };
        let is_whole = |pid, start, since: u64| since <= self.looked && self.idle.contains(&(pid, start));
        let processes = tables.facts(&clocks, &self.counting.since(), is_whole);
        let activity = Activity {
            clock_ns: boot,
            since_ns: self.since,
            sampled_every: self.every,
            engine: kernel.programs.mode().engine().to_owned(),
            processes,
            lost,
            libraries: self.counting.libraries(),
            uncovered: self.counting.uncovered(),
            probe_ns: None,
        };
        tables.clear(&mut self.counting.kernel)?;
        Ok(activity)
    }

    /// Waits, and looks meanwhile for libraries that processes begin to use.
    /// Whether it was interrupted: `interrupt` is readable.
    ///
    /// # Errors
    ///
    /// That of poll(2).
    pub fn wait(&mut self, time: Duration, interrupt: Option<BorrowedFd<'_>>) -> Result<bool, ActivityError> {
        let until = Instant::now() + time;
        loop {
            self.follow();
            self.look_again();
            let now = Instant::now();
            let left = until.saturating_duration_since(now);
            if left.is_zero() {
                return Ok(false);
            }
            let due = self.waiting.due().map(|due| due.saturating_duration_since(now));
            let rest = due.map_or(left, |due| due.min(left)).min(TURN);
            if self.sleep(rest, interrupt)? {
                return Ok(true);
            }
        }
    }

    fn sleep(&self, time: Duration, interrupt: Option<BorrowedFd<'_>>) -> Result<bool, ActivityError> {
        // Rounded up, not to spin through the last millisecond.
        let time = PollTimeout::try_from(time.as_millis().saturating_add(1)).unwrap_or(PollTimeout::MAX);
        let mut fds: Vec<PollFd<'_>> = std::iter::once(self.counting.kernel.programs.ring.as_fd())
            .chain(interrupt)
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        match poll(&mut fds, time) {
            Ok(_) => Ok(fds.get(1).and_then(PollFd::any).unwrap_or(false)),
            Err(nix::errno::Errno::EINTR) => Ok(false),
            Err(errno) => Err(ActivityError::Wait(errno)),
        }
    }

    /// Takes what the kernel told of processes. If it could not tell all of it,
    /// all processes are looked at.
    fn follow(&mut self) {
        let mut lives = Vec::new();
        let kernel = &mut self.counting.kernel;
        kernel.programs.ring.read(&mut |record| {
            lives.extend(Life::read(record));
            true
        });
        let records = kernel.lost().ok().and_then(|lost| lost.get(RECORDS).copied()).unwrap_or(self.records);
        for life in lives {
            self.live(life);
        }
        if records != self.records {
            self.records = records;
            self.cover_all();
        }
    }

    fn live(&mut self, life: Life) {
        let start = life.start / (1_000_000_000 / TICKS);
        match life.event {
            LifeEvent::Exec { by_other_thread } => {
                // What was attached for this process alone stays with its first
                // thread. Where another one executes, that is gone.
                if by_other_thread {
                    self.libraries.executed(life.pid, start);
                }
                let _unless_too_many = self.waiting.add(Some(life.account), life.pid);
            }
            LifeEvent::Fork(parent) => {
                if self.libraries.forked(life.pid, start, parent) {
                    self.cover(life.pid);
                }
            }
            LifeEvent::Exit => {
                self.libraries.exited(life.pid, start);
                self.counting.ended(life.pid);
            }
        }
    }

    /// Looks at processes whose time has come, and at some of the others.
    fn look_again(&mut self) {
        let begun = Instant::now();
        while begun.elapsed() < LOOKING
            && let Some(look) = self.waiting.next(begun)
        {
            self.cover(look.pid);
            if look.is_last() {
                self.libraries.settled(look.pid);
            }
            let _unless_too_many = self.waiting.put_back(look);
        }
        if self.turned.elapsed() >= TURN {
            self.turned = Instant::now();
            for _ in 0..self.libraries.processes().div_ceil(ROUND) {
                let Some(next) = self.libraries.after(self.last) else {
                    self.last = 0;
                    break;
                };
                self.last = next;
                self.cover(next);
            }
            self.libraries.tidy(&mut self.counting, &self.proc);
        }
    }

    fn cover_all(&mut self) {
        let own = std::process::id();
        for pid in self.scope.processes(&self.proc).into_iter().filter(|pid| *pid != own) {
            // One that did not answer in time may answer soon.
            if !self.cover(pid) {
                let _unless_too_many = self.waiting.add(None, pid);
            }
        }
    }

    /// Looks for libraries of a process that are not attached to yet. Whether
    /// the process could be looked at.
    fn cover(&mut self, pid: u32) -> bool {
        if self.only.as_ref().is_some_and(|only| !only.contains(&pid)) {
            return true;
        }
        let coverage = self.libraries.cover(&mut self.counting, &self.proc, pid, true);
        self.counting.looked_at(pid, &coverage);
        !matches!(coverage, Coverage::Uncovered(_))
    }
}
