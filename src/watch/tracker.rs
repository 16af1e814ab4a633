//! From facts to events: what each process in scope asks for is kept, so that
//! an event can say what it was before and what it is now.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use nix::time::{ClockId, clock_gettime};

use super::environment::{apply, chooses, differences, shorten, value};
use super::resolve::Resolver;
use super::{Driver, Fact, How, NewValue, Subject, mapped};
use crate::observation::{Environment, Text};
use crate::observe::Options;
use crate::observe::process::peek::{self, Peek};
use crate::owner;
use crate::report::{Event, EventProcess, Gpu, SCHEMA, Value, Visible};

/// Processes that are kept at most.
const PROCESSES: usize = 1 << 18;
/// Environments that are read again at a time: those of processes whose calls
/// are not seen, and of others in turn.
const UNCOVERED: usize = 64;
const OTHERS: usize = 32;

/// What is kept of one process.
#[derive(Clone, Debug, Default)]
struct State {
    subject: Subject,
    path: Option<Text>,
    /// As far as it is known; `None` where it is not.
    environment: Option<Environment>,
    /// Whether it has initialised a driver's library.
    initialised: bool,
    /// When it had no driver's library last, in nanoseconds since boot.
    unmapped: u64,
    /// Whether there was an event about it.
    told: bool,
    /// Number of changes, to tell whether there was one meanwhile.
    changes: u64,
    /// When the last change was, by a variable's name.
    last_set: BTreeMap<String, String>,
}

/// Environments as they were read again, to be compared.
#[derive(Debug)]
pub struct Reread(Vec<(Peek, u64)>);

impl Reread {
    /// The processes.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|(peek, _)| peek.pid)
    }
}

/// A process's last changes, for a state file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSet {
    /// The process.
    pub pid: u32,
    /// Its start time in clock ticks since boot.
    pub start_time: u64,
    /// The variables of the change: name, value and RFC 3339 time.
    pub variables: Vec<(String, Value, String)>,
}

/// Keeps what processes ask for.
#[derive(Debug)]
pub struct Tracker {
    resolver: Resolver,
    processes: HashMap<u32, State>,
    uncovered: BTreeSet<u32>,
    /// The processes that executed a program last.
    recent: VecDeque<u32>,
    /// The last process that was read again.
    turn: u32,
}

impl Tracker {
    /// Knows nothing yet.
    pub fn new(options: Options) -> Self {
        let resolver = Resolver::new(options);
        Self {
            resolver,
            processes: HashMap::new(),
            uncovered: BTreeSet::new(),
            recent: VecDeque::new(),
            turn: 0,
        }
    }

    /// Reads the environments of processes that run already. To be called when
    /// the source has begun, so that no change falls between.
    pub fn learn(&mut self, pids: impl IntoIterator<Item = u32>) {
        let own = std::process::id();
        for mut peek in peek::live(self.resolver.proc(), pids.into_iter().filter(|pid| *pid != own)) {
            if let Some(state) = self.state(&subject(&peek)) {
                state.environment = take(&mut peek);
            }
        }
    }

    /// The node's GPUs as of the last event.
    pub fn gpus(&self) -> &[Gpu] {
        &self.resolver.gpus
    }

    /// The events that a fact makes.
    pub fn take(&mut self, fact: Fact) -> Vec<Event> {
        match fact {
            Fact::Set { at, subject, how, name, value, keep } => {
                self.set(at, &subject, how, &name, value, keep).into_iter().collect()
            }
            Fact::Cleared { at, subject } => self.cleared(at, &subject),
            Fact::Exec { at, subject, env_end } => self.executed(at, &subject, env_end).into_iter().collect(),
            Fact::Fork { subject, parent, .. } => {
                self.forked(&subject, parent);
                Vec::new()
            }
            Fact::Exit { at, subject } => self.ended(at, &subject).into_iter().collect(),
            Fact::Driver { at, subject, driver, result } => vec![self.driver(at, &subject, driver, result)],
            Fact::Uncovered { pid, why } => self.not_covered(pid, why).into_iter().collect(),
            Fact::Lost(lost) => {
                // Any of them may have been about any process.
                self.processes.values_mut().for_each(|state| state.environment = None);
                vec![Event { lost: Some(lost), ..event("lost", None) }]
            }
        }
    }

