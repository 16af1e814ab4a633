//! Devices of GPUs that processes open and close.
//!
//! All processes are looked at again about once a second, by iterators where
//! they work. What is opened and closed again between two looks is not seen:
//! for that the driver would have to be traced.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::looks::{Look, Looks};
use super::{EventSource, EventSubject, ProcessScope, SOON};
use crate::analyse::{Holdings, TimeLimit, denied_of};
use crate::model::EventKind;
use crate::observation::Text;
use crate::observe::monitor::{DeviceChange, ProcessMonitor};
use crate::observe::scanner::{ProcessSummary, ScanContents, ScanError, ScanMethod};
use crate::observe::{self, ObserveError, Options};
use crate::owner::TrustedNames;
use crate::report::Event;

/// The inventory is read again with a change if it is older than this.
const FACTS: Duration = Duration::from_secs(10);
/// Looks take at most this part of the time: `/proc` of a crowded node is slow.
const SHARE: u32 = 20;
/// Processes of one look whose rules are asked for.
const ASKED: usize = 32;

/// The processes of one look whose rules are still asked for, and how long each may take.
/// Together they take as long whether they are one or many, so that a slow machine has the
/// time for one.
struct Asked {
    left: usize,
    time: Duration,
}

impl Asked {
    fn shared_by(processes: usize) -> Self {
        let each = ASKED / processes.clamp(1, ASKED);
        Self { left: ASKED, time: SOON * u32::try_from(each).unwrap_or(1) }
    }
}

/// Watches the devices of GPUs.
#[derive(Debug)]
pub struct OpensWatcher {
    options: Options,
    scope: ProcessScope,
    looks: Looks,
    root: PathBuf,
    trusted: TrustedNames,
    holdings: Holdings,
    facts_at: Instant,
    /// Cgroups of processes that hold GPUs, for when they are gone.
    places: HashMap<(u32, u64), Text>,
    /// What is to be reported of processes whose cgroups cannot be read.
    unplaced: Vec<Event>,
    next: Instant,
    /// The way to see processes that was reported last.
    engine: ScanMethod,
    /// Whether the reason why nothing is seen was reported.
    failed: bool,
}

impl OpensWatcher {
    /// Starts watching the processes in scope, and takes the current state
    /// as the baseline.
    ///
    /// # Errors
    ///
    /// Why processes cannot be seen at all.
    pub fn start(options: &Options, scope: &ProcessScope) -> Result<Self, ScanError> {
        Self::start_with(options, scope, None)
    }

    /// The same with processes seen by this engine.
    ///
    /// # Errors
    ///
    /// As [`Self::start`], and why this engine does not work.
    pub fn start_with(
        options: &Options,
        scope: &ProcessScope,
        engine: Option<ScanMethod>,
    ) -> Result<Self, ScanError> {
        let options = Options { detail: false, deadline: None, units: false, hook: false, ..options.clone() };
        let mut processes = ProcessMonitor::start_with(&options, engine, ScanContents::DevicesOnly)?;
        // The way is reported at the beginning.
        processes.problem();
        let facts = observe::gpus(&options);
        let holdings = Holdings::new(&facts.gpu_facts);
        let holds =
            |one: &&ProcessSummary| one.devices.known().is_some_and(|open| holdings.of(open).is_some());
        let holders: Vec<ProcessSummary> = processes.all().iter().filter(holds).cloned().collect();
        let now = Instant::now();
        let mut watcher = Self {
            scope: scope.clone(),
            trusted: TrustedNames::of(&facts),
            root: PathBuf::from(facts.host.cgroup_root),
            holdings,
            places: HashMap::new(),
            unplaced: Vec::new(),
            engine: processes.engine(),
            facts_at: now,
            next: now,
            failed: false,
            options,
            looks: Looks::start(processes),
        };
        holders.iter().for_each(|holder| watcher.remember(holder));
        Ok(watcher)
    }

