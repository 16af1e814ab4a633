//! A whole watch: its parts are begun in the right order, and their facts taken so that no
//! change is lost between them.
//!
//! Probes tell most changes at once. What they do not tell is found once a second: the
//! [`Tracker`] reads environments again (`reread`), their processes are looked at for
//! libraries without probes (`cover`), every fact up to that moment is taken (catching up),
//! and only then are the environments compared with what is known. Without the third step a
//! change that lies in the ring already would be reported as one that no probe saw.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::denials::DenialsWatcher;
use super::opens::OpensWatcher;
use super::policy::PolicyWatcher;
use super::source::FactSource;
use super::tracker::{Baseline, Reread, Tracker};
use super::{EventSource, Fact, Mode, ProcessScope, StartError, WatchError, not_seen, state};
use crate::loader;
use crate::observation::Observation;
use crate::observe::{self, CgroupTarget, Options};
use crate::output_file::OutputError;
use crate::report::{Event, Gpu};
use crate::sys::heap;

/// How often environments are read again.
const REREAD: Duration = Duration::from_secs(1);

/// What is watched.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The node.
    pub options: Options,
    /// Whose processes.
    pub scope: ProcessScope,
    /// The cgroups whose programs are watched.
    pub targets: Vec<CgroupTarget>,
    /// The only kind of probes that may serve; `None`: the first that the kernel takes.
    pub mode: Option<Mode>,
}

/// A watch that has begun. All of it ends with the value.
pub struct Watch {
    source: FactSource,
    tracker: Tracker,
    others: Vec<Box<dyn EventSource>>,
    /// Why refused devices are not reported.
    no_denials: Option<String>,
    /// The node as it was in the beginning: its GPUs and which boot it is.
    node: Observation,
    /// Facts that have come and were not taken yet, and what is done after them.
    facts: VecDeque<Fact>,
    then: Then,
    /// When environments are read again.
    next: Instant,
}

/// What is done when the facts that have come are taken.
enum Then {
    /// Reads environments again, if it is time for that.
    Reread,
    /// Takes those that came up to the reading, and compares.
    CatchUp(Reread),
    /// Compares: all up to the reading are taken.
    Compare(Reread),
    /// Lets the caller go on, after environments were compared.
    Report,
    /// Waits for others.
    Wait,
}

/// One step of a watch.
#[derive(Debug)]
pub enum Step {
    /// What one fact means, or what was found by looking again.
    Events(Vec<Event>),
    /// All that has come is taken. `reread`: environments were read again, as they are once
    /// a second.
    Pause {
        /// Whether that is so.
        reread: bool,
    },
}

