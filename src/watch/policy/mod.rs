//! Watches device programs: reports those that are attached, replaced and lost.

mod event;
mod steps;

use std::os::fd::BorrowedFd;

use super::EventSource;
use crate::observation::Problem;
use crate::observe::monitor::cgroups::{CgroupMonitor, ListSource, Notification};
use crate::observe::{CgroupTarget, ObserveError, Options};
use crate::report::{Event, Gpu};
use event::ReportedProblems;
use steps::StepDecoder;

/// Watches the programs in force on cgroups. Programs that take long to decode are decoded
/// beside, and keep no other change waiting.
///
/// Nothing is written, nothing is loaded; memory is bounded by the number of
/// cgroups. Since Linux 4.15, best since 6.17.
#[derive(Debug)]
pub struct PolicyWatcher {
    monitor: CgroupMonitor,
    steps: StepDecoder,
    reported: ReportedProblems,
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

    /// The same, with this engine to report cgroups that come and go, and with
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
        Self { monitor, steps: StepDecoder::default(), reported: ReportedProblems::default() }
    }

    /// What serves as the source: `revision+fanotify`, `revision+inotify`,
    /// `lists+fanotify`, `lists+inotify` (most kernels before 6.17), `polling`; then
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
        &self.steps.gpus
    }

    /// What changed since the last call: `policy` events, and `lost` where
    /// programs came and went in between. Waits for nothing but, for a moment, the decoder.
    pub fn check(&mut self) -> Vec<Event> {
        let mut events = self.steps.late_events();
        if let Some(step) = self.monitor.check() {
            events.extend(self.steps.events(step));
        }
        events
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
