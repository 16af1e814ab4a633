//! Applies changes of variables to what is known of a process.

use super::Tracker;
use super::environment::{apply, differences, of_new, value};
use crate::model::ValueState;
use crate::model::{EventCause, EventKind};
use crate::observation::Environment;
use crate::report::{Asked, Event, Value};
use crate::watch::{EventSubject, NewValue};

/// One changed variable.
pub(super) struct ChangedVariable<'a> {
    /// When, in nanoseconds since boot.
    pub(super) at: u64,
    /// What changed it.
    pub(super) how: EventCause,
    pub(super) name: &'a str,
    pub(super) old: Option<Value>,
    pub(super) new: Option<Value>,
    /// What the process asked for before, where that is known.
    pub(super) before: Option<Asked>,
}

impl Tracker {
    /// A call of setenv, putenv or unsetenv.
    pub(super) fn set(
        &mut self,
        at: u64,
        subject: &EventSubject,
        how: EventCause,
        name: &'static str,
        new: NewValue,
        keep: bool,
    ) -> Option<Event> {
        let state = self.state(subject)?;
        let followed = state.is_followed(name, at);
        let before = state.environment.as_ref().filter(|_| followed);
        let old = before.and_then(|before| value(before, name));
        if keep && old.as_ref().is_some_and(|old| old.state != ValueState::Unset) {
            return None;
        }
        let unsure = keep && old.is_none();
        let new = self.look(subject, name, new, unsure)?;
        let changed = of_new(&new);
        if changed.is_some() && changed == old {
            return None;
        }
        let before = if followed { self.asked(subject) } else { None };
        self.state(subject)?.change(name, |environment| apply(environment, name, &new));
        self.changed(subject, ChangedVariable { at, how, name, old, new: changed, before })
    }

    /// A call that changed a variable whose name could not be read without
    /// waiting for a page of the process. What it has is read again soon, and what
    /// differs then is reported.
    pub(super) fn unnamed(&mut self, subject: &EventSubject) {
        if let Some(state) = self.state(subject) {
            state.doubtful = true;
            state.changes += 1;
            self.doubtful.insert(subject.account, subject.pid);
        }
    }

    /// Reads the process's memory where it alone can tell: the whole
    /// environment if it is not known, the value if the kernel side could not
    /// read it, or whether a call that keeps what is there (`unsure`) set
    /// anything. The value then, `None` if nothing was set.
    fn look(
        &mut self,
        subject: &EventSubject,
        name: &'static str,
        new: NewValue,
        unsure: bool,
    ) -> Option<NewValue> {
        let unknown = self.state(subject)?.environment.is_none();
        if !unknown && !unsure && new != NewValue::Unread {
            return Some(new);
        }
        let memory = self.read(subject);
        let there = memory.as_ref().and_then(|memory| memory.environment.get(name));
        let there = there.map(|there| (there.value.as_bytes().to_vec(), there.cut));
        let seen = there.map(|(bytes, cut)| NewValue::Value { bytes, cut });
        match memory.filter(|_| unknown) {
            Some(memory) => self.state(subject)?.learn(memory),
            None if unknown => self.state(subject)?.begin(),
            None => {}
        }
        if unsure && seen.is_some() && seen.as_ref() != Some(&new) {
            return None;
        }
        Some(if new == NewValue::Unread { seen.unwrap_or(new) } else { new })
    }

    /// A call of clearenv.
    pub(super) fn cleared(&mut self, at: u64, subject: &EventSubject) -> Vec<Event> {
        let how = EventCause::Clearenv;
        let asked = self.asked(subject);
        let Some(state) = self.state(subject) else { return Vec::new() };
        // Memory that is ahead of this call says nothing of before.
        let followed = state.is_followed("", at);
        let now = Environment::default();
        let Some(known) = state.replace(Some(now.clone())).filter(|_| followed) else {
            let change = ChangedVariable { at, how, name: "", old: None, new: None, before: None };
            let event = self.changed(subject, change);
            return event.into_iter().map(|event| Event { variable: None, new: None, ..event }).collect();
        };
        let names = differences(&known, &now);
        let change = |name: &String| {
            let (old, new) = (value(&known, name), value(&now, name));
            self.changed(subject, ChangedVariable { at, how, name, old, new, before: asked.clone() })
        };
        names.iter().filter_map(change).collect()
    }

    /// The event of a change that the environment has already.
    pub(super) fn changed(&mut self, subject: &EventSubject, change: ChangedVariable<'_>) -> Option<Event> {
        let at = self.node.time(change.at);
        let state = self.state(subject)?;
        state.changes += 1;
        state.told = true;
        if let Some(last) = state.last_set.get_mut(change.name) {
            *last = at;
        } else if !change.name.is_empty() {
            state.last_set.insert(change.name.to_owned(), at);
        }
        let asked = self.asked(subject);
        let why = match (&change.new, &asked) {
            (None, _) => Some("the value could not be read".to_owned()),
            (Some(_), Some(asked)) => self.why_none(subject, asked, Some(change.name)),
            (Some(_), None) => None,
        };
        Some(Event {
            how: Some(change.how),
            variable: Some(change.name.to_owned()),
            why,
            old: change.old,
            new: change.new,
            asked_before: change.before.filter(|_| asked.is_some()),
            asked,
            effective: self.effective(change.name, change.at, subject),
            ..self.about(EventKind::Visible, at.to_string(), subject)
        })
    }

    /// Whether a change has an effect in its process.
    fn effective(&mut self, name: &str, at: u64, subject: &EventSubject) -> Option<bool> {
        let mut effect = self.state(subject)?.effect;
        let now = self.node.now();
        let answer = effect.of(name, at, now, || self.node.mapped_drivers(subject.pid));
        self.state(subject)?.effect = effect;
        answer
    }
}
