//! Makes events, with the time of day of what the kernel reported, and the sentences about
//! what a watch does not cover. Every event begins here, and whoever saw what happened fills
//! in the rest.

use std::time::Duration;

use jiff::Timestamp;

use super::EventSubject;
use crate::model::{EventKind, Owner, Time};
use crate::observation::Text;
use crate::report::{Event, EventProcess, LostBy, SCHEMA};

pub(super) use crate::sys::clock::boot_ns as now_ns;

impl Event {
    /// An event that happens now.
    pub fn now(kind: EventKind) -> Self {
        Self::at(kind, Time::now())
    }

    /// An event of this time.
    pub fn at(kind: EventKind, at: Time) -> Self {
        Self { schema: SCHEMA.to_owned(), command: "watch".to_owned(), at, event: kind, ..Self::default() }
    }

    /// Events of accounts that were lost; `None` is the account of all users who
    /// are not counted by themselves.
    pub fn lost(by: Vec<(Option<u32>, u64)>) -> Self {
        let all = by.iter().map(|(_, events)| events).sum();
        let lost_by = by.into_iter().map(|(uid, events)| LostBy { uid, events }).collect();
        Self { lost: Some(all), lost_by, ..Self::now(EventKind::Lost) }
    }

    /// The same event, about a process.
    #[must_use]
    pub fn of_process(self, subject: &EventSubject) -> Self {
        let process = EventProcess {
            pid: subject.pid,
            start_time: Some(subject.start_time),
            uid: Some(subject.uid),
            comm: subject.comm.lossy().into_owned(),
            comm_hex: subject.comm.hex(),
            ..EventProcess::default()
        };
        Self { process: Some(process), ..self }
    }

    /// The same event, in a cgroup and of its owner.
    #[must_use]
    pub fn in_cgroup(self, path: &Text, owner: Option<Owner>) -> Self {
        Self { cgroup: Some(path.lossy().into_owned()), cgroup_hex: path.hex(), owner, ..self }
    }

    /// The same event with a reason.
    #[must_use]
    pub fn because(self, why: impl Into<String>) -> Self {
        Self { why: Some(why.into()), ..self }
    }
}

/// Processes that a sentence names.
const NAMED: usize = 8;

/// A sentence for each reason that these `uncovered` events have.
pub fn not_seen(uncovered: &[Event]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for event in uncovered {
        let why = event.why.as_deref().unwrap_or_default();
        let who = event.process.as_ref().map(|one| format!("{} {}", one.pid, one.comm));
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, processes)) => processes.extend(who),
            None => reasons.push((why, who.into_iter().collect())),
        }
    }
    reasons.into_iter().map(|(why, processes)| sentence(why, &processes)).collect()
}

/// The sentence of a reason; one that is of no process says itself what is not seen.
fn sentence(why: &str, processes: &[String]) -> String {
    let count = match processes.len() {
        0 => return why.to_owned(),
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    };
    let named = processes.get(..NAMED).unwrap_or(processes).join(", ");
    let more = match processes.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("changes of {count} ({named}{more}) are not seen as they happen: {why}")
}

/// Both clocks at one moment. They are read once for many events, and before
/// an event that is newer than the last reading: never for one in the future.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    boot: u64,
    day: Timestamp,
}

impl Clock {
    pub(super) fn now() -> Self {
        Self { boot: now_ns(), day: Timestamp::now() }
    }

    /// The time of day of a moment in nanoseconds since boot.
    pub(super) fn time(&mut self, at: u64) -> Timestamp {
        if at > self.boot {
            *self = Self::now();
        }
        let ago = Duration::from_nanos(self.boot.saturating_sub(at));
        self.day.checked_sub(ago).unwrap_or(self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::EventProcess;

    /// Make sure that a thousand processes with one reason are one sentence, which
    /// counts those that it does not name.
    #[test]
    fn one_sentence_for_a_reason() {
        let event = |pid, why: &str| Event {
            process: Some(EventProcess { pid, comm: "go".to_owned(), ..EventProcess::default() }),
            why: Some(why.to_owned()),
            ..Event::default()
        };
        let mut events: Vec<Event> = (1..=1000).map(|pid| event(pid, "no symbols")).collect();
        events.push(event(2000, "a lease"));
        events.push(Event { why: Some("process 9 cannot be read".to_owned()), ..Event::default() });
        let found = not_seen(&events);
        assert_eq!((found.len(), found[2].as_str()), (3, "process 9 cannot be read"));
        assert!(found[0].starts_with("changes of 1000 processes (1 go, 2 go,"), "{}", found[0]);
        assert!(found[0].ends_with("8 go and 992 more) are not seen as they happen: no symbols"));
        assert_eq!(found[1], "changes of 1 process (2000 go) are not seen as they happen: a lease");
    }
}

#[cfg(test)]
mod clock_tests {
    use super::*;

    /// Make sure that the distance of two events is that of their times, and
    /// that nothing is said to happen in the future.
    #[test]
    fn distances() {
        let mut clock = Clock::now();
        let at = clock.boot;
        let (early, late) = (clock.time(at - 2_500), clock.time(at));
        assert_eq!(late.duration_since(early).as_nanos(), 2_500);
        assert!(clock.time(u64::MAX) <= Timestamp::now());
        assert!(clock.boot >= at);
    }
}
