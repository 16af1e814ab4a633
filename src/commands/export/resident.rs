//! `gpumap export` that runs on: looks at the node, makes metrics of each look, keeps files
//! up to date and serves metrics, until a signal ends it.

use std::collections::HashSet;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::SignalFd;

use super::listen::Bound;
use super::outlets::Outlets;
use crate::audit;
use crate::cli::{Exit, ExportArgs};
use crate::commands::files::saved;
use crate::commands::invocation::{Failure, Invocation};
use crate::commands::resident;
use crate::commands::resident::budget::{Budget, Monitor};
use crate::commands::resident::look::{Decoding, Look, Looker};
use crate::commands::resident::service_manager::ServiceManager;
use crate::export::{self, Answers, Changes, Family, JobMapping};
use crate::model::ProblemCode;
use crate::observation::Problem;
use crate::observe::Options;
use crate::report::{FindingKind, NodeAnswer};

/// How often changes are looked for where the caller does not say.
const EVERY: Duration = Duration::from_secs(15);

/// How long a look is waited for before the changes that it belongs to are shown, and how
/// often it is asked for after that.
const PATIENCE: Duration = Duration::from_millis(250);

const STEP: Duration = Duration::from_millis(50);

/// Problems that are reported, each once.
const TOLD: usize = 100;

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &ExportArgs) -> Result<Exit, Failure> {
    if invocation.global.from.is_some() {
        let why = "a saved observation does not change";
        let needs = "leave out --every and --listen, or --from";
        return Err(Failure::new(ProblemCode::Usage, "--from", why, needs));
    }
    let collector = Collector::new(invocation, args)?;
    let mut manager = ServiceManager::connect();
    let bound = args.listen.map(Bound::new).transpose()?;
    resident::give_up_rights(ProblemCode::Export)?;
    let signals = resident::signals(ProblemCode::Export)?;
    let options = Options { deadline: None, detail: false, ..invocation.options() };
    // Before the first look: nothing that changes after it is overlooked.
    let mut monitor = Monitor::start(&options, ProblemCode::Export)?;
    let server = bound.map(Bound::serve).transpose()?;
    let mut budget = Budget::new(args.cpu / 100.0);
    let mut decoding = collector.looker.decoding();
    decoding.begin(budget.charge(|| collector.looker.look_again(invocation, None))?)?;
    let every = args.every.unwrap_or(EVERY);
    let Some(look) = first(&signals, &mut decoding)? else { return Ok(Exit::Yes) };
    budget.took(look.decoding);
    let look = collector.exposition(look, true);
    let mut changes = Changes::begin(&look.node.gpus);
    if monitor.watches_denials() {
        changes.watch_denials();
    }
    let outlets = Outlets::new(args, server);
    let (told, failing) = (HashSet::new(), Vec::new());
    let mut exporter = Exporter { invocation, outlets, changes, look, told, failing };
    exporter.looked();
    exporter.publish()?;
    manager.ready();
    let (mut next, mut pending) = (Instant::now() + every, false);
    loop {
        let until = manager.next().map_or(next, |ask| ask.min(next));
        let waited = wait(&signals, until, &mut decoding)?;
        manager.works();
        match waited {
            Waited::Time if Instant::now() < next => continue,
            Waited::Signal => return Ok(Exit::Yes),
            Waited::Look(look) => {
                budget.took(look.decoding);
                exporter.look = collector.exposition(*look, true);
                exporter.looked();
            }
            Waited::Time => {
                next = Instant::now() + every;
                let checked = monitor.check()?;
                exporter.changes.events(&checked.events);
                if monitor.watches_denials() {
                    exporter.changes.denials(&checked.denials);
                }
                // A change that had to wait is still to be looked at.
                pending |= checked.changed;
                if decoding.is_idle() && budget.allows(pending, Instant::now()) {
                    let looker = &collector.looker;
                    let refusals = monitor.refusals();
                    decoding.begin(budget.charge(|| looker.look_again(exporter.invocation, refusals))?)?;
                    pending = false;
                    // An ordinary look is decoded in a moment: it is shown with the changes.
                    if let Some(look) = decoding.next(PATIENCE)? {
                        budget.took(look.decoding);
                        exporter.look = collector.exposition(look, true);
                        exporter.looked();
                    }
                }
            }
        }
        exporter.publish()?;
    }
}

/// The first look; `None` if a signal came before.
fn first(signals: &SignalFd, decoding: &mut Decoding) -> Result<Option<Look>, Failure> {
    loop {
        match wait(signals, Instant::now() + EVERY, decoding)? {
            Waited::Signal => return Ok(None),
            Waited::Look(look) => return Ok(Some(*look)),
            Waited::Time => {}
        }
    }
}

/// What was waited for.
enum Waited {
    Signal,
    Look(Box<Look>),
    Time,
}

/// Waits for a signal, for a look that is decoded, or until a moment.
fn wait(signals: &SignalFd, until: Instant, decoding: &mut Decoding) -> Result<Waited, Failure> {
    loop {
        if matches!(signals.read_signal(), Ok(Some(_))) {
            return Ok(Waited::Signal);
        }
        if let Some(look) = decoding.next(Duration::ZERO)? {
            return Ok(Waited::Look(Box::new(look)));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Waited::Time);
        }
        let left = if decoding.is_idle() { left } else { left.min(STEP) };
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
        self.outlets.served()?;
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

/// Looks at the node, and makes its metrics.
pub(super) struct Collector<'a> {
    args: &'a ExportArgs,
    pub(super) looker: Looker,
    kinds: Vec<FindingKind>,
}

/// The metrics of one look (what Prometheus calls an exposition), and the files that go with them.
pub(super) struct Exposition {
    /// The metrics.
    pub families: Vec<Family>,
    /// Which jobs have which GPUs.
    pub mapping: JobMapping,
    /// The answer of `node` that all of it was made from.
    pub node: NodeAnswer,
    /// Whether all could be seen and every verdict is known.
    pub complete: bool,
    /// What could not be seen, and what is to be said besides.
    pub errors: Vec<Problem>,
}

impl<'a> Collector<'a> {
    /// Reads the configuration.
    pub(super) fn new(invocation: &mut Invocation<'_>, args: &'a ExportArgs) -> Result<Self, Failure> {
        let config = args.config.as_deref();
        let looker = Looker::new(invocation, config, args.state.clone(), args.runs_on())?;
        Ok(Self { args, looker, kinds: audit::kinds().map(audit::Kind::document).collect() })
    }

    /// Looks at the live node, or at the saved one that the caller names.
    pub(super) fn look(&self, invocation: &mut Invocation<'_>) -> Result<Exposition, Failure> {
        let is_live = invocation.global.from.is_none();
        let look = match saved::from_option(invocation)? {
            Some(observation) => self.looker.judge(invocation, observation)?,
            None => self.looker.look(invocation)?,
        };
        Ok(self.exposition(look, is_live))
    }

    /// The metrics of a look.
    pub(super) fn exposition(&self, look: Look, is_live: bool) -> Exposition {
        let families = export::families(&Answers {
            node: &look.node,
            audit: &look.audit,
            kinds: &self.kinds,
            duration: is_live.then_some(look.duration),
            owner_limit: self.args.owners,
        });
        let mapping = JobMapping::of(&look.node.payload);
        let errors = look.node.errors.into_iter().chain(look.remark).collect();
        Exposition { families, mapping, complete: look.node.complete, errors, node: look.node.payload }
    }
}
