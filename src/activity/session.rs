//! A running count: which processes are looked at, and what a reading
//! gives.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::cookie::Cookie;
use super::kernel::{Kernel, RECORDS};
use super::layout::{Life, LifeEvent};
use super::missed::MissedEnds;
use super::openings::{CgroupPaths, Openings, Retries};
use super::pending;
use super::prober::Counting;
use super::reading::{Clocks, Tables, lost};
use super::{ActivityError, CountingOptions};
use crate::model::{CountTable, InOrder as _};
use crate::observation::{Activity, LostRoom, ProcessActivity, QuietProcess, Text};
use crate::probing::driver::{Driver, driver};
use crate::probing::{Coverage, Libraries, Mode, ProcessScope, Waiting};
use crate::sys::clock::{boot_ns, monotonic_ns};
use crate::sys::mappings::{Mapping, Mappings};

/// How long processes are looked at before others have their turn.
const LOOKING: Duration = Duration::from_millis(10);
/// How often work is looked for while the kernel reports nothing.
const TURN: Duration = Duration::from_millis(250);
/// In how many turns every process is looked at once more: one may open a
/// library of its own long after it began.
const ROUND: usize = 240;
/// What Linux counts clock ticks in for user space, on every architecture that
/// gpumap runs on.
const TICKS: u64 = 100;

/// How far two measurements of the time asleep may differ without a sleep between them.
const DELAY: u64 = 500_000_000;
/// Processes that are noticed at a time, and the pause between two times.
const NOTICED: usize = 64;
const NOTICE: Duration = Duration::from_millis(50);
/// Processes without a call that a reading names.
const QUIET: usize = 1024;