    /// What changed since the last call. Waits for half a second at most.
    pub fn check(&mut self) -> Vec<Event> {
        if Instant::now() < self.next {
            return Vec::new();
        }
        let Some(Look { changes, engine, why, took }) = self.looks.next() else { return Vec::new() };
        self.next = Instant::now() + took * (SHARE - 1);
        let mut events = self.engine_is(engine, why);
        let changes = match changes {
            Ok(changes) => changes,
            Err(error) => return self.fail(&error),
        };
        if !(changes.opened.is_empty() && changes.closed.is_empty()) {
            self.facts();
        }
        events.extend(changes.closed.iter().filter_map(|change| self.closed(change)));
        let mut asked = Asked::shared_by(changes.opened.len());
        events.extend(changes.opened.iter().filter_map(|change| self.opened(change, &mut asked)));
        for gone in &changes.gone {
            self.places.remove(&(gone.pid, gone.start_time));
        }
        events.append(&mut self.unplaced);
        events
    }

    fn opened(&mut self, change: &DeviceChange, asked: &mut Asked) -> Option<Event> {
        let mut devices = self.holdings.of(&change.devices)?;
        self.remember(&change.process);
        let about = self.about(EventKind::Opened, &change.process)?;
        if asked.left > 0 {
            asked.left -= 1;
            let pid = change.process.pid;
            // Then the event does not say which are denied: it is not known.
            let seen = observe::processes(&self.options, &[pid]).ok();
            let limit = TimeLimit::at(Instant::now().checked_add(asked.time));
            devices.held_denied = seen.and_then(|seen| denied_of(&seen, pid, &change.devices, &limit));
        }
        Some(Event { devices: Some(devices), ..about })
    }

    fn closed(&mut self, change: &DeviceChange) -> Option<Event> {
        let devices = self.holdings.of(&change.devices)?;
        Some(Event { devices: Some(devices), ..self.about(EventKind::Closed, &change.process)? })
    }

    /// An event about a process; `None` if it is not in scope.
    fn about(&self, kind: EventKind, process: &ProcessSummary) -> Option<Event> {
        let path = self.places.get(&(process.pid, process.start_time));
        let is_named = self.scope.all || self.scope.pids.contains(&process.pid);
        let is_inside = || path.is_some_and(|path| self.scope.has_cgroup(&self.root, path));
        if !is_named && !is_inside() {
            return None;
        }
        let (pid, start_time, uid) = (process.pid, process.start_time, process.uid);
        let subject =
            EventSubject { pid, start_time, uid, comm: process.comm.clone(), ..EventSubject::default() };
        let event = Event::now(kind).of_process(&subject);
        Some(match path {
            Some(path) => event.in_cgroup(path, self.trusted.owner(path.as_bytes())),
            None => event,
        })
    }

    fn remember(&mut self, process: &ProcessSummary) {
        let (pid, start_time) = (process.pid, process.start_time);
        match observe::process_cgroup(&self.options, pid, start_time) {
            Ok(path) => {
                self.places.insert((pid, start_time), path.into());
            }
            Err(ObserveError::NoSuchProcess { .. } | ObserveError::CgroupRemoved { .. }) => {}
            Err(error) if !self.scope.all && !self.scope.pids.contains(&pid) => {
                let why = format!(
                    "process {pid} may be in scope, and devices that it opens or closes are not told: {error}"
                );
                self.unplaced.push(Event::now(EventKind::Uncovered).because(why));
            }
            // An event without a cgroup says that it is not known.
            Err(_) => {}
        }
    }

    /// Reads the inventory again unless it is fresh.
    fn facts(&mut self) {
        if self.facts_at.elapsed() > FACTS {
            self.holdings = Holdings::new(&observe::gpus(&self.options).gpu_facts);
            self.facts_at = Instant::now();
        }
    }

    /// Notes the way that is used, and reports that it is another one.
    fn engine_is(&mut self, engine: ScanMethod, why: Option<String>) -> Vec<Event> {
        if std::mem::replace(&mut self.engine, engine) == engine {
            return Vec::new();
        }
        let why = why.unwrap_or_default();
        let why = format!("open devices are looked for by {} from now on: {why}", engine.name());
        vec![Event::now(EventKind::Uncovered).because(why)]
    }

    fn fail(&mut self, error: &ScanError) -> Vec<Event> {
        let first = !std::mem::replace(&mut self.failed, true);
        let why = format!("devices that are opened are not seen: {error}");
        if first { vec![Event::now(EventKind::Uncovered).because(why)] } else { Vec::new() }
    }
}

impl EventSource for OpensWatcher {
    fn engine(&self) -> String {
        format!("open devices by {}", self.engine.name())
    }

    fn events(&mut self) -> Vec<Event> {
        self.check()
    }
}