    /// The state of a process: a new one if the pid is another process's now.
    /// `None` where too many are kept already.
    fn state(&mut self, subject: &Subject) -> Option<&mut State> {
        let full = self.processes.len() >= PROCESSES;
        if full && !self.processes.contains_key(&subject.pid) {
            return None;
        }
        let state = self.processes.entry(subject.pid).or_default();
        if state.subject.start_time != subject.start_time {
            *state = State::default();
        }
        // What was read from /proc has no cgroup id.
        state.subject = subject.clone();
        Some(state)
    }

    fn set(
        &mut self,
        at: u64,
        subject: &Subject,
        how: How,
        name: &str,
        mut new: NewValue,
        keep: bool,
    ) -> Option<Event> {
        let before = self.state(subject)?.environment.clone();
        let old = before.as_ref().and_then(|before| value(before, name));
        if keep && old.as_ref().is_some_and(|old| old.state != "unset") {
            return None;
        }
        if new == NewValue::Unread || before.is_none() || (keep && old.is_none()) {
            let now = self.read(subject);
            let there = now.as_ref().and_then(|now| now.get(name));
            let there = there.map(|there| (there.value.as_bytes().to_vec(), there.cut));
            let seen = there.map(|(bytes, cut)| NewValue::Value { bytes, cut });
            if keep && seen.is_some() && seen.as_ref() != Some(&new) {
                return None;
            }
            new = if new == NewValue::Unread { seen.unwrap_or(new) } else { new };
            let state = self.state(subject)?;
            if before.is_none() {
                state.environment = now;
            }
        }
        let state = self.state(subject)?;
        if let Some(environment) = &mut state.environment {
            apply(environment, name, &new);
        }
        let value = new_value(&new);
        if value.is_some() && value == old {
            return None;
        }
        self.changed(at, subject, how.name(), name, old, value, before.as_ref())
    }

    fn cleared(&mut self, at: u64, subject: &Subject) -> Vec<Event> {
        let Some(state) = self.state(subject) else { return Vec::new() };
        let before = state.environment.replace(Environment::default());
        let Some(before) = before else {
            let event = self.changed(at, subject, "clearenv", "", None, None, None);
            return event.into_iter().map(|event| Event { variable: None, new: None, ..event }).collect();
        };
        let now = Environment::default();
        let names = differences(&before, &now);
        let change = |name: &String| {
            let old = value(&before, name);
            self.changed(at, subject, "clearenv", name, old, value(&now, name), Some(&before))
        };
        names.iter().filter_map(change).collect()
    }

    /// One changed variable.
    #[expect(clippy::too_many_arguments, reason = "what happened, to whom, and what it was before")]
    fn changed(
        &mut self,
        at: u64,
        subject: &Subject,
        how: &str,
        name: &str,
        old: Option<Value>,
        new: Option<Value>,
        before: Option<&Environment>,
    ) -> Option<Event> {
        let stamp = time(at);
        let state = self.state(subject)?;
        state.changes += 1;
        state.told = true;
        if !name.is_empty() {
            state.last_set.insert(name.to_owned(), stamp.clone());
        }
        let now = state.environment.clone();
        let initialised = state.initialised;
        let mut event = self.about("visible", subject);
        let visible = self.visible(subject, before, now.as_ref());
        event.at = stamp;
        event.how = Some(how.to_owned());
        event.variable = Some(name.to_owned());
        event.why = new.is_none().then(|| "the value could not be read".to_owned());
        event.old = old;
        event.new = new;
        event.asked = visible.as_ref().map(|visible| visible.live.clone());
        event.asked_before = visible.filter(|_| before.is_some()).map(|visible| visible.at_exec);
        event.effective = if initialised { Some(false) } else { self.effective(at, subject) };
        Some(event)
    }

    /// Whether a change has an effect in a process that was not seen to
    /// initialise a driver: surely if no driver's library was mapped since.
    fn effective(&mut self, at: u64, subject: &Subject) -> Option<bool> {
        if self.state(subject)?.unmapped >= at {
            return Some(true);
        }
        let now = now_ns();
        let mapped = mapped::driver(self.resolver.proc(), subject.pid)?;
        if mapped {
            return None;
        }
        self.state(subject)?.unmapped = now;
        Some(true)
    }

