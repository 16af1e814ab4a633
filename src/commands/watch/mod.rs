//! `gpumap watch`: reports changes as they happen.

mod allowance;
mod print;
mod users;

use std::collections::HashSet;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signalfd::SignalFd;

use crate::cli::{Exit, WatchArgs};
use crate::commands::files;
use crate::commands::invocation::{Failure, Invocation};
use crate::commands::resident::output::Output;
use crate::commands::resident::{self, scope};
use crate::loader;
use crate::model::{EventKind, ProblemCode};
use crate::observation::Observation;
use crate::observe::Options;
use crate::report::{Event, Gpu};
use crate::sys::heap;
use crate::watch::opens::OpensWatcher;
use crate::watch::policy::PolicyWatcher;
use crate::watch::{self, Baseline, EventSource, FactSource, Mode, ProcessScope, Tracker, WatchError};
use crate::{gpu, observe};
use allowance::Allowances;
use users::Users;

/// How often environments are read again, and how often the state is written at
/// most.
const REREAD: Duration = Duration::from_secs(1);
const WRITE: Duration = Duration::from_millis(100);

/// The kind of probes that is to serve, for tests (CONTRIBUTING.md).
const PROBES: &str = "GPUMAP_TEST_PROBES";
/// How many cgroups are followed at most, for tests.
const CGROUPS: &str = "GPUMAP_TEST_CGROUPS";

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &WatchArgs) -> Result<Exit, Failure> {
    if invocation.global.from.is_some() {
        return Err(Failure::new(
            ProblemCode::Usage,
            "--from",
            "a saved observation does not change",
            "leave it out",
        ));
    }
    let begun = Instant::now();
    resident::give_up_rights(ProblemCode::Watch)?;
    let signals = resident::signals(ProblemCode::Watch)?;
    let followed = scope::of(invocation, &args.pid, &args.cgroup, &args.job)?;
    let (options, targets) = (options(invocation)?, followed.targets(invocation)?);
    let scope = followed.processes;
    let (loader, processes, policies) = thread::scope(|threads| {
        let policies = threads.spawn(|| PolicyWatcher::list(&options, &targets));
        // All parts of this thread share one loader. A part that does not work
        // without it reports that.
        let loader = loader::shared();
        let processes = Processes::start(&options, &scope);
        (loader, processes, policies.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let Processes { opens, mut source, tracker, node } = processes?;
    // Before the watch is ready: meanwhile nobody looks at what a process executes.
    let mut policies = policies?;
    policies.choose_lists();
    drop(loader);
    heap::give_back();
    let end = args.lasting.and_then(|lasting| Instant::now().checked_add(lasting));
    let users = Users::new(invocation.options());
    let mut watch = Watch {
        output: Output::start(std::io::stdout().as_fd())?,
        text: Vec::new(),
        allowances: Allowances::default(),
        stopped: false,
        signals,
        invocation,
        args,
        everybody: scope.all,
        tracker,
        others: vec![Box::new(policies), Box::new(opens)],
        gpus: gpu::inventory(&node.gpu_facts),
        boot_id: node.host.boot_id,
        end,
        changed: false,
        dirty: true,
        written: None,
        shown: HashSet::new(),
        users,
    };
    watch.start(&mut source, begun)?;
    watch.follow(&mut source)
}

/// The parts of a watch that follow processes.
struct Processes {
    opens: OpensWatcher,
    source: FactSource,
    tracker: Tracker,
    /// The node's GPUs.
    node: Observation,
}

impl Processes {
    /// Starts them one after another. An environment is read when its changes are
    /// already followed, so that no change falls between, and while others are not
    /// yet.
    fn start(options: &Options, scope: &ProcessScope) -> Result<Self, Failure> {
        let opens = OpensWatcher::start(options, scope)
            .map_err(|error| Failure::new(ProblemCode::Watch, "processes", error.to_string(), ""))?;
        let mut baseline = Baseline::new(&options.proc);
        let seen = |pids: &[u32]| baseline.read(pids);
        let mut source = FactSource::start_with(scope, &options.proc, mode()?, seen).map_err(refused)?;
        let found = scope.processes(&options.proc);
        source.may_miss(found.unlisted);
        baseline.read_others(found.pids);
        let node = observe::gpus(options);
        let root = Path::new(&node.host.cgroup_root);
        let mut tracker = Tracker::new(options.clone()).within(scope.clone(), root);
        tracker.learn(baseline);
        Ok(Self { opens, source, tracker, node })
    }
}

/// A running command.
struct Watch<'s, 'a> {
    invocation: &'s mut Invocation<'a>,
    /// The output, and the lines that it has not taken yet.
    output: Output,
    text: Vec<u8>,
    /// The output that each user may still cause.
    allowances: Allowances,
    signals: SignalFd,
    /// It was to end while its output was not read.
    stopped: bool,
    args: &'s WatchArgs,
    /// Whether the whole node is watched.
    everybody: bool,
    tracker: Tracker,
    others: Vec<Box<dyn EventSource>>,
    /// The node's GPUs, until there is an answer about a process.
    gpus: Vec<Gpu>,
    boot_id: String,
    end: Option<Instant>,
    /// Whether there was a change.
    changed: bool,
    /// Whether the state file is older than the state, and when it was written.
    dirty: bool,
    written: Option<Instant>,
    /// Processes of which a line was printed, until they end.
    shown: HashSet<(u32, u64)>,
    /// Names of users.
    users: Users,
}

impl Watch<'_, '_> {
    /// Prints the first event: the kernel interfaces in use, what is not covered,
    /// and that everything is in place since `begun`. The processes that are not
    /// covered are listed with -v only.
    fn start(&mut self, source: &mut FactSource, begun: Instant) -> Result<(), Failure> {
        let mut engines = source.engines();
        engines.extend(self.others.iter().map(|other| other.engine()));
        self.save()?;
        let facts = source.begun();
        let uncovered: Vec<Event> = facts.into_iter().flat_map(|fact| self.tracker.take(fact)).collect();
        let mut not_seen = source.not_seen();
        not_seen.extend(watch::not_seen(&uncovered));
        let ready_after_ms = u64::try_from(begun.elapsed().as_millis()).ok();
        self.print(vec![Event { engines, not_seen, ready_after_ms, ..Event::now(EventKind::Start) }])?;
        let count = uncovered.len();
        if self.invocation.global.json {
            self.print(uncovered)?;
        }
        self.print(vec![Event { ready_after_ms, uncovered: Some(count), ..Event::now(EventKind::Ready) }])
    }

    fn follow(&mut self, source: &mut FactSource) -> Result<Exit, Failure> {
        let mut next = Instant::now() + REREAD;
        loop {
            let now = Instant::now();
            let until = self.end.map_or(next, |end| end.min(next));
            let until = if self.dirty { until.min(now + WRITE) } else { until };
            let facts = source
                .wait(until.saturating_duration_since(now), Some(self.signals.as_fd()))
                .map_err(refused)?;
            self.take(facts)?;
            if Instant::now() >= next && !self.stopped {
                self.reread(source)?;
                next = Instant::now() + REREAD;
            }
            self.save()?;
            let stopped = self.stopped || matches!(self.signals.read_signal(), Ok(Some(_)));
            let over = self.end.is_some_and(|end| Instant::now() >= end);
            if stopped || over || (self.args.until_change && self.changed) {
                return self.finish(over);
            }
        }
    }

    /// Ends the watch: the output has a moment to be read, and the state is written.
    fn finish(&mut self, over: bool) -> Result<Exit, Failure> {
        self.written = None;
        self.save()?;
        self.tell_untold()?;
        self.print(vec![Event::now(EventKind::End)])?;
        if !self.output.finish()? {
            return Ok(Exit::Incomplete);
        }
        let missed = self.args.until_change && !self.changed && over;
        Ok(if missed { Exit::No } else { Exit::Yes })
    }

    /// Polls environments for changes that probes missed. Changes that probes
    /// reported while it read are taken first.
    fn reread(&mut self, source: &mut FactSource) -> Result<(), Failure> {
        let reread = self.tracker.reread();
        for pid in reread.pids() {
            source.cover(pid, false);
        }
        self.catch_up(source, reread.at())?;
        let events = self.tracker.compare(reread);
        self.print(events)?;
        let others: Vec<Event> = self.others.iter_mut().flat_map(|other| other.events()).collect();
        self.print(others)?;
        self.tell_untold()
    }

    /// Prints how many events of each user were not printed.
    fn tell_untold(&mut self) -> Result<(), Failure> {
        let untold = self.allowances.untold(Instant::now());
        if untold.is_empty() {
            return Ok(());
        }
        self.print(vec![Event::lost(untold).because(allowance::why())])
    }

    /// Takes the facts up to a moment: until one is newer or none are left.
    fn catch_up(&mut self, source: &mut FactSource, moment: u64) -> Result<(), Failure> {
        loop {
            let facts = source.wait(Duration::ZERO, None).map_err(refused)?;
            let done = self.stopped
                || facts.is_empty()
                || facts.iter().any(|fact| fact.at().is_some_and(|at| at > moment));
            self.take(facts)?;
            if done {
                return Ok(());
            }
        }
    }

    fn save(&mut self) -> Result<(), Failure> {
        let Some(path) = self.args.state.as_ref().filter(|_| self.dirty) else {
            self.dirty = false;
            return Ok(());
        };
        if self.written.is_some_and(|written| written.elapsed() < WRITE) {
            return Ok(());
        }
        watch::state::write(path, &self.boot_id, self.tracker.last_set())
            .map_err(|error| files::failure(path, &error))?;
        self.dirty = false;
        self.written = Some(Instant::now());
        Ok(())
    }
}

/// The options, with fewer cgroups where a test wants that.
fn options(invocation: &Invocation<'_>) -> Result<Options, Failure> {
    let options = invocation.options();
    let Some(number) = std::env::var_os(CGROUPS) else { return Ok(options) };
    let number = number.to_str().and_then(|number| number.parse().ok());
    let most_cgroups = number
        .ok_or_else(|| Failure::new(ProblemCode::Usage, CGROUPS, "no number", "a number of cgroups"))?;
    Ok(Options { most_cgroups, ..options })
}

/// The mode that a test wants.
fn mode() -> Result<Option<Mode>, Failure> {
    let Some(name) = std::env::var_os(PROBES) else { return Ok(None) };
    let mode = name.to_str().and_then(Mode::named);
    mode.map(Some)
        .ok_or_else(|| Failure::new(ProblemCode::Usage, PROBES, "no kind of probes", "session or pair"))
}

fn refused(error: WatchError) -> Failure {
    let needs = match &error {
        WatchError::NoBtf(_) => "Linux 5.8 or later with BTF (CONFIG_DEBUG_INFO_BTF)",
        WatchError::Load(_) | WatchError::Attach(..) if observe::is_in_user_namespace() => {
            "root of the node, outside of this user namespace (container)"
        }
        WatchError::Load(_) | WatchError::Attach(..) => "root, and Linux 5.8 or later",
        WatchError::Scope(_) | WatchError::Object(_) | WatchError::Wait(_) => "",
    };
    Failure::new(ProblemCode::Watch, "", error.to_string(), needs)
}
