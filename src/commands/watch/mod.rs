//! `gpumap watch`: prints changes as they happen.

pub(super) mod allowance;
mod print;
pub(super) mod users;

use std::collections::HashSet;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nix::sys::signalfd::SignalFd;

use crate::cli::{Exit, WatchArgs};
use crate::commands::files;
use crate::commands::invocation::{Failure, Invocation};
use crate::commands::resident::output::Output;
use crate::commands::resident::{self, scope};
use crate::model::{EventKind, ProblemCode};
use crate::observe::Options;
use crate::report::{Event, Gpu};
use crate::sys::test_hook;
use crate::watch::{Mode, StartError, Step, Watch, WatchError, Watched};
use crate::{gpu, observe};
use allowance::Allowances;
use users::Users;

/// How often the state is written at most.
const WRITE: Duration = Duration::from_millis(100);
/// How long events are printed without checking whether the watch is to end.
const LONG: Duration = Duration::from_secs(1);

/// The kind of probes that is to serve, for tests (docs/testing.md).
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
    let everybody = followed.processes.all;
    let watch = Watch::start(&Watched { options, scope: followed.processes, targets, mode: mode()? })
        .map_err(not_begun)?;
    let end = args.lasting.and_then(|lasting| Instant::now().checked_add(lasting));
    let users = Users::new(invocation.options());
    let mut printer = Printer {
        output: Output::start(std::io::stdout().as_fd())?,
        text: Vec::new(),
        allowances: Allowances::default(),
        stopped: false,
        signals,
        invocation,
        args,
        everybody,
        gpus: gpu::inventory(&watch.node().gpu_facts),
        watch,
        end,
        changed: false,
        dirty: true,
        written: None,
        shown: HashSet::new(),
        users,
    };
    printer.start(begun)?;
    let over = printer.follow()?;
    printer.finish(over)
}

/// Prints what a watch reports.
struct Printer<'s, 'a> {
    watch: Watch,
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
    /// The node's GPUs, until there is an answer about a process.
    gpus: Vec<Gpu>,
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

impl Printer<'_, '_> {
    /// Prints the first event: the kernel interfaces in use, what is not covered,
    /// and that everything is in place since `begun`. The processes that are not
    /// covered are listed with -v only.
    fn start(&mut self, begun: Instant) -> Result<(), Failure> {
        self.save()?;
        let engines = self.watch.engines();
        let (not_seen, uncovered) = self.watch.begun();
        let ready_after_ms = u64::try_from(begun.elapsed().as_millis()).ok();
        self.print(vec![Event { engines, not_seen, ready_after_ms, ..Event::now(EventKind::Start) }])?;
        let count = uncovered.len();
        if self.invocation.global.json {
            self.print(uncovered)?;
        }
        self.print(vec![Event { ready_after_ms, uncovered: Some(count), ..Event::now(EventKind::Ready) }])
    }

    /// Prints until it is to end. Whether its time is over.
    fn follow(&mut self) -> Result<bool, Failure> {
        // When the events since the last pause began.
        let mut begun = None;
        loop {
            let write = self.dirty.then(|| Instant::now() + WRITE);
            let until = self.end.into_iter().chain(write).min();
            match self.watch.next(until, Some(self.signals.as_fd())).map_err(refused)? {
                // Collected: a system call for each event costs more than all the rest.
                Step::Events(events) => {
                    let begun = *begun.get_or_insert_with(Instant::now);
                    self.write(events)?;
                    self.stopped |= begun.elapsed() > LONG && self.is_to_end();
                    if !self.stopped {
                        continue;
                    }
                }
                Step::Pause { reread } => {
                    if reread {
                        self.print_omitted()?;
                    }
                    begun = None;
                }
            }
            self.flush()?;
            self.save()?;
            let stopped = self.stopped || matches!(self.signals.read_signal(), Ok(Some(_)));
            let over = self.end.is_some_and(|end| Instant::now() >= end);
            if stopped || over || (self.args.until_change && self.changed) {
                return Ok(over);
            }
        }
    }

    /// Ends the watch: the output has a moment to be read, and the state is written.
    fn finish(&mut self, over: bool) -> Result<Exit, Failure> {
        self.written = None;
        self.save()?;
        self.print_omitted()?;
        self.print(vec![Event::now(EventKind::End)])?;
        if !self.output.finish()? {
            return Ok(Exit::Incomplete);
        }
        let missed = self.args.until_change && !self.changed && over;
        Ok(if missed { Exit::No } else { Exit::Yes })
    }

    /// Prints how many events of each user were not printed.
    fn print_omitted(&mut self) -> Result<(), Failure> {
        let omitted = self.allowances.omitted(Instant::now());
        if omitted.is_empty() {
            return Ok(());
        }
        self.print(vec![Event::lost(omitted).because(allowance::why())])
    }

    fn save(&mut self) -> Result<(), Failure> {
        let Some(path) = self.args.state.as_ref().filter(|_| self.dirty) else {
            self.dirty = false;
            return Ok(());
        };
        if self.written.is_some_and(|written| written.elapsed() < WRITE) {
            return Ok(());
        }
        self.watch.save(path).map_err(|error| files::failure(path, &error))?;
        self.dirty = false;
        self.written = Some(Instant::now());
        Ok(())
    }
}

/// The options, with fewer cgroups where a test wants that.
fn options(invocation: &Invocation<'_>) -> Result<Options, Failure> {
    let options = invocation.options();
    let Some(number) = test_hook::read(CGROUPS) else { return Ok(options) };
    let number = number.to_str().and_then(|number| number.parse().ok());
    let most_cgroups = number
        .ok_or_else(|| Failure::new(ProblemCode::Usage, CGROUPS, "no number", "a number of cgroups"))?;
    Ok(Options { most_cgroups, ..options })
}

/// The mode that a test wants.
fn mode() -> Result<Option<Mode>, Failure> {
    let Some(name) = test_hook::read(PROBES) else { return Ok(None) };
    let mode = name.to_str().and_then(Mode::named);
    mode.map(Some)
        .ok_or_else(|| Failure::new(ProblemCode::Usage, PROBES, "no kind of probes", "session or pair"))
}

fn not_begun(error: StartError) -> Failure {
    match error {
        StartError::Processes(error) => Failure::new(ProblemCode::Watch, "processes", error.to_string(), ""),
        StartError::Calls(error) => refused(error),
        StartError::Programs(error) => error.into(),
    }
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