/// What `CLOCK_BOOTTIME` is ahead of `CLOCK_MONOTONIC`: it was suspended for so long. Delays
/// between both looks are no sleep, and what is known stays: moments do not move.
fn asleep(known: Option<u64>) -> u64 {
    let look = |_| {
        let monotonic = monotonic_ns();
        boot_ns().saturating_sub(monotonic)
    };
    let now = (0..3).map(look).min().unwrap_or(0);
    known.filter(|known| now.abs_diff(*known) < DELAY).unwrap_or(now)
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
    /// When counting began; and the processes (pid, start) that had no driver's library
    /// then, with when that was seen.
    since: u64,
    /// How long the node was suspended.
    asleep: u64,
    idle: BTreeMap<(u32, u64), u64>,
    /// What the kernel tells of mappings, if it does; and the processes in scope that
    /// it is about, where not all are.
    mappings: Option<Mappings>,
    followed: BTreeSet<u32>,
    openings: Openings,
    waiting: Waiting,
    cgroups: CgroupPaths,
    retries: Retries,
    launches: pending::Reported,
    missed: MissedEnds,
    /// Processes that are to be looked at from outside, if somebody asks; and when those
    /// before them were asked for.
    noticed: Option<BTreeSet<u32>>,
    reported: Instant,
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
    pub fn start(scope: &ProcessScope, proc: &Path, options: CountingOptions) -> Result<Self, ActivityError> {
        let mut kernel = Kernel::load(&options)?;
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
            asleep: asleep(None),
            idle: BTreeMap::new(),
            mappings: None,
            followed: BTreeSet::new(),
            openings: Openings::default(),
            waiting: Waiting::default(),
            cgroups: CgroupPaths::default(),
            retries: Retries::default(),
            launches: pending::Reported::default(),
            missed: MissedEnds::default(),
            noticed: None,
            reported: now,
            turned: now,
            last: 0,
            records: 0,
        };
        session.follow_mappings();
        session.libraries.cover_drivers(&mut session.counting);
        session.cover_all();
        let idle = session.libraries.idle();
        session.idle = idle.map(|(pid, start, looked)| ((pid, start), looked)).collect();
        Ok(session)
    }

    /// The kind of probes that this kernel takes: loads the programs and removes them
    /// again. Nothing is attached.
    ///
    /// # Errors
    ///
    /// Why the kernel takes none, as [`Self::start`].
    pub fn possible_mode() -> Result<Mode, ActivityError> {
        Kernel::load(&CountingOptions::default()).map(|kernel| kernel.programs.mode())
    }

    /// Resolves ids of cgroups to paths in this way, as soon as a process is seen in one:
    /// readings have the paths also of processes and cgroups that are gone by then.
    pub fn name_cgroups(&mut self, resolve: impl FnMut(u64) -> Option<Text> + 'static) {
        self.cgroups.resolve_with(Box::new(resolve));
    }

    /// From now on [`Self::wait`] returns as soon as a process is noticed.
    pub fn notice_processes(&mut self) {
        self.noticed = Some(BTreeSet::new());
    }

    /// Takes the processes that mapped a driver's library or made their first call since
    /// they were taken last: whoever looks at them now sees what they had then.
    pub fn take_noticed(&mut self) -> Vec<u32> {
        self.reported = Instant::now();
        self.noticed.as_mut().map(std::mem::take).unwrap_or_default().into_iter().collect()
    }

    fn notice(&mut self, pid: u32) {
        if let Some(noticed) = self.noticed.as_mut().filter(|noticed| noticed.len() < NOTICED) {
            noticed.insert(pid);
        }
    }

    /// When those that were noticed are to be reported.
    fn news(&self) -> Option<Instant> {
        self.noticed.as_ref().filter(|noticed| !noticed.is_empty()).map(|_| self.reported + NOTICE)
    }

    /// What was counted until now. Processes that have ended are in one reading,
    /// and in none after it.
    ///
    /// # Errors
    ///
    /// That of the kernel. Nothing is lost then: the next reading has it all.
    pub fn read(&mut self) -> Result<Activity, ActivityError> {
        self.follow();
        self.missed.settle(&mut self.counting.kernel, &self.proc, 1_000_000_000 / TICKS)?;
        let kernel = &self.counting.kernel;
        let tables = Tables::read(kernel, &mut self.launches, &mut self.missed)?;
        let mut lost = lost(&kernel.accounts()?);
        let unreported = self.openings.all_lost();
        lost.extend((unreported != 0).then_some(LostRoom {
            map: CountTable::Mappings,
            count: unreported,
            uid: None,
        }));
        // What the clock says does not come before what was read.
        let boot = boot_ns();
        self.asleep = asleep(Some(self.asleep));
        let clocks = Clocks { asleep: self.asleep, ticks: TICKS };
        let is_whole = |pid, start: u64, since: u64, call| {
            let idle = self.idle.get(&(pid, start)).is_some_and(|looked| *looked >= since);
            idle || self.openings.is_later((pid, start * (1_000_000_000 / TICKS)), since, call)
        };
        let mut processes = tables.facts(&clocks, &self.counting.since(), is_whole);
        for process in &mut processes {
            process.cgroup = self.cgroups.path(process.cgroup_id).cloned();
        }
        self.tell_missed(&processes);
        let quiet = self.quiet(&processes);
        let (sampled_every, engine) = (self.every, self.counting.kernel.programs.mode().engine());
        let activity = Activity {
            clock_ns: boot,
            since_ns: self.since,
            sampled_every,
            engine,
            processes,
            quiet,
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
            if left.is_zero() || self.news().is_some_and(|news| news <= now) {
                return Ok(false);
            }
            let due = self.waiting.due().into_iter().chain(self.retries.due()).chain(self.news()).min();
            let due = due.map(|due| due.saturating_duration_since(now));
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

    /// Takes what the kernel reported of processes. If it could not tell all of it,
    /// all processes are looked at.
    fn follow(&mut self) {
        let mut lives = Vec::new();
        let kernel = &mut self.counting.kernel;
        kernel.programs.ring.read(&mut |record| {
            lives.extend(Life::read(record));
            true
        });
        // A failure is reported by the reading, which asks the same; then the number is still new.
        let records = kernel.accounts().map_or(self.records, |accounts| {
            accounts.iter().filter_map(|it| it.lost.get(RECORDS)).fold(0, |all, one| all.saturating_add(*one))
        });
        // After the lives: a mapping of a process that has ended is among these.
        let (mappings, unreported) = self.mapped();
        let mut mappings = mappings.into_iter().peekable();
        for life in lives {
            while let Some(mapping) = mappings.next_if(|mapping| mapping.at <= life.at) {
                self.map(mapping);
            }
            self.live(life);
        }
        mappings.for_each(|mapping| self.map(mapping));
        if records != self.records || unreported != 0 {
            // Ends may be among what was lost: pids come again.
            let ends = records - self.records.min(records);
            self.records = records;
            self.openings.lost(boot_ns(), unreported.saturating_add(ends));
            self.followed.clear();
            self.cover_all();
        }
    }

    /// Keeps which programs have ended that may have made calls, of which none was
    /// counted.
    fn tell_missed(&mut self, counted: &[ProcessActivity]) {
        for (pid, opening) in self.openings.take_past() {
            let of_it = counted.iter().filter(|process| process.pid == pid);
            let call = of_it.map(|process| process.first_ns).max();
            if opening.is_missed(self.counting.attached_since(opening.inode), call) {
                self.counting.overlooked(pid, &opening.path);
            }
        }
    }

    /// Processes that use a library that is attached to, of which no call was counted.
    fn quiet(&self, counted: &[ProcessActivity]) -> Vec<QuietProcess> {
        let called: BTreeSet<u32> = counted.iter().map(|process| process.pid).collect();
        let users = self.libraries.users().filter(|(pid, ..)| !called.contains(pid));
        let quiet = users.filter_map(|(pid, start_time, files)| {
            let since_ns =
                self.counting.since_of(files)?.max(start_time.saturating_mul(1_000_000_000 / TICKS));
            Some(QuietProcess { pid, start_time, since_ns })
        });
        quiet.take(QUIET).collect()
    }

    /// Begins to follow which processes map libraries.
    fn follow_mappings(&mut self) {
        match Mappings::start() {
            Ok(mappings) => self.mappings = Some(mappings),
            Err(errno) => self.counting.mappings_unknown(errno.desc()),
        }
    }

    /// The mappings of drivers' libraries since the last time, in the order of time, and
    /// how many of any files were not reported.
    fn mapped(&mut self) -> (Vec<Mapping>, u64) {
        let mut found = Vec::new();
        let take = |mapping: Mapping| {
            let name = mapping.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            if matches!(driver(name), Some(Driver::Cuda | Driver::Hip)) {
                found.push(mapping);
            }
        };
        let unreported = self.mappings.as_mut().map_or(0, |mappings| mappings.read(take));
        found.order_by_key(|mapping| mapping.at);
        (found, unreported)
    }

    /// A process mapped a driver's library: it is looked at soon.
    fn map(&mut self, mapping: Mapping) {
        let is_in_scope = match &self.only {
            Some(only) => only.contains(&mapping.pid),
            None => self.scope.all || self.followed.contains(&mapping.pid),
        };
        if is_in_scope {
            self.notice(mapping.pid);
            self.openings.mapped(mapping.pid, mapping.at, mapping.inode, mapping.path);
            let _unless_too_many = self.waiting.add(None, mapping.pid);
        }
    }

    fn live(&mut self, life: Life) {
        if life.event != LifeEvent::Exit {
            let _kept = self.cgroups.path(life.cgroup);
        }
        let start = life.start / (1_000_000_000 / TICKS);
        self.followed.insert(life.pid);
        match life.event {
            LifeEvent::Call => self.notice(life.pid),
            LifeEvent::Exec { by_other_thread } => {
                self.openings.ended(life.pid);
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
                self.openings.ended(life.pid);
                self.libraries.exited(life.pid, start);
                self.counting.ended(life.pid);
                self.retries.settled(life.pid);
                self.followed.remove(&life.pid);
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
        while begun.elapsed() < LOOKING
            && let Some(pid) = self.retries.next(begun)
        {
            self.cover(pid);
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
        let found = self.scope.processes(&self.proc);
        if let Some(why) = found.unlisted {
            self.counting.processes_unlisted(&why);
        }
        for pid in found.pids.into_iter().filter(|pid| *pid != own) {
            self.followed.insert(pid);
            self.cover(pid);
        }
    }

    /// Looks for libraries of a process that are not attached to yet. If that does not
    /// succeed, it is reported as not covered, and tried again later.
    fn cover(&mut self, pid: u32) {
        if self.only.as_ref().is_some_and(|only| !only.contains(&pid)) {
            return;
        }
        self.counting.look_at(pid);
        let coverage = self.libraries.cover(&mut self.counting, &self.proc, pid, true);
        self.counting.looked_at(pid, &coverage);
        match coverage {
            Coverage::Uncovered(_) | Coverage::Partly => self.retries.failed(pid, Instant::now()),
            Coverage::Covered | Coverage::None => self.retries.settled(pid),
        }
    }
}
