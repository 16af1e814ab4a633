//! Events as they are reported.

use std::rc::Rc;

use super::Tracker;
use super::place::Place;
use super::resolve::Known;
use crate::report::{Asked, Event, EventProcess, LostBy, SCHEMA};
use crate::watch::Subject;

impl Tracker {
    /// An event about a process, without what happened.
    pub(super) fn about(&mut self, what: &str, at: String, subject: &Subject) -> Event {
        let place = self.place(subject);
        let place = place.as_deref();
        Event {
            cgroup: place.map(|place| place.text.clone()),
            cgroup_hex: place.and_then(|place| place.hex.clone()),
            owner: place.and_then(|place| place.owner.clone()),
            ..of_process(what, at, subject)
        }
    }

    /// The cgroup of a process: that of the event, or as it was when it was
    /// last looked at.
    pub(super) fn place(&mut self, subject: &Subject) -> Option<Rc<Place>> {
        let now = self.resolver.place(subject);
        let state = self.state(subject)?;
        state.place = now.or(state.place.take());
        state.place.clone()
    }

    /// What a process asks for with the environment that it has; `None` where
    /// its cgroup is gone.
    pub(super) fn asked(&mut self, subject: &Subject) -> Option<Asked> {
        let known = self.asker(subject)?;
        Some(self.state(subject)?.asked(&known))
    }

    /// The same where its cgroup is gone, and what it may open with it.
    pub(super) fn asked_nowhere(&mut self, subject: &Subject) -> Option<Asked> {
        let known = self.resolver.nowhere(subject)?;
        Some(known.asked(self.state(subject)?.environment.as_ref()))
    }

    /// Why a process gets no GPU with what it asks for.
    pub(super) fn why_none(
        &mut self,
        subject: &Subject,
        asked: &Asked,
        name: Option<&str>,
    ) -> Option<String> {
        self.asker(subject)?.why_none(asked, name)
    }

    fn asker(&mut self, subject: &Subject) -> Option<Rc<Known>> {
        let place = self.place(subject)?;
        self.resolver.asker(subject, &place)
    }
}

/// An event about a process, without its place.
pub(super) fn of_process(what: &str, at: String, subject: &Subject) -> Event {
    at_time(what, at, Some(process(subject)))
}

/// An event that happens now.
pub fn event(what: &str, process: Option<EventProcess>) -> Event {
    at_time(what, jiff::Timestamp::now().to_string(), process)
}

/// An account whose programs are not all looked at.
pub(super) fn overlooked(account: Option<u32>) -> Event {
    let who = account.map_or("a user".to_owned(), |uid| format!("uid {uid}"));
    let why = format!(
        "{who} executes programs faster than they can be looked at: changes by libraries that nobody else uses may not be seen"
    );
    Event { why: Some(why), ..event("uncovered", None) }
}

/// Events of accounts that were lost.
pub fn lost(by: Vec<(Option<u32>, u64)>) -> Event {
    let all = by.iter().map(|(_, events)| events).sum();
    let lost_by = by.into_iter().map(|(uid, events)| LostBy { uid, events }).collect();
    Event { lost: Some(all), lost_by, ..event("lost", None) }
}

fn at_time(what: &str, at: String, process: Option<EventProcess>) -> Event {
    Event {
        schema: SCHEMA.to_owned(),
        command: "watch".to_owned(),
        at,
        event: what.to_owned(),
        process,
        ..Event::default()
    }
}

fn process(subject: &Subject) -> EventProcess {
    EventProcess {
        pid: subject.pid,
        start_time: Some(subject.start_time),
        uid: Some(subject.uid),
        comm: subject.comm.lossy().into_owned(),
        comm_hex: subject.comm.hex(),
    }
}