    fn executed(&mut self, at: u64, subject: &Subject, env_end: u32) -> Option<Event> {
        let peek = peek::executed(self.resolver.proc(), subject.pid);
        // Else it executed another program since, whose event comes next.
        let peek = peek.filter(|peek| {
            let same = peek.env_end == 0 || peek.env_end & u64::from(u32::MAX) == u64::from(env_end);
            peek.start_time == subject.start_time && same
        });
        self.recent.push_back(subject.pid);
        if self.recent.len() > OTHERS {
            self.recent.pop_front();
        }
        let environment = peek.and_then(|mut peek| take(&mut peek));
        let state = self.state(subject)?;
        *state = State { subject: subject.clone(), told: state.told, environment, ..State::default() };
        let environment = state.environment.clone()?;
        self.uncovered.remove(&subject.pid);
        if !environment.variables.iter().any(|variable| chooses(&variable.name)) {
            return None;
        }
        let visible = self.visible(subject, None, Some(&environment));
        self.state(subject)?.told = true;
        let asked = visible.map(|visible| visible.live);
        Some(Event { at: time(at), how: Some("exec".to_owned()), asked, ..self.about("process", subject) })
    }

    fn forked(&mut self, subject: &Subject, parent: u32) {
        let parent = self.processes.get(&parent).cloned();
        let Some(state) = self.state(subject) else { return };
        if let Some(parent) = parent {
            let (environment, path) = (parent.environment, parent.path);
            *state = State { subject: subject.clone(), environment, path, ..State::default() };
            state.initialised = parent.initialised;
        }
    }

    fn ended(&mut self, at: u64, subject: &Subject) -> Option<Event> {
        let told = self.processes.get(&subject.pid).is_some_and(|state| state.told);
        let event = told.then(|| Event { at: time(at), ..self.about("exit", subject) });
        self.processes.remove(&subject.pid);
        self.uncovered.remove(&subject.pid);
        event
    }

    fn driver(&mut self, at: u64, subject: &Subject, driver: Driver, result: i32) -> Event {
        if let Some(state) = self.state(subject) {
            state.initialised |= result == 0;
            state.told = true;
        }
        let why = (result != 0).then(|| format!("{} failed with {result}", driver.function()));
        let how = Some(driver.function().to_owned());
        Event { at: time(at), how, why, ..self.about("driver", subject) }
    }

    fn not_covered(&mut self, pid: u32, why: String) -> Option<Event> {
        let mut peek = peek::live(self.resolver.proc(), [pid]).pop()?;
        let subject = subject(&peek);
        let unreadable = peek.environment.missing().map(str::to_owned);
        let environment = take(&mut peek);
        let state = self.state(&subject)?;
        state.environment = environment.or(state.environment.take());
        if unreadable.is_none() {
            self.uncovered.insert(pid);
        }
        let why = match unreadable {
            Some(unreadable) => format!("{why}; its environment cannot be read again either ({unreadable})"),
            None => format!("{why}; its environment is read again every second"),
        };
        Some(Event { why: Some(why), ..self.about("uncovered", &subject) })
    }

    /// Reads environments again: the first half of finding what no call told.
    pub fn reread(&mut self) -> Reread {
        let others = self.processes.keys().copied().collect::<BTreeSet<u32>>();
        let after = others.range(self.turn.saturating_add(1)..).chain(others.range(..=self.turn));
        let others: Vec<u32> = after.copied().take(OTHERS).collect();
        self.turn = others.last().copied().unwrap_or(0);
        let pids: BTreeSet<u32> = self
            .uncovered
            .iter()
            .copied()
            .take(UNCOVERED)
            .chain(others)
            .chain(self.recent.iter().copied())
            .collect();
        let changes = |pid: &u32| self.processes.get(pid).map_or(0, |state| state.changes);
        let before: HashMap<u32, u64> = pids.iter().map(|pid| (*pid, changes(pid))).collect();
        let seen = peek::live(self.resolver.proc(), pids.iter().copied());
        self.recent.retain(|pid| seen.iter().any(|peek| peek.pid == *pid));
        for pid in pids.iter().filter(|pid| !seen.iter().any(|peek| peek.pid == **pid)) {
            self.uncovered.remove(pid);
        }
        Reread(
            seen.into_iter()
                .map(|peek| (peek.pid, peek))
                .map(|(pid, peek)| (peek, before.get(&pid).copied().unwrap_or(0)))
                .collect(),
        )
    }

