//! How often a resident gpumap looks at the whole node, and whether anything changed there.
//!
//! Whether programs or processes changed is cheap to learn, by a few system calls for each
//! cgroup and process; all that metrics need is not: on a node of 5,000 cgroups and 2,000 processes a look takes half a second of
//! one processor. So looks have a share of the time. What is left of it is not lost: a
//! node that was calm is looked at as soon as something changes.

use std::os::fd::BorrowedFd;
use std::thread;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};

use crate::commands::invocation::Failure;
use crate::loader;
use crate::model::ProblemCode;
use crate::observation::Refusals;
use crate::observe::monitor::{ProcessChanges, ProcessMonitor};
use crate::observe::scanner::ScanContents;
use crate::observe::{CgroupTarget, Options};
use crate::report::Event;
use crate::sys::heap;
use crate::sys::helper::left_behind;
use crate::watch::denials::DenialsWatcher;
use crate::watch::policy::PolicyWatcher;
use crate::watch::{EventSource as _, ProcessScope};

/// Processor time that a change may take ahead, in seconds.
const BURST: f64 = 0.25;

/// The processor time that looks took and that has not passed yet.
#[derive(Debug)]
pub(in crate::commands) struct Budget {
    /// The part of one processor that they may take.
    share: f64,
    debt: f64,
    at: Instant,
    /// The processor time of helpers that is in the debt, or was.
    helpers: f64,
}

impl Budget {
    pub(in crate::commands) fn new(share: f64) -> Self {
        Self { share, debt: 0.0, at: Instant::now(), helpers: processor_time(UsageWho::RUSAGE_CHILDREN) }
    }

    /// Whether it is time for a look: at once if something changed, unless changes
    /// took too much already.
    pub(in crate::commands) fn allows(&mut self, changed: bool, now: Instant) -> bool {
        // A look does not wait for its helpers to end: what they took is known later.
        left_behind();
        self.charge_helpers(processor_time(UsageWho::RUSAGE_CHILDREN));
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.debt = (self.debt - passed * self.share).max(0.0);
        self.at = now;
        self.debt <= if changed { BURST } else { 0.0 }
    }

    /// Does a look and charges what it took.
    pub(in crate::commands) fn charge<T>(&mut self, look: impl FnOnce() -> T) -> T {
        let before = processor_time(UsageWho::RUSAGE_SELF);
        let done = look();
        self.debt += (processor_time(UsageWho::RUSAGE_SELF) - before).max(0.0);
        done
    }

    /// Charges what was done elsewhere, in seconds.
    pub(in crate::commands) fn took(&mut self, seconds: f64) {
        self.debt += seconds.max(0.0);
    }

    /// Charges what helpers took since the last time; `all` is what all of them took.
    fn charge_helpers(&mut self, all: f64) {
        self.debt += (all - self.helpers).max(0.0);
        self.helpers = all;
    }
}

/// The processor time of this thread, in seconds.
pub(in crate::commands) fn thread_time() -> f64 {
    processor_time(UsageWho::RUSAGE_THREAD)
}

/// What this process took so far, or its helpers that have ended and were waited
/// for, in seconds.
fn processor_time(who: UsageWho) -> f64 {
    let Ok(usage) = getrusage(who) else { return 0.0 };
    let times = [usage.user_time(), usage.system_time()];
    times.iter().map(|time| seconds(time.tv_sec(), time.tv_usec())).sum()
}

#[expect(clippy::cast_precision_loss, reason = "processor times are far below 2^53 microseconds")]
fn seconds(seconds: i64, microseconds: i64) -> f64 {
    seconds as f64 + microseconds as f64 / 1e6
}

/// The programs in force and the processes of the node, kept up to date.
pub(in crate::commands) struct Monitor {
    policies: PolicyWatcher,
    processes: ProcessMonitor,
    /// `None` where refusals cannot be seen.
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
        let failed = |why: String| {
            Failure::new(code.clone(), "processes", why, "run gpumap where /proc can be listed")
        };
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
        let mut denials = DenialsWatcher::start(options, &all, false).ok();
        denials.iter_mut().for_each(DenialsWatcher::keep);
        drop(loader);
        heap::give_back();
        Ok(Self { policies, processes, denials, code })
    }

    /// Readable when cgroups came or went; `None` where the kernel reports that to
    /// nobody.
    pub(in crate::commands) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.policies.fd()
    }

    /// What was refused in the last hour; `None` where that cannot be seen.
    pub(in crate::commands) fn refusals(&mut self) -> Option<Refusals> {
        self.denials.as_mut()?.refusals()
    }

    /// Whether refusals are seen on this kernel.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Make sure that a calm node is looked at when its debt is paid, a change
    /// earlier, and changes without end no more often than the share allows.
    #[test]
    fn shares() {
        let mut budget = Budget::new(0.01);
        let mut now = Instant::now();
        assert!(budget.allows(false, now));
        let (mut looks, mut calm) = (0, 0);
        for second in 0..10_000 {
            now += Duration::from_secs(1);
            if budget.allows(second >= 5_000, now) {
                budget.debt += 0.2;
                looks += 1;
                calm += usize::from(second < 5_000);
            }
        }
        assert!((249..=251).contains(&calm) && (498..=503).contains(&looks), "{calm} {looks}");
    }

    /// Make sure that helpers are charged once, although they end after the look that
    /// they were started for.
    #[test]
    fn helpers() {
        let mut budget = Budget::new(0.01);
        let before = budget.helpers;
        budget.charge(|| ());
        budget.charge_helpers(before + 0.3);
        budget.charge_helpers(before + 0.3);
        assert!((0.3..0.4).contains(&budget.debt), "{budget:?}");
    }
}
