//! `gpumap export` that runs on: keeps files up to date and serves metrics, until a
//! signal ends it.

use std::collections::HashSet;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::SignalFd;

use super::listen::Bound;
use super::look::{Collector, Exposition};
use super::outlets::Outlets;
use crate::cli::{Exit, ExportArgs};
use crate::commands::invocation::{Failure, Invocation};
use crate::commands::resident;
use crate::commands::resident::budget::Budget;
use crate::commands::resident::monitor::Monitor;
use crate::export::Changes;
use crate::model::ProblemCode;
use crate::observation::Problem;
use crate::observe::Options;

/// How often changes are looked for where the caller does not say.
const EVERY: Duration = Duration::from_secs(15);
/// Problems that are reported, each once.
const TOLD: usize = 100;

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &ExportArgs) -> Result<Exit, Failure> {
    if invocation.global.from.is_some() {
        let why = "a saved observation does not change";
        let needs = "leave out --every and --listen, or --from";
        return Err(Failure::new(ProblemCode::Usage, "--from", why, needs));
    }
    let mut looker = Collector::new(invocation, args)?;
    let bound = args.listen.map(Bound::new).transpose()?;
    resident::give_up_rights(ProblemCode::Export)?;
    let signals = resident::signals(ProblemCode::Export)?;
    let options = Options { deadline: None, detail: false, ..invocation.options() };
    // Before the first look: nothing that changes after it is overlooked.
    let mut monitor = Monitor::start(&options, ProblemCode::Export)?;
    let server = bound.map(Bound::serve).transpose()?;
    let mut budget = Budget::new(args.cpu / 100.0);
    let look = budget.charge(|| looker.look_again(invocation))?;
    let changes = Changes::begin(look.node.gpus.as_deref().unwrap_or_default());
    let outlets = Outlets::new(args, server);
    let (told, failing) = (HashSet::new(), Vec::new());
    let mut exporter = Exporter { invocation, outlets, changes, look, told, failing };
    exporter.looked();
    let every = args.every.unwrap_or(EVERY);
    let mut pending = false;
    loop {
        exporter.publish()?;
        if wait(&signals, every) {
            return Ok(Exit::Yes);
        }
        let checked = monitor.check()?;
        exporter.changes.events(&checked.events);
        // A change that had to wait is still to be looked at.
        pending |= checked.changed;
        if budget.allows(pending, Instant::now()) {
            exporter.look = budget.charge(|| looker.look_again(exporter.invocation))?;
            exporter.looked();
            pending = false;
        }
    }
}

/// Waits; whether a signal came.
fn wait(signals: &SignalFd, every: Duration) -> bool {
    let until = Instant::now() + every;
    loop {
        if matches!(signals.read_signal(), Ok(Some(_))) {
            return true;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let timeout = PollTimeout::try_from(left.as_millis().saturating_add(1)).unwrap_or(PollTimeout::MAX);
        let _interrupted = poll(&mut [PollFd::new(signals.as_fd(), PollFlags::POLLIN)], timeout);
    }
}

/// A running command.
struct Exporter<'s, 'a> {
    invocation: &'s mut Invocation<'a>,
    outlets: Outlets<'s>,
    changes: Changes,
    /// The last look at the whole node.
    look: Exposition,
    /// What looks at the node said on standard error.
    told: HashSet<String>,
    /// The outlets that failed last time, with their reasons.
    failing: Vec<Problem>,
}

impl Exporter<'_, '_> {
    /// Counts what a look found. Its answer is large and not needed after that.
    fn looked(&mut self) {
        self.changes.look(&std::mem::take(&mut self.look.node));
    }

    /// Hands out what is known. An outlet that fails is reported and tried again: a full
    /// disk or a missing directory may be mended while gpumap runs.
    fn publish(&mut self) -> Result<(), Failure> {
        self.changes.checked(jiff::Timestamp::now().as_duration().as_secs_f64());
        let mut families = self.look.families.clone();
        families.extend(self.changes.families());
        let mut problems = self.look.errors.clone();
        let mut failing = Vec::new();
        let written = self.outlets.metrics(self.invocation, &families).map(|()| None);
        for done in [written, self.outlets.mapping(&self.look.mapping)] {
            match done {
                Ok(problem) => problems.extend(problem),
                Err(Failure::Problem(problem)) => failing.push(*problem),
                Err(failure) => return Err(failure),
            }
        }
        self.tell_failing(failing)?;
        self.tell(problems)
    }

    /// Tells an outlet that fails, each time that it begins to. Nothing else that was
    /// told keeps this back: it means that monitoring sees old numbers.
    fn tell_failing(&mut self, failing: Vec<Problem>) -> Result<(), Failure> {
        let new: Vec<Problem> = failing.iter().filter(|one| !self.failing.contains(one)).cloned().collect();
        self.failing = failing;
        if new.is_empty() { Ok(()) } else { self.invocation.problems(&new) }
    }

    /// Tells problems that were not told before.
    fn tell(&mut self, mut problems: Vec<Problem>) -> Result<(), Failure> {
        let told = &mut self.told;
        problems.retain(|problem| {
            let key = format!("{} {} {}", problem.code, problem.what, problem.why);
            told.len() < TOLD && told.insert(key)
        });
        if problems.is_empty() { Ok(()) } else { self.invocation.problems(&problems) }
    }
}
