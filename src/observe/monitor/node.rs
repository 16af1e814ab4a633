//! Keeps the facts of a whole node up to date.
//!
//! Memory is bounded by the cgroups and processes that exist. Of a process a few
//! variables are kept, never its whole environment.

use std::thread;

use super::cgroups::CgroupMonitor;
use super::cgroups::ListSource;
use super::cgroups::ProgramsChange;
use crate::observation::Problem;
use crate::observe::error::ObserveError;
use crate::observe::options::{CgroupTarget, Options};
use crate::observe::scanner::{ProcessSummary, ScanError, ScanMethod};

use super::processes::{ProcessChanges, ProcessMonitor};

/// Why a node cannot be monitored.
#[derive(Debug, thiserror::Error)]
pub enum NodeMonitorError {
    /// Its cgroups cannot be monitored.
    #[error(transparent)]
    Cgroups(#[from] ObserveError),
    /// Its processes cannot be seen.
    #[error(transparent)]
    ProcessMonitor(#[from] ScanError),
}

/// A node: its cgroups with their programs, and its processes.
#[derive(Debug)]
pub struct NodeMonitor {
    cgroups: CgroupMonitor,
    processes: ProcessMonitor,
}

/// The changes that one refresh found.
#[derive(Debug)]
pub struct NodeChanges {
    /// Changes of programs; `None` if there are none.
    pub programs: Option<ProgramsChange>,
    /// Changes of processes.
    pub processes: ProcessChanges,
}

impl NodeMonitor {
    /// Starts to monitor the cgroups of `targets` and every process, listed by
    /// `engine` or by the best way that works.
    ///
    /// # Errors
    ///
    /// As [`crate::observe::cgroups()`] and [`crate::observe::scanner::start`].
    pub fn start(
        options: &Options,
        targets: &[CgroupTarget],
        engine: Option<ScanMethod>,
    ) -> Result<Self, NodeMonitorError> {
        Self::start_with(options, targets, engine, None)
    }

    /// Starts with lists of programs from `source`, or from the better one.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn start_with(
        options: &Options,
        targets: &[CgroupTarget],
        engine: Option<ScanMethod>,
        source: Option<ListSource>,
    ) -> Result<Self, NodeMonitorError> {
        let cgroups = CgroupMonitor::start_with(options, targets, None, source)?;
        Ok(Self { cgroups, processes: ProcessMonitor::start(options, engine)? })
    }

    /// Checks cgroups and processes again, both at the same time.
    ///
    /// # Errors
    ///
    /// Processes cannot be listed any more.
    pub fn refresh(&mut self) -> Result<NodeChanges, ScanError> {
        let (cgroups, processes) = (&mut self.cgroups, &mut self.processes);
        thread::scope(|scope| {
            let programs = scope.spawn(|| cgroups.check());
            let processes = processes.refresh();
            let programs = programs.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok(NodeChanges { programs, processes: processes? })
        })
    }

    /// The processes as of the last refresh, in the order of pids.
    pub fn processes(&self) -> &[ProcessSummary] {
        self.processes.all()
    }

    /// The ways in use, such as `revision+fanotify, cgroup iterator, iterators`.
    pub fn engine(&self) -> String {
        format!("{}, {}", self.cgroups.engine(), self.processes.engine().name())
    }

    /// The problems since the last call.
    pub fn problems(&mut self) -> Vec<Problem> {
        let mut problems = self.cgroups.problems();
        problems.extend(self.processes.problem());
        problems
    }
}
