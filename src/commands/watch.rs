//! `gpumap watch`: what changes, as it happens.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::{Failure, Session, watch_scope};
use crate::cli::{Exit, WatchArgs};
use crate::report::Event;
use crate::watch::opens::OpensWatcher;
use crate::watch::policy::PolicyWatcher;
use crate::watch::{self, EventSource, Source, Tracker, WatchError};
use crate::{observe, render};

/// How often environments are read again, and the state is written at most.
const REREAD: Duration = Duration::from_secs(1);
const WRITE: Duration = Duration::from_millis(100);

/// Runs the command.
pub(super) fn run(session: &mut Session<'_>, args: &WatchArgs) -> Result<Exit, Failure> {
    if session.global.from.is_some() {
        return Err(Failure::new("usage", "--from", "a saved observation does not change", "leave it out"));
    }
    let signals = signals()?;
    let scope = watch_scope::of(session, args)?;
    let proc = session.global.proc.clone();
    let mut source = Source::start(&scope, &proc).map_err(refused)?;
    let mut tracker = Tracker::new(session.options());
    tracker.learn(scope.processes(&proc));
    let targets = watch_scope::targets(session, &scope)?;
    let policies = PolicyWatcher::start(&session.options(), &targets)?;
    let opens = OpensWatcher::start(&session.options(), &scope)
        .map_err(|error| Failure::new("watch", "processes", error.to_string(), ""))?;
    let boot_id = observe::gpus(&session.options()).host.boot_id;
    let end = args.lasting.and_then(|lasting| Instant::now().checked_add(lasting));
    let mut watch = Watch {
        session,
        args,
        tracker,
        others: vec![Box::new(policies), Box::new(opens)],
        boot_id,
        end,
        changed: false,
        dirty: true,
        written: None,
    };
    watch.start(&source)?;
    watch.follow(&mut source, &signals)
}

/// A running command.
struct Watch<'s, 'a> {
    session: &'s mut Session<'a>,
    args: &'s WatchArgs,
    tracker: Tracker,
    others: Vec<Box<dyn EventSource>>,
    boot_id: String,
    end: Option<Instant>,
    /// Whether there was a change.
    changed: bool,
    /// Whether the state file is behind, and when it was written.
    dirty: bool,
    written: Option<Instant>,
}

impl Watch<'_, '_> {
    fn start(&mut self, source: &Source) -> Result<(), Failure> {
        let mut engines = source.engines();
        engines.extend(self.others.iter().map(|other| other.engine()));
        self.save()?;
        self.print(&[Event { engines, ..watch::event("start", None) }])
    }

    fn follow(&mut self, source: &mut Source, signals: &SignalFd) -> Result<Exit, Failure> {
        let mut next = Instant::now() + REREAD;
        loop {
            let now = Instant::now();
            let until = self.end.map_or(next, |end| end.min(next));
            let until = if self.dirty { until.min(now + WRITE) } else { until };
            let facts =
                source.wait(until.saturating_duration_since(now), Some(signals.as_fd())).map_err(refused)?;
            self.take(facts)?;
            if Instant::now() >= next {
                self.reread(source)?;
                next = Instant::now() + REREAD;
            }
            self.save()?;
            let stopped = matches!(signals.read_signal(), Ok(Some(_)));
            let over = self.end.is_some_and(|end| Instant::now() >= end);
            if stopped || over || (self.args.until_change && self.changed) {
                self.print(&[watch::event("end", None)])?;
                let missed = self.args.until_change && !self.changed && over;
                return Ok(if missed { Exit::No } else { Exit::Yes });
            }
        }
    }

    /// Finds what no call told. What was told while it was read comes first.
    fn reread(&mut self, source: &mut Source) -> Result<(), Failure> {
        let reread = self.tracker.reread();
        for pid in reread.pids() {
            source.cover(pid, false);
        }
        let facts = source.wait(Duration::ZERO, None).map_err(refused)?;
        self.take(facts)?;
        let events = self.tracker.compare(reread);
        self.print(&events)?;
        let others: Vec<Event> = self.others.iter_mut().flat_map(|other| other.events()).collect();
        self.print(&others)
    }

    fn take(&mut self, facts: Vec<watch::Fact>) -> Result<(), Failure> {
        for fact in facts {
            let events = self.tracker.take(fact);
            self.print(&events)?;
        }
        Ok(())
    }

    fn print(&mut self, events: &[Event]) -> Result<(), Failure> {
        for event in events {
            self.changed |= matches!(event.event.as_str(), "visible" | "policy") && !is_replacement(event);
            self.dirty |= matches!(event.event.as_str(), "visible" | "exit" | "process");
            if self.session.global.json {
                render::json::write(self.session.out, event)?;
            } else if self.session.style.all || !is_replacement(event) {
                render::event(self.session.out, event, self.tracker.gpus())?;
            }
        }
        if !events.is_empty() {
            self.session.out.flush()?;
        }
        Ok(())
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
            .map_err(|error| Failure::file(path, &error))?;
        self.dirty = false;
        self.written = Some(Instant::now());
        Ok(())
    }
}

/// Whether programs were replaced by others that decide the same, as Slurm does
/// at every step: nothing that people watch for.
fn is_replacement(event: &Event) -> bool {
    event.policy.as_ref().is_some_and(|policy| policy.equal)
}

/// The signals that end a watch, as a descriptor. Blocked before anything else
/// is begun: threads inherit that.
fn signals() -> Result<SignalFd, Failure> {
    let set: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    let fd = set
        .thread_block()
        .and_then(|()| SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK));
    fd.map_err(|errno| Failure::new("watch", "signals", errno.desc(), ""))
}

fn refused(error: WatchError) -> Failure {
    let needs = match &error {
        WatchError::NoBtf(_) => "Linux 5.8 or later with BTF (CONFIG_DEBUG_INFO_BTF)",
        WatchError::Load(_) | WatchError::Attach(..) => "root, and Linux 5.8 or later",
        WatchError::Object(_) | WatchError::Wait(_) => "",
    };
    Failure::new("watch", "", error.to_string(), needs)
}
