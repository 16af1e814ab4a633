//! Facts of processes as they happen.

mod executed;
mod kernel;
mod losses;
mod prober;
mod probes;
mod record;

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::loader::LoadError;
use crate::probing::{Coverage, InstalledDrivers, Libraries, Mode, Waiting};
use crate::sys::namespace::is_in_first_pid_namespace;
use crate::watch::event::now_ns;
use executed::Executed;
use kernel::Kernel;
use losses::Losses;
use prober::Watched;
use record::Header;

use crate::watch::{Fact, ProcessScope, WatchError};

/// Facts that one call gives at most: the others wait in the ring.
const BATCH: usize = 4096;
/// What no kind of probes sees.
const NOT_SEEN: [&str; 2] = [
    "what a process changes without the C library is found only when its environment is read again, in turn",
    "a name or value on a page that is not in memory is not seen if it cannot be read later without waiting",
];
/// What is not seen where the kernel refuses the programs that tell of moves.
const NO_MOVES: &str = "processes that are moved to another cgroup are not told";
const NO_DEPARTURES: &str =
    "of a process that is moved to another cgroup it is told where it is, but not always where it was";
/// What is not seen where not all processes in scope could be listed.
const UNLISTED: &str = "processes that were running before the watch began may be missing";
/// What is not seen where no C library could be probed before its first process.
const NO_FIRST: &str = "the first calls of the first process of a C library may not be seen";
/// What is not seen from a pid namespace of gpumap's own.
const OTHER_PIDS: &str = "gpumap is in a pid namespace of its own: processes are told by their pids in the node's \
     first namespace, those outside of its own too, and of those it is not known what they ask for";
const NO_PIDS: &str = "processes that --pid names are not found: the kernel tells of them by other pids";
/// Processes that are reported as seen together at the beginning: enough for all
/// helpers that read environments, and few, because of no call meanwhile it is
/// known whether an environment has it.
const TOGETHER: usize = 128;
/// Processes that are looked at ahead of the one that is covered: a few descriptors
/// stay open for each.
const AHEAD: usize = 32;
/// How long processes are looked at before the ring is read again.
const LOOKING: Duration = Duration::from_millis(10);
/// How often it is said that a user's processes cannot all be looked at.
const SAY: Duration = Duration::from_secs(60);

/// A running watch. All of it ends with the value, or with the process.
pub struct FactSource {
    kernel: Kernel,
    libraries: Libraries<Watched>,
    /// The only processes that are looked at; `None`: any.
    only: Option<Vec<u32>>,
    proc: PathBuf,
    /// Processes to look at.
    waiting: Waiting,
    /// Users whose processes could not all be looked at, and when that was said.
    overlooked: BTreeMap<Option<u32>, Instant>,
    ready: Vec<Fact>,
    losses: Losses,
    executed: Executed,
    /// Which processes may have been running unseen when the watch began, and which calls.
    unlisted: Option<String>,
    unprobed_first: Option<String>,
    /// When it was said that nobody knows what was lost.
    uncounted: Option<Instant>,
}

impl FactSource {
    /// Begins to watch, in the first mode that the kernel takes or in the wanted
    /// one. Needs Linux 5.8 with BTF, and the rights to load programs (root).
    ///
    /// If only processes are watched, calls in no other process are touched.
    /// Of a cgroup the first call of a new process is to be seen: there every
    /// process that maps the same library takes the probes.
    ///
    /// # Errors
    ///
    /// Why the kernel does not let it.
    pub fn start(scope: &ProcessScope, proc: &Path, wanted: Option<Mode>) -> Result<Self, WatchError> {
        Self::start_with(scope, proc, wanted, |_| {})
    }

