//! Looks whether anything changed on the node, at the cost of a few system calls for
//! each of its cgroups and processes.

use std::os::fd::BorrowedFd;
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
use crate::watch::ProcessScope;
use crate::watch::denials::DenialsWatcher;
use crate::watch::policy::PolicyWatcher;

/// The programs in force and the processes of the node, kept up to date.
pub(in crate::commands) struct Monitor {
    policies: PolicyWatcher,
    processes: ProcessMonitor,
    /// `None` where the kernel does not tell refusals.
    denials: Option<DenialsWatcher>,
    /// The code of its problems.
    code: ProblemCode,
}

/// The result of one check.
pub(in crate::commands) struct Checked {
    /// What happened to programs.
    pub events: Vec<Event>,
    /// What was refused, and how many refusals were lost.
    pub denials: Vec<Event>,
    /// Whether anything happened, to programs or processes.
    pub changed: bool,
}

impl Monitor {
    /// Takes what is there as the baseline.
    pub(in crate::commands) fn start(options: &Options, code: ProblemCode) -> Result<Self, Failure> {
        let failed = |why: String| Failure::new(code.clone(), "processes", why, "a /proc that can be listed");
        // Both parts share one loader. A part that does not work without it copes.
        let loader = loader::shared();
        let all = [CgroupTarget::all()];
        let mut policies = PolicyWatcher::list(options, &all)?;
        let contents = ScanContents::DevicesOnly;
        let processes =
            ProcessMonitor::start_with(options, None, contents).map_err(|error| failed(error.to_string()))?;
        policies.choose_lists();
        let all = ProcessScope { all: true, ..ProcessScope::default() };
        // Whether it is there is asked for: see `watches_denials`.
        let denials = DenialsWatcher::start(options, &all, false).ok();
        drop(loader);
        heap::give_back();
        Ok(Self { policies, processes, denials, code })
    }

    /// Readable when cgroups came or went; `None` where the kernel reports that to
    /// nobody.
    pub(in crate::commands) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.policies.fd()
    }

    /// Whether the kernel tells what it refuses.
    pub(in crate::commands) fn watches_denials(&self) -> bool {
        self.denials.is_some()
    }

    /// Checks cgroups and processes, both at the same time.
    pub(in crate::commands) fn check(&mut self) -> Result<Checked, Failure> {
        let (policies, processes) = (&mut self.policies, &mut self.processes);
        let (events, changes) = thread::scope(|threads| {
            let events = threads.spawn(|| policies.events());
            let changes = processes.refresh();
            (events.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), changes)
        });
        let code = self.code.clone();
        let failed = |why: String| Failure::new(code.clone(), "processes", why, "");
        let changes = changes.map_err(|error| failed(error.to_string()))?;
        let changed = !events.is_empty() || changes != ProcessChanges::default();
        let denials = self.denials.as_mut().map(DenialsWatcher::events).unwrap_or_default();
        Ok(Checked { events, denials, changed })
    }
}