impl Watch {
    /// Begins a watch. Programs are listed beside: that takes as long as the rest.
    ///
    /// # Errors
    ///
    /// Why one of its parts cannot begin.
    pub fn start(watched: &Watched) -> Result<Self, StartError> {
        let Watched { options, targets, .. } = watched;
        let (loader, processes, policies) = thread::scope(|threads| {
            let policies = threads.spawn(|| PolicyWatcher::list(options, targets));
            // All parts of this thread share one loader. A part that does not work
            // without it reports that.
            let loader = loader::shared();
            let processes = Processes::start(watched);
            (loader, processes, policies.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let Processes { opens, source, tracker, node } = processes?;
        // Before the watch is ready: meanwhile nobody looks at what a process executes.
        let mut policies = policies?;
        policies.choose_lists();
        let denials = DenialsWatcher::start(options, &watched.scope, false);
        drop(loader);
        heap::give_back();
        let mut others: Vec<Box<dyn EventSource>> = vec![Box::new(policies), Box::new(opens)];
        let mut no_denials = None;
        match denials {
            Ok(denials) => others.push(Box::new(denials)),
            Err(error) => no_denials = Some(format!("devices that are refused are not reported: {error}")),
        }
        Ok(Self {
            source,
            tracker,
            others,
            no_denials,
            node,
            facts: VecDeque::new(),
            then: Then::Wait,
            next: Instant::now() + REREAD,
        })
    }

    /// The kernel interfaces that serve.
    #[must_use]
    pub fn engines(&self) -> Vec<String> {
        let mut engines = self.source.engines();
        engines.extend(self.others.iter().map(|other| other.engine()));
        engines
    }

    /// What it does not see, a sentence each, and the processes that were found in the
    /// beginning and are not covered. To be called once, before the first [`Self::next`].
    pub fn begun(&mut self) -> (Vec<String>, Vec<Event>) {
        let facts = self.source.begun();
        let uncovered: Vec<Event> = facts.into_iter().flat_map(|fact| self.tracker.take(fact)).collect();
        let mut unseen = self.source.not_seen();
        unseen.extend(self.no_denials.take());
        unseen.extend(not_seen(&uncovered));
        self.next = Instant::now() + REREAD;
        (unseen, uncovered)
    }

    /// The next step. Waits where nothing has come, until something does, that moment comes,
    /// or `interrupt` is readable. Users decide how many facts there are and how long each
    /// takes: a caller that is to end need not wait for a pause.
    ///
    /// # Errors
    ///
    /// As [`FactSource::wait`].
    pub fn next(
        &mut self,
        until: Option<Instant>,
        interrupt: Option<BorrowedFd<'_>>,
    ) -> Result<Step, WatchError> {
        loop {
            if let Some(fact) = self.facts.pop_front() {
                return Ok(Step::Events(self.tracker.take(fact)));
            }
            self.then = match std::mem::replace(&mut self.then, Then::Wait) {
                Then::Wait => {
                    let end = until.map_or(self.next, |until| until.min(self.next));
                    let time = end.saturating_duration_since(Instant::now());
                    self.facts = self.source.wait(time, interrupt)?.into();
                    Then::Reread
                }
                Then::Reread if Instant::now() < self.next => return Ok(Step::Pause { reread: false }),
                Then::Reread => Then::CatchUp(self.reread()),
                Then::CatchUp(reread) => {
                    self.facts = self.source.wait(Duration::ZERO, None)?.into();
                    let is_newer = |fact: &Fact| fact.at().is_some_and(|at| at > reread.at());
                    let is_done = self.facts.is_empty() || self.facts.iter().any(is_newer);
                    if is_done { Then::Compare(reread) } else { Then::CatchUp(reread) }
                }
                Then::Compare(reread) => {
                    let mut events = self.tracker.compare(reread);
                    events.extend(self.others.iter_mut().flat_map(|other| other.events()));
                    self.then = Then::Report;
                    return Ok(Step::Events(events));
                }
                Then::Report => {
                    self.next = Instant::now() + REREAD;
                    return Ok(Step::Pause { reread: true });
                }
            };
        }
    }

    /// Reads environments again, and looks whether their processes have libraries without
    /// probes.
    fn reread(&mut self) -> Reread {
        let reread = self.tracker.reread();
        for pid in reread.pids() {
            self.source.cover(pid, false);
        }
        reread
    }

    /// The user who answers for a process of the latest events; `None` where that is not
    /// known.
    #[must_use]
    pub fn account(&self, pid: u32) -> Option<u32> {
        self.tracker.account(pid)
    }

    /// The node's GPUs as of the last event; none before an event needed them.
    #[must_use]
    pub fn gpus(&self) -> &[Gpu] {
        self.tracker.gpus()
    }

    /// The node as it was in the beginning, with its GPUs.
    #[must_use]
    pub fn node(&self) -> &Observation {
        &self.node
    }

    /// Writes the state file.
    ///
    /// # Errors
    ///
    /// Why it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), OutputError> {
        state::write(path, &self.node.host.boot_id, self.tracker.last_set())
    }
}

/// The parts of a watch that follow processes.
struct Processes {
    opens: OpensWatcher,
    source: FactSource,
    tracker: Tracker,
    node: Observation,
}

impl Processes {
    /// Starts them one after another. An environment is read when its changes are
    /// already followed, so that no change falls between, and while others are not
    /// yet.
    fn start(Watched { options, scope, mode, .. }: &Watched) -> Result<Self, StartError> {
        let opens = OpensWatcher::start(options, scope)?;
        let mut baseline = Baseline::new(&options.proc);
        let seen = |pids: &[u32]| baseline.read(pids);
        let mut source = FactSource::start_with(scope, &options.proc, *mode, seen)?;
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
