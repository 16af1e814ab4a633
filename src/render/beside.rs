//! What stands beside the cells of an owner's row: users, what it does with its GPUs, its
//! limits and its processes. The table of `top --once`, the screen of `top` and the page
//! choose among the same columns.

use std::collections::BTreeSet;

use super::activity::amounts;
use super::{process, sanitize};
use crate::model::InForce;
use crate::observation::UnseenProcesses;
use crate::report::{MatrixActivity, MatrixLimit, MatrixRow, OwnerSets};

/// Characters of a user's name.
const USER: usize = 12;

/// The facts of a row that these columns are made of.
pub(super) struct Facts<'a> {
    users: &'a [String],
    activity: Option<&'a MatrixActivity>,
    limits: &'a [MatrixLimit],
    processes: usize,
    unseen: Option<&'a UnseenProcesses>,
}

impl<'a> Facts<'a> {
    /// Those of a row of the matrix.
    pub(super) fn of(row: &'a MatrixRow) -> Self {
        Self {
            users: &row.users,
            activity: row.activity.as_ref(),
            limits: &row.limits,
            processes: row.processes,
            unseen: row.unseen.as_ref(),
        }
    }

    /// Those of an owner on the page, which has no limits.
    pub(super) fn of_owner(sets: &'a OwnerSets, activity: Option<&'a MatrixActivity>) -> Self {
        let OwnerSets { users, processes, unseen, .. } = sets;
        Self { users, activity, limits: &[], processes: *processes, unseen: unseen.as_ref() }
    }
}

/// A column beside the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// Users.
    User,
    /// Launches since the beginning.
    Launches,
    /// Launches in a second.
    LaunchRate,
    /// Bytes copied since the beginning.
    Copied,
    /// Bytes copied in a second.
    CopyRate,
    /// Memory.
    Memory,
    /// Limits of libvgpu.so and SoftMig.
    Limits,
    /// Time since the last call.
    Idle,
    /// Processes.
    Processes,
}

impl Beside {
    /// Its title in a table and on the screen.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::User => "USER",
            Self::Launches => "LAUNCHES",
            Self::LaunchRate => "LAUNCH/S",
            Self::Copied => "COPIED",
            Self::CopyRate => "COPY/S",
            Self::Memory => "MEMORY",
            Self::Limits => "LIMITS",
            Self::Idle => "IDLE",
            Self::Processes => "PROCS",
        }
    }

    /// Its title on the page, in words.
    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Launches => "Launches",
            Self::LaunchRate => "Launches/s",
            Self::Copied => "Copied",
            Self::CopyRate => "Copied/s",
            Self::Memory => "GPU memory",
            Self::Limits => "Limits",
            Self::Idle => "Idle",
            Self::Processes => "Processes",
        }
    }

    /// Its width on the screen, with the space before it.
    pub(super) fn width(self) -> u16 {
        match self {
            Self::User => 10,
            Self::Launches | Self::LaunchRate | Self::Copied | Self::CopyRate | Self::Memory => 9,
            Self::Limits => 15,
            Self::Idle => 5,
            Self::Processes => 6,
        }
    }

    /// Whether it is a number, and stands at the right end.
    pub(super) fn is_number(self) -> bool {
        !matches!(self, Self::User | Self::Limits)
    }

    /// Whether it says something of one of these rows. Users and processes are always there.
    pub(super) fn is_known<'a>(self, mut rows: impl Iterator<Item = &'a MatrixRow>) -> bool {
        match self {
            Self::User | Self::Processes => true,
            Self::Limits => rows.any(|row| !row.limits.is_empty()),
            _ => rows.any(|row| row.activity.is_some()),
        }
    }

    /// What it says.
    #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
    pub(super) fn text(self, row: &Facts<'_>) -> String {
        let of = |text: fn(&MatrixActivity) -> Option<String>| {
            let marked = |one: &MatrixActivity| Some(amounts::marked(one.partial, text(one)?));
            row.activity.and_then(marked).unwrap_or_else(|| "-".to_owned())
        };
        match self {
            Self::User => users(row.users),
            Self::Launches => of(|one| Some(amounts::count(one.launches as f64))),
            Self::LaunchRate => of(|one| one.launches_per_second.map(amounts::count)),
            Self::Copied => of(|one| Some(amounts::bytes(one.copied_bytes))),
            Self::CopyRate => of(|one| one.copied_bytes_per_second.map(amounts::byte_rate)),
            Self::Memory => of(|one| Some(amounts::bytes(one.memory_bytes))),
            Self::Limits => limits(row.limits),
            Self::Idle => row.activity.map_or_else(|| "-".to_owned(), idle),
            Self::Processes => process::count(row.processes, row.unseen),
        }
    }
}

/// How long ago the last call was, or how long the longest one lasts.
fn idle(activity: &MatrixActivity) -> String {
    let none = if activity.partial { "?" } else { "-" };
    let text = amounts::idle_or_waiting(activity.waiting_seconds, activity.idle_seconds);
    text.unwrap_or_else(|| none.to_owned())
}

/// `10 GiB 30 %`, each once; `10 GiB!` does not hold, of `10 GiB?` that is not known.
pub(super) fn limits(limits: &[MatrixLimit]) -> String {
    let mark = |in_force| match in_force {
        InForce::Yes => "",
        InForce::No | InForce::Partly => "!",
        InForce::Unknown => "?",
    };
    let one = |limit: &MatrixLimit| {
        let memory = limit.memory_bytes.map(|bytes| amounts::bytes(bytes) + mark(limit.memory_in_force));
        let sm = limit.sm_percent.map(|percent| format!("{percent} %{}", mark(limit.sm_in_force)));
        memory.into_iter().chain(sm).collect::<Vec<_>>().join(" ")
    };
    let texts: BTreeSet<String> = limits.iter().map(one).collect();
    if texts.is_empty() { "-".to_owned() } else { Vec::from_iter(texts).join(", ") }
}

/// `alice`, `alice +2`.
fn users(users: &[String]) -> String {
    let Some(first) = users.first() else { return "-".to_owned() };
    let first = sanitize::short(first, USER, "…");
    if users.len() > 1 { format!("{first} +{}", users.len() - 1) } else { first }
}