    /// The same, and calls `seen` with the processes of which every later change
    /// is seen from now on, or is known not to be: some at a time, while it goes
    /// on with the others. So a caller can already read their environments.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn start_with(
        scope: &ProcessScope,
        proc: &Path,
        wanted: Option<Mode>,
        mut seen: impl FnMut(&[u32]),
    ) -> Result<Self, WatchError> {
        let mut kernel = Kernel::load(wanted)?;
        kernel.programs.set_scope(scope, std::process::id())?;
        kernel.attach_tracepoints()?;
        let only = (!scope.all && scope.cgroups.is_empty()).then(|| scope.pids.clone());
        let mut source = Self {
            kernel,
            libraries: Libraries::new(only.is_some(), proc),
            only,
            proc: proc.to_owned(),
            waiting: Waiting::default(),
            overlooked: BTreeMap::new(),
            ready: Vec::new(),
            losses: Losses::default(),
            executed: Executed::default(),
            unlisted: None,
            unprobed_first: None,
            uncounted: None,
        };
        // One may be initialised before its mapping is seen.
        source.libraries.cover_drivers(&mut source.kernel);
        if !scope.cgroups.is_empty() {
            source.cover_common_libraries();
        }
        let own = std::process::id();
        let found = scope.processes(proc);
        source.may_miss(found.unlisted);
        let pids: Vec<u32> = found.pids.into_iter().filter(|pid| *pid != own).collect();
        for some in pids.chunks(TOGETHER) {
            for next in some.chunks(AHEAD) {
                source.libraries.expect(proc, next);
                next.iter().for_each(|pid| source.cover(*pid, true));
            }
            seen(some);
        }
        Ok(source)
    }

    /// What starts in a cgroup most likely uses the library that gpumap or the first process
    /// does: its very first call is to be seen.
    fn cover_common_libraries(&mut self) {
        for pid in [std::process::id(), 1] {
            let coverage = self.libraries.cover(&mut self.kernel, &self.proc, pid, false);
            if let Coverage::Uncovered(why) = coverage {
                self.unprobed_first = Some(format!("{NO_FIRST} ({why})"));
            }
        }
    }

    /// Keeps for [`Self::not_seen`] why the processes in scope could not all be listed, if
    /// that is so.
    pub fn may_miss(&mut self, unlisted: Option<String>) {
        let why = unlisted.map(|why| format!("{UNLISTED} ({why})"));
        self.unlisted = self.unlisted.take().or(why);
    }

    /// What was found while it began: the processes that are not covered.
    pub fn begun(&mut self) -> Vec<Fact> {
        std::mem::take(&mut self.ready)
    }

    /// The kind of probes that this kernel takes: loads the programs and removes them
    /// again. Nothing is attached.
    ///
    /// # Errors
    ///
    /// Why the kernel takes none, as [`Self::start`].
    pub fn possible_mode() -> Result<Mode, WatchError> {
        Kernel::load(None).map(|kernel| kernel.programs.mode())
    }

    /// The drivers' libraries that are installed below `root`, where their
    /// initialisation is seen from the first process on.
    pub fn installed_drivers(root: &Path) -> InstalledDrivers {
        crate::probing::installed_drivers(root)
    }

    /// What serves as source.
    pub fn engines(&self) -> Vec<String> {
        vec![self.kernel.programs.mode().engine().to_string(), "raw_tracepoint".to_owned()]
    }

    /// What it cannot see, a sentence each.
    pub fn not_seen(&self) -> Vec<String> {
        let moves = self.kernel.moves();
        let moves = match (moves.reported, moves.from) {
            (false, _) => Some(NO_MOVES),
            (true, false) => Some(NO_DEPARTURES),
            (true, true) => None,
        };
        let pids = (!is_in_first_pid_namespace()).then_some(OTHER_PIDS);
        let named = pids.and(self.only.as_ref()).map(|_| NO_PIDS);
        NOT_SEEN
            .into_iter()
            .chain(moves)
            .chain(pids)
            .chain(named)
            .map(str::to_owned)
            .chain(self.unlisted.clone())
            .chain(self.unprobed_first.clone())
            .chain(self.kernel.unprobed.not_seen())
            .collect()
    }

    /// How many distinct libraries and executables are watched.
    pub fn files(&self) -> usize {
        self.libraries.count()
    }

    /// Waits for facts, until there are some, the time is up, or `interrupt`
    /// is readable.
    ///
    /// # Errors
    ///
    /// That of poll(2).
    pub fn wait(
        &mut self,
        timeout: Duration,
        interrupt: Option<BorrowedFd<'_>>,
    ) -> Result<Vec<Fact>, WatchError> {
        let due = self.waiting.due().map(|due| due.saturating_duration_since(Instant::now()));
        let timeout = due.map_or(timeout, |due| due.min(timeout));
        if self.ready.is_empty() {
            self.sleep(timeout, interrupt)?;
        }
        self.look_again();
        let mut facts = std::mem::take(&mut self.ready);
        let start = facts.len();
        self.drain(&mut facts);
        for fact in facts.iter().skip(start) {
            self.track_files(fact);
        }
        self.libraries.tidy(&mut self.kernel, &self.proc);
        // Said first: it lies among these.
        let lost: Vec<_> = self.losses.unreported().into_iter().map(|(of, lost)| (named(of), lost)).collect();
        if !lost.is_empty() {
            facts.insert(0, Fact::Lost(lost));
        }
        Ok(facts)
    }

    /// Reads the ring, to its end if that is near.
    fn drain(&mut self, facts: &mut Vec<Fact>) {
        // Before the end is reached: what is lost later may lie behind it.
        let lost = self.lost().unwrap_or_else(|error| {
            self.uncounted(&error);
            Vec::new()
        });
        let (losses, executed) = (&mut self.losses, &mut self.executed);
        let is_empty = facts.len() < BATCH
            && self.kernel.programs.ring.read(&mut |record| {
                take(record, losses, executed, facts);
                facts.len() < BATCH
            });
        if is_empty {
            let lost = lost.into_iter().filter(|(account, number)| self.losses.all(*account, *number));
            let at = now_ns();
            facts.extend(lost.map(|(account, _)| Fact::Gap { at, account: named(account) }));
        }
    }

    /// What each account lost, if anything was lost that no record reported.
    fn lost(&self) -> Result<Vec<(u32, u64)>, LoadError> {
        if self.losses.misses(self.kernel.lost()?) { self.kernel.losses() } else { Ok(Vec::new()) }
    }

    /// Says that it is not known how many events were lost, unless that was said lately.
    fn uncounted(&mut self, error: &LoadError) {
        if self.uncounted.is_none_or(|reported| reported.elapsed() >= SAY) {
            self.uncounted = Some(Instant::now());
            self.ready.push(Fact::Uncounted { why: error.to_string() });
        }
    }

    fn sleep(&mut self, timeout: Duration, interrupt: Option<BorrowedFd<'_>>) -> Result<(), WatchError> {
        // Rounded up, not to spin through the last millisecond.
        let timeout = timeout.as_millis().saturating_add(1);
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        let mut fds: Vec<PollFd<'_>> = std::iter::once(self.kernel.programs.ring.as_fd())
            .chain(interrupt)
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(errno) => Err(WatchError::Wait(errno)),
        }
    }

    /// Keeps up with which process uses which file.
    fn track_files(&mut self, fact: &Fact) {
        match fact {
            Fact::Exec { subject, .. } => {
                self.libraries.executed(subject.pid, subject.start_time);
                let is_waiting = self.waiting.add(subject.account, subject.pid);
                self.overlook(is_waiting, subject.account);
            }
            Fact::Fork { subject, parent, .. }
                if self.libraries.forked(subject.pid, subject.start_time, *parent) =>
            {
                self.cover(subject.pid, false);
            }
            Fact::Exit { subject, .. } => self.libraries.exited(subject.pid, subject.start_time),
            _ => {}
        }
    }

    /// Looks at processes whose time has come, for a moment.
    fn look_again(&mut self) {
        let begun = Instant::now();
        while begun.elapsed() < LOOKING
            && let Some(look) = self.waiting.next(begun)
        {
            self.cover(look.pid, look.is_last());
            if look.is_last() {
                self.libraries.settled(look.pid);
            }
            let is_waiting = self.waiting.put_back(look);
            self.overlook(is_waiting, look.account);
        }
    }

    /// Says of an account that not all of its processes are looked at, unless
    /// this one `is_waiting` or that was said lately.
    fn overlook(&mut self, is_waiting: bool, account: Option<u32>) {
        let is_said = |reported: &Instant| reported.elapsed() < SAY;
        if is_waiting || self.overlooked.get(&account).is_some_and(is_said) {
            return;
        }
        self.overlooked.retain(|_, reported| is_said(reported));
        self.overlooked.insert(account, Instant::now());
        self.ready.push(Fact::Overlooked { account });
    }

    /// Looks for libraries of a process that are not watched yet.
    pub fn cover(&mut self, pid: u32, last: bool) {
        if self.only.as_ref().is_some_and(|only| !only.contains(&pid)) {
            return;
        }
        let _of_another = self.kernel.unprobed.take();
        let why = match self.libraries.cover(&mut self.kernel, &self.proc, pid, true) {
            Coverage::Uncovered(why) => Some(why),
            Coverage::Partly => self.kernel.unprobed.take(),
            Coverage::Covered | Coverage::None => None,
        };
        self.ready.extend(why.filter(|_| last).map(|why| Fact::Uncovered { pid, why }));
    }
}

