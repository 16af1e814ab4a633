//! Looks whether anything changed on the node, at the cost of a few system calls for
//! each of its cgroups and processes.

use std::thread;

use crate::commands::invocation::Failure;
use crate::loader;
use crate::model::ProblemCode;
use crate::observe::monitor::{ProcessChanges, ProcessMonitor};
use crate::observe::scanner::ScanContents;
use crate::observe::{CgroupTarget, Options};
use crate::report::Event;
use crate::sys::heap;
use crate::watch::EventSource as _;
use crate::watch::policy::PolicyWatcher;

/// The programs in force and the processes of the node, kept up to date.
pub(super) struct Monitor {
    policies: PolicyWatcher,
    processes: ProcessMonitor,
}

/// The result of one check.
pub(super) struct Checked {
    /// What happened to programs.
    pub events: Vec<Event>,
    /// Whether anything happened, to programs or processes.
    pub changed: bool,
}

impl Monitor {
    /// Takes what is there as the baseline.
    pub(super) fn start(options: &Options) -> Result<Self, Failure> {
        let failed =
            |why: String| Failure::new(ProblemCode::Export, "processes", why, "a /proc that can be listed");
        // Both parts share one loader. A part that does not work without it copes.
        let loader = loader::shared();
        let all = [CgroupTarget { path: "/".into(), recursive: true }];
        let mut policies = PolicyWatcher::list(options, &all)?;
        let contents = ScanContents::DevicesOnly;
        let processes =
            ProcessMonitor::start_with(options, None, contents).map_err(|error| failed(error.to_string()))?;
        policies.choose_lists();
        drop(loader);
        heap::give_back();
        Ok(Self { policies, processes })
    }

    /// Checks cgroups and processes, both at the same time.
    pub(super) fn check(&mut self) -> Result<Checked, Failure> {
        let (policies, processes) = (&mut self.policies, &mut self.processes);
        let (events, changes) = thread::scope(|threads| {
            let events = threads.spawn(|| policies.events());
            let changes = processes.refresh();
            (events.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), changes)
        });
        let failed = |why: String| Failure::new(ProblemCode::Export, "processes", why, "");
        let changes = changes.map_err(|error| failed(error.to_string()))?;
        let changed = !events.is_empty() || changes != ProcessChanges::default();
        Ok(Checked { events, changed })
    }
}
