//! Facts: what the source of process events reports. The tracker turns them into events.

use crate::model::EventCause;
use crate::observation::{Environment, Text};
use crate::probing::driver::Driver;

/// A process at the moment of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventSubject {
    /// Pid.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start_time: u64,
    /// Effective uid.
    pub uid: u32,
    /// The user who answers for it, as the kernel side tells: its real uid, or
    /// in a user namespace who made that. `None` where it was read from `/proc`.
    pub account: Option<u32>,
    /// Command name.
    pub comm: Text,
    /// Id of its cgroup.
    pub cgroup: u64,
}

/// Bytes that are kept of a value: what the kernel side keeps.
pub(super) const LIMIT: usize = 4096;

/// A variable after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewValue {
    /// It is gone.
    Unset,
    /// It has this value.
    Value {
        /// At most 4 KiB of it.
        bytes: Vec<u8>,
        /// Whether there is more.
        cut: bool,
    },
    /// It has a value that could not be read.
    Unread,
}

/// One fact. Times are nanoseconds since boot (`CLOCK_BOOTTIME`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the same fields in every variant: when, and who")]
pub enum Fact {
    /// A variable was changed. With `keep` only if it was not set before:
    /// setenv(3) without overwriting.
    Set { at: u64, subject: EventSubject, how: EventCause, name: &'static str, value: NewValue, keep: bool },
    /// A variable was changed whose name could not be read without waiting for
    /// the process's memory.
    Unnamed { at: u64, subject: EventSubject, how: EventCause },
    /// All variables were removed.
    Cleared { at: u64, subject: EventSubject },
    /// It executed a program, whose environment ends at an address with this
    /// low half. The environment that it was given, if all of it could be reported:
    /// without what says which job it belongs to.
    Exec { at: u64, subject: EventSubject, env_end: u32, environment: Option<Environment> },
    /// It was forked from the process `parent` that started at this clock tick,
    /// whose environment it has.
    Fork { at: u64, subject: EventSubject, parent: u32, parent_start: u64 },
    /// It is in the cgroup that `subject` names now, all of it or one thread, and
    /// was in the one with the id `from`, if that is known. `born`: it is new and
    /// its parent is in that one.
    Moved { at: u64, subject: EventSubject, from: Option<u64>, thread: Option<u32>, born: bool },
    /// It ended.
    Exit { at: u64, subject: EventSubject },
    /// It initialised a driver's library; 0 is success.
    Driver { at: u64, subject: EventSubject, driver: Driver, result: i32 },
    /// Its changes cannot be seen as they happen.
    Uncovered { pid: u32, why: String },
    /// A user executes programs faster than they can be looked at: libraries that
    /// nobody else uses may not be watched.
    Overlooked { account: Option<u32> },
    /// How many events were lost cannot be asked.
    Uncounted { why: String },
    /// So many events were lost, before or among those that come now: of each
    /// account; `None`: of users who are not counted by themselves.
    Lost(Vec<(Option<u32>, u64)>),
    /// Events of an account were lost here, no later than `at`: what is known of
    /// its processes may be behind. `None`: of any account.
    Gap { at: u64, account: Option<u32> },
}

impl Fact {
    /// The process that it is about; `None` for one that is not an event of a
    /// process.
    pub fn subject(&self) -> Option<&EventSubject> {
        match self {
            Self::Set { subject, .. }
            | Self::Unnamed { subject, .. }
            | Self::Cleared { subject, .. }
            | Self::Exec { subject, .. }
            | Self::Fork { subject, .. }
            | Self::Moved { subject, .. }
            | Self::Exit { subject, .. }
            | Self::Driver { subject, .. } => Some(subject),
            Self::Uncovered { .. }
            | Self::Overlooked { .. }
            | Self::Uncounted { .. }
            | Self::Lost(_)
            | Self::Gap { .. } => None,
        }
    }

    /// When it was, in nanoseconds since boot; `None` for one that is not an
    /// event of a process.
    pub fn at(&self) -> Option<u64> {
        match self {
            Self::Set { at, .. }
            | Self::Unnamed { at, .. }
            | Self::Cleared { at, .. }
            | Self::Exec { at, .. }
            | Self::Fork { at, .. }
            | Self::Moved { at, .. }
            | Self::Exit { at, .. }
            | Self::Driver { at, .. } => Some(*at),
            Self::Uncovered { .. }
            | Self::Overlooked { .. }
            | Self::Uncounted { .. }
            | Self::Lost(_)
            | Self::Gap { .. } => None,
        }
    }
}
