//! User, state and age of a process: the columns `USER`, `S` and `AGE`.

use std::io::{self, Write};

use super::sanitize;
use crate::model::ProcessState;
use crate::report::Process;

/// Characters of a user's name in a table.
const NAME: usize = 12;
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

/// Which of the columns something is known for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    state: bool,
    age: bool,
}

impl Columns {
    /// The columns that these processes need.
    pub(super) fn of<'a>(processes: impl Iterator<Item = &'a Process> + Clone) -> Self {
        Self {
            state: processes.clone().any(|process| process.state.is_some()),
            age: processes.clone().any(|process| process.age_seconds.is_some()),
        }
    }

    /// Their headers.
    pub(super) fn header(self) -> impl Iterator<Item = &'static str> {
        let known = [(true, "USER"), (self.state, "S"), (self.age, "AGE")];
        known.into_iter().filter(|(is_known, _)| *is_known).map(|(_, name)| name)
    }

    /// Their cells for one process.
    pub(super) fn cells(self, process: &Process) -> impl Iterator<Item = String> {
        let state = self.state.then(|| process.state.as_ref().map_or('?', ProcessState::letter).to_string());
        let age = self.age.then(|| process.age_seconds.map_or_else(|| "?".to_owned(), age));
        std::iter::once(user(process, NAME)).chain(state).chain(age)
    }
}

/// The name of a process's user, else the uid.
pub(super) fn user(process: &Process, max: usize) -> String {
    match &process.user {
        Some(name) => named(&sanitize::short_with_hex(name, process.user_hex.as_deref(), max)),
        None => process.uid.to_string(),
    }
}

/// A name; one that could be taken for a uid, or for two words, is quoted.
pub(super) fn named(name: &str) -> String {
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    if is_number || name.contains([' ', '"']) { format!("\"{name}\"") } else { name.to_owned() }
}

/// Seconds in the largest unit of which there is a whole one: `45s`, `12m`,
/// `3h`, `5d`, `2y`, at most `999y`.
pub(super) fn age(seconds: u64) -> String {
    let units = [(YEAR, 'y'), (DAY, 'd'), (HOUR, 'h'), (MINUTE, 'm')];
    match units.into_iter().find(|(size, _)| seconds >= *size) {
        Some((size, unit)) => format!("{}{unit}", (seconds / size).min(999)),
        None => format!("{seconds}s"),
    }
}

/// A state in words.
pub(super) fn meaning(state: &ProcessState) -> &'static str {
    match state {
        ProcessState::Running => "running, or ready to run",
        ProcessState::Sleeping => "sleeping",
        ProcessState::Uninterruptible => "waits inside the kernel; it cannot be killed until that ends",
        ProcessState::Stopped => "stopped by a signal",
        ProcessState::Traced => "held by a debugger",
        ProcessState::Zombie => "a zombie: it has ended, and its parent has not fetched its exit status",
        ProcessState::MainThreadEnded => "its main thread has ended, other threads go on",
        ProcessState::Dead => "is being removed",
        ProcessState::Idle => "an idle kernel thread",
        ProcessState::Other(_) => "unknown",
    }
}

/// Explains the letters that are neither running nor sleeping, each once.
pub(super) fn legend<'a>(
    out: &mut dyn Write,
    processes: impl Iterator<Item = &'a Process>,
) -> io::Result<()> {
    let mut states: Vec<&ProcessState> = processes.filter_map(|process| process.state.as_ref()).collect();
    states.retain(|state| !state.is_usual() && !matches!(state, ProcessState::Other(_)));
    states.sort_unstable();
    states.dedup();
    let mut states = states.iter();
    states.try_for_each(|state| writeln!(out, "  {} {}", state.letter(), meaning(state)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that an age is never rounded up, and always short.
    #[test]
    fn ages() {
        let of = |seconds, text: &str| assert_eq!(age(seconds), text);
        of(0, "0s");
        of(59, "59s");
        of(60, "1m");
        of(3 * HOUR + 3599, "3h");
        of(DAY - 1, "23h");
        of(DAY, "1d");
        of(YEAR - 1, "364d");
        of(u64::MAX, "999y");
    }

    /// Make sure that no name can be taken for a number, for two cells or for a
    /// control sequence.
    #[test]
    fn names() {
        let process = |user: &str| Process { uid: 7, user: Some(user.to_owned()), ..Process::default() };
        assert_eq!(user(&Process { uid: 7, ..Process::default() }, 12), "7");
        assert_eq!(user(&process("alice"), 12), "alice");
        assert_eq!(user(&process("0"), 12), "\"0\"");
        assert_eq!(user(&process("a b"), 12), "\"a b\"");
        assert_eq!(user(&process("\x1b[2J"), 12), "\\x1b[2J");
        assert_eq!(user(&process("a.very.long.name@example.org"), 12), "a.very.long…");
    }
}