    /// The second half, after the facts of the meantime were taken: what
    /// changed without a call that was seen.
    pub fn compare(&mut self, reread: Reread) -> Vec<Event> {
        let mut events = Vec::new();
        for (mut peek, changes) in reread.0 {
            let known = self.processes.get(&peek.pid);
            let Some(known) =
                known.filter(|known| known.subject.start_time == peek.start_time && known.changes == changes)
            else {
                continue;
            };
            let subject = Subject { comm: peek.comm.clone(), uid: peek.uid, ..known.subject.clone() };
            let before = known.environment.clone();
            let Some(now) = take(&mut peek) else { continue };
            let Some(state) = self.state(&subject) else { continue };
            state.environment = Some(now.clone());
            let Some(before) = before else { continue };
            for name in differences(&before, &now) {
                let (old, new) = (value(&before, &name), value(&now, &name));
                events.extend(self.changed(now_ns(), &subject, "memory", &name, old, new, Some(&before)));
            }
        }
        events
    }

    /// The last changes of every process that is there.
    pub fn last_set(&self) -> Vec<LastSet> {
        let of = |state: &State| {
            let environment = state.environment.as_ref()?;
            let variables = state.last_set.iter();
            let variables = variables
                .filter_map(|(name, at)| Some((name.clone(), value(environment, name)?, at.clone())));
            let (pid, start_time) = (state.subject.pid, state.subject.start_time);
            Some(LastSet { pid, start_time, variables: variables.collect() })
                .filter(|one| !one.variables.is_empty())
        };
        let mut all: Vec<LastSet> = self.processes.values().filter_map(of).collect();
        all.sort_by_key(|one| one.pid);
        all
    }

    /// The environment that the process has in memory now.
    fn read(&self, subject: &Subject) -> Option<Environment> {
        let peek = peek::live(self.resolver.proc(), [subject.pid]).pop();
        take(&mut peek.filter(|peek| peek.start_time == subject.start_time)?)
    }

    fn visible(
        &mut self,
        subject: &Subject,
        before: Option<&Environment>,
        now: Option<&Environment>,
    ) -> Option<Visible> {
        let path = self.path(subject)?;
        self.resolver.asked(subject.pid, &path, before, now)
    }

    /// The cgroup of a process: as it is now, or as it was when it was last
    /// looked at.
    fn path(&mut self, subject: &Subject) -> Option<Text> {
        let now = self.resolver.cgroup(subject.pid, subject.start_time);
        let state = self.state(subject)?;
        state.path = now.or(state.path.take());
        state.path.clone()
    }

    /// An event about a process, without what happened.
    fn about(&mut self, what: &str, subject: &Subject) -> Event {
        let path = self.path(subject);
        let process = EventProcess {
            pid: subject.pid,
            start_time: Some(subject.start_time),
            uid: Some(subject.uid),
            comm: subject.comm.lossy().into_owned(),
            comm_hex: subject.comm.hex(),
        };
        Event {
            cgroup: path.as_ref().map(|path| path.lossy().into_owned()),
            cgroup_hex: path.as_ref().and_then(Text::hex),
            owner: path.and_then(|path| owner::of_path(path.as_bytes())),
            ..event(what, Some(process))
        }
    }
}

/// An event that happens now.
pub fn event(what: &str, process: Option<EventProcess>) -> Event {
    Event {
        schema: SCHEMA.to_owned(),
        command: "watch".to_owned(),
        at: jiff::Timestamp::now().to_string(),
        event: what.to_owned(),
        process,
        ..Event::default()
    }
}

fn subject(peek: &Peek) -> Subject {
    let (pid, start_time, uid) = (peek.pid, peek.start_time, peek.uid);
    Subject { pid, start_time, uid, comm: peek.comm.clone(), cgroup: 0 }
}

/// The environment that was read, if it was.
fn take(peek: &mut Peek) -> Option<Environment> {
    let mut environment = peek.environment.known()?.clone();
    shorten(&mut environment);
    Some(environment)
}

fn new_value(new: &NewValue) -> Option<Value> {
    let mut environment = Environment::default();
    apply(&mut environment, "", new);
    if *new == NewValue::Unread { None } else { value(&environment, "") }
}

/// Nanoseconds since boot.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).map(std::time::Duration::from);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

/// RFC 3339 of nanoseconds since boot.
fn time(at: u64) -> String {
    let ago = std::time::Duration::from_nanos(now_ns().saturating_sub(at));
    let now = jiff::Timestamp::now();
    now.checked_sub(ago).unwrap_or(now).to_string()
}