/// What the fuzz targets call of this room.
#[cfg(fuzzing)]
pub mod fuzzing {
    /// Reads a file as a library in which functions are looked for.
    pub fn symbols(file: std::fs::File) {
        // A fuzzer's file that has no size is empty.
        let size = file.metadata().map_or(0, |meta| meta.len());
        let file = crate::sys::window::Windowed::new(file, size);
        let _offsets = crate::probing::places(file, &["setenv", "putenv"], true);
    }

    /// Reads bytes as a record of the ring buffer.
    pub fn ring_record(bytes: &[u8]) {
        let _record = super::Header::read(bytes).and_then(super::record::parse);
    }
}

/// Adds the facts of one record. If some of its account were lost before it, it
/// says so first.
fn take(record: &[u8], losses: &mut Losses, executed: &mut Executed, facts: &mut Vec<Fact>) {
    let Some(header) = Header::read(record) else { return };
    let Some(parsed) = record::parse(header) else { return };
    if losses.before(header.account, header.lost) {
        executed.clear(header.account);
        facts.push(Fact::Gap { at: header.at, account: named(header.account) });
    }
    facts.extend(executed.fact(parsed));
}

/// An account, or `None` for that of all others.
fn named(account: u32) -> Option<u32> {
    (account != record::OTHERS).then_some(account)
}
