//! Watches device programs: reports those that are attached, replaced and lost.

mod event;
mod reported;

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::{Beside, EventSource, LONG, SOON};
use crate::observation::Problem;
use crate::observe::monitor::cgroups::{CgroupMonitor, ListSource, Notification, ProgramsChange};
use crate::observe::{CgroupTarget, ObserveError, Options};
use crate::report::{Event, Gpu};
use event::{DecodedStep, decode, given_up, not_yet};
use reported::ReportedProblems;

/// How long a change is waited for that takes longer than [`SOON`] to decode, where nothing
/// else is decoded: on a busy machine it may be an ordinary one.
const PATIENCE: Duration = Duration::from_millis(250);

/// Watches the programs in force on cgroups. Programs that take long to decode are decoded
/// beside, and keep no other change waiting.
///
/// Nothing is written, nothing is loaded; memory is bounded by the number of
/// cgroups. Since Linux 4.15, best since 6.17.
#[derive(Debug)]
pub struct PolicyWatcher {
    monitor: CgroupMonitor,
    gpus: Vec<Gpu>,
    reported: ReportedProblems,
    /// Decodes changes that take long.
    slow: Beside<ProgramsChange, DecodedStep>,
}

impl PolicyWatcher {
    /// Starts watching `targets`, and takes the current state as the baseline.
    ///
    /// # Errors
    ///
    /// As [`crate::observe::cgroups`].
    pub fn start(options: &Options, targets: &[CgroupTarget]) -> Result<Self, ObserveError> {
        Self::start_with(options, targets, None, None)
    }

    /// The same, told of cgroups that come and go by this engine, and with
    /// lists of programs read from this source.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn start_with(
        options: &Options,
        targets: &[CgroupTarget],
        engine: Option<Notification>,
        source: Option<ListSource>,
    ) -> Result<Self, ObserveError> {
        CgroupMonitor::start_with(options, targets, engine, source).map(Self::new)
    }

    /// The first half of [`Self::start`], which may run in another thread: see
    /// [`CgroupMonitor::list`].
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn list(options: &Options, targets: &[CgroupTarget]) -> Result<Self, ObserveError> {
        CgroupMonitor::list(options, targets, None).map(Self::new)
    }

    /// The second half.
    pub fn choose_lists(&mut self) {
        self.monitor.choose_lists(None);
    }

    fn new(monitor: CgroupMonitor) -> Self {
        Self {
            monitor,
            gpus: Vec::new(),
            reported: ReportedProblems::default(),
            slow: Beside::start(|step| decode(&step, LONG)),
        }
    }

    /// What serves as the source: `revision+fanotify`, `revision+inotify`,
    /// `lists+fanotify`, `lists+inotify` (Linux before 6.17), `polling`; then
    /// `, cgroup iterator` where many cgroups are followed and it works.
    pub fn engine(&self) -> String {
        self.monitor.engine()
    }

    /// Readable when cgroups came or went; `None` when polling. Programs that
    /// are attached make it readable in no case: call [`Self::check`] at a
    /// steady pace as well, and not more often than that when it is readable
    /// all the time, for every call looks at every cgroup (measured: 2 µs each,
    /// less by the iterator).
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.monitor.fd()
    }

    /// What could not be seen since the last call, with what it would take.
    pub fn problems(&mut self) -> Vec<Problem> {
        self.monitor.problems()
    }

    /// The GPUs that the latest events speak of.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// What changed since the last call: `policy` events, and `lost` where
    /// programs came and went in between. Waits for nothing but, for a moment, the decoder.
    pub fn check(&mut self) -> Vec<Event> {
        let mut events = self.decoded(Duration::ZERO).unwrap_or_default();
        if let Some(step) = self.monitor.check() {
            events.extend(self.follow(step));
        }
        events
    }

    /// The events of a change, or that they are told later.
    fn follow(&mut self, step: ProgramsChange) -> Vec<Event> {
        let decoded = decode(&step, SOON);
        if !decoded.is_late {
            return self.take(decoded);
        }
        let (not_yet, patience) =
            (not_yet(&step), if self.slow.is_idle() { PATIENCE } else { Duration::ZERO });
        match self.slow.ask(step) {
            Ok(()) => self.decoded(patience).unwrap_or(not_yet),
            Err(step) => given_up(&step),
        }
    }

    /// The events of changes that were decoded beside; `None` if there is none.
    fn decoded(&mut self, patience: Duration) -> Option<Vec<Event>> {
        let mut events = self.slow.answer(patience).map(|decoded| self.take(decoded))?;
        while let Some(decoded) = self.slow.answer(Duration::ZERO) {
            events.extend(self.take(decoded));
        }
        Some(events)
    }

    fn take(&mut self, decoded: DecodedStep) -> Vec<Event> {
        self.gpus = decoded.gpus;
        decoded.events
    }
}

impl EventSource for PolicyWatcher {
    fn engine(&self) -> String {
        Self::engine(self)
    }

    fn events(&mut self) -> Vec<Event> {
        let mut events = self.check();
        let problems = self.problems();
        events.extend(self.reported.new_ones(problems));
        events
    }
}
