//! Makes the events of processes, and resolves what the processes ask for.

use std::rc::Rc;

use super::Tracker;
use crate::model::EventKind;
use crate::observation::Text;
use crate::report::{Asked, Event};
use crate::watch::node::{CgroupReach, OwnedCgroup};
use crate::watch::{EventSubject, KNOWN, NOT_YET};

impl Tracker {
    /// An event about a process in its cgroup, without what happened.
    pub(super) fn about(&mut self, kind: EventKind, at: String, subject: &EventSubject) -> Event {
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
