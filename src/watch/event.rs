//! Makes events. Every event begins here, and whoever saw what happened fills in
//! the rest.

use super::EventSubject;
use crate::model::{EventKind, Owner};
use crate::observation::Text;
use crate::report::{Event, EventProcess, LostBy, SCHEMA};

impl Event {
    /// An event that happens now.
    pub fn now(kind: EventKind) -> Self {
        Self::at(kind, jiff::Timestamp::now().to_string())
    }

    /// An event of a moment in RFC 3339.
    pub fn at(kind: EventKind, at: String) -> Self {
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
