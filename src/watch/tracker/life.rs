//! The life of processes: fork, execve, the initialisation of a driver, exit; and the events
//! about a process, with what it asks for.

use std::rc::Rc;

use super::Tracker;
use super::environment::chooses;
use super::state::{TrackedProcess, known};
use crate::model::{EventCause, EventKind, Time};
use crate::observation::{Environment, Text};
use crate::report::{Asked, Event};
use crate::watch::node::{CgroupReach, OwnedCgroup};
use crate::watch::{Driver, EventSubject, KNOWN, NOT_YET};

/// Said of a process that ended before it could be read again.
const UNNAMED: &str =
    "it changed a variable whose name could not be read, and ended before its environment was read again";

impl Tracker {
    /// The environment of a program whose event does not tell it, which ends at
    /// an address with this low half: if the process is still there.
    pub(super) fn environment_at_exec(
        &mut self,
        subject: &EventSubject,
        env_end: u32,
    ) -> Option<Environment> {
        let peek = self.node.environment_at_exec(subject.pid);
        // Else it executed another program since, whose event comes next.
        let peek = peek.filter(|peek| {
            let same = peek.env_end == 0 || peek.env_end & u64::from(u32::MAX) == u64::from(env_end);
            peek.start_time == subject.start_time && same
        });
        peek.and_then(known)
    }

    /// It executed a program, which was given an environment.
    pub(super) fn executed(
        &mut self,
        at: u64,
        subject: &EventSubject,
        environment: Option<Environment>,
    ) -> Option<Event> {
        let followed = self.state(subject)?.is_followed("", at);
        let asked_before = if followed { self.asked(subject) } else { None };
        self.recent.insert(subject.account, subject.pid);
        let state = self.state(subject)?;
        let (reported, gaps, changes) = (state.reported, state.gaps, state.changes);
        *state = TrackedProcess::new(subject, gaps);
        // What was read before that, and is still to be compared, is another program's.
        (state.reported, state.environment, state.changes) = (reported, environment, changes + 1);
        let environment = state.environment.as_ref()?;
        let chooses = environment.variables.iter().any(|variable| chooses(&variable.name));
        self.uncovered.remove(subject.pid);
        if !chooses {
            return None;
        }
        let asked = self.asked(subject).or_else(|| self.asked_nowhere(subject));
        let why = asked.as_ref().and_then(|asked| self.why_none(subject, asked, None));
        self.state(subject)?.reported = true;
        let at = self.time(at);
        let about = self.about(EventKind::Process, at, subject);
        Some(Event { how: Some(EventCause::Exec), asked_before, asked, why, ..about })
    }

    /// It was forked from the process `parent` that started at `parent_start`,
    /// whose environment it has.
    pub(super) fn forked(&mut self, subject: &EventSubject, parent: u32, parent_start: u64) {
        let parent = self.processes.get(&parent).map(|parent| parent.subject.clone());
        let parent = parent.filter(|parent| parent.start_time == parent_start);
        let parent = parent.and_then(|parent| self.state(&parent).cloned());
        let Some(state) = self.state(subject) else { return };
        if let Some(parent) = parent {
            *state = TrackedProcess::new(subject, state.gaps);
            state.inherit(&parent);
        }
    }

    /// It ended.
    pub(super) fn ended(&mut self, at: u64, subject: &EventSubject) -> Option<Event> {
        let state = self.processes.get(&subject.pid);
        let reported = state.is_some_and(|state| state.reported || state.doubtful);
        let why = state.is_some_and(|state| state.doubtful).then(|| UNNAMED.to_owned());
        let at = self.time(at);
        let event = reported.then(|| Event { why, ..self.about(EventKind::Exit, at, subject) });
        let account = self.processes.remove(&subject.pid).and_then(|state| state.subject.account);
        self.recent.remove(account, subject.pid);
        self.weights.remove(subject.pid);
        self.gone = Some((subject.pid, account));
        for turns in [&mut self.turns, &mut self.uncovered, &mut self.doubtful] {
            turns.remove(subject.pid);
        }
        event
    }

    /// It initialised a driver's library; 0 is success.
    pub(super) fn driver(&mut self, at: u64, subject: &EventSubject, driver: Driver, result: i32) -> Event {
        if let Some(state) = self.state(subject) {
            if result == 0 {
                state.effect.initialise(driver);
            }
            state.reported = true;
        }
        let at = self.time(at);
        let why = (result != 0).then(|| format!("{} failed with {result}", driver.function()));
        let how = Some(driver.function());
        Event { how, why, ..self.about(EventKind::Driver, at, subject) }
    }
}

impl Tracker {
    /// An event about a process in its cgroup, without what happened.
    pub(super) fn about(&mut self, kind: EventKind, at: Time, subject: &EventSubject) -> Event {
        let event = Event::at(kind, at).of_process(subject);
        match self.place(subject) {
            Some(place) => event.in_cgroup(&place.path, place.owner.clone()),
            None => event,
        }
    }

    /// The cgroup of a process: that of the event, or as it was when it was
    /// last looked at.
    pub(super) fn place(&mut self, subject: &EventSubject) -> Option<Rc<OwnedCgroup>> {
        let now = self.node.cgroup_of(subject);
        let state = self.state(subject)?;
        state.place = now.or(state.place.take());
        state.place.clone()
    }

    /// What a process asks for with the environment that it has; `None` where
    /// its cgroup is gone.
    pub(super) fn asked(&mut self, subject: &EventSubject) -> Option<Asked> {
        let known = self.reach(subject)?;
        Some(self.state(subject)?.asked(&known))
    }

    /// The same where its cgroup is gone, and what it may open with it.
    pub(super) fn asked_nowhere(&mut self, subject: &EventSubject) -> Option<Asked> {
        let known = self.node.reach_without_cgroup(subject)?;
        Some(known.asked(self.state(subject)?.environment.as_ref()))
    }

    /// Why a process gets no GPU with what it asks for.
    pub(super) fn why_none(
        &mut self,
        subject: &EventSubject,
        asked: &Asked,
        name: Option<&str>,
    ) -> Option<String> {
        self.reach(subject)?.why_none(asked, name)
    }

    /// Events of cgroups whose programs take long to decode, and of the moves that waited for
    /// them.
    pub(super) fn decoding(&mut self) -> Vec<Event> {
        let event = |(path, is_known): (Text, bool)| {
            let why = if is_known { KNOWN } else { NOT_YET };
            Event::now(EventKind::Decoding).in_cgroup(&path, None).because(why)
        };
        let mut events: Vec<Event> = self.node.decoding().into_iter().map(event).collect();
        for (question, reach) in self.node.answers() {
            events.extend(self.undecided.learn(question, &reach));
        }
        events
    }

    fn reach(&mut self, subject: &EventSubject) -> Option<Rc<CgroupReach>> {
        let place = self.place(subject)?;
        self.node.reach(subject, &place)
    }
}

/// An account whose programs are not all looked at.
pub(super) fn overlooked(account: Option<u32>) -> Event {
    let who = account.map_or("a user".to_owned(), |uid| format!("uid {uid}"));
    Event::now(EventKind::Uncovered).because(format!(
        "{who} executes programs faster than they can be looked at: changes by libraries that nobody else uses may not be seen"
    ))
}

/// How many events were lost is not known.
pub(super) fn uncounted(why: &str) -> Event {
    Event::now(EventKind::Uncovered).because(format!("how many events were lost cannot be asked: {why}"))
}
