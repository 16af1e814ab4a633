//! Processes: what each asks for, which GPUs result, what it holds; and the columns `USER`,
//! `S` and `AGE`.

use std::io;
use std::io::Write;

use super::table::{Last, Table, or_dash};
use super::{Style, gpus, names, sanitize, wrap};
use crate::model::{GpuKey, ProcessState, ValueState};
use crate::observation::UnseenProcesses;
use crate::report::{Asked, Claim, Cut, Gpu, Process, Visible};

/// Processes listed before the table says how many more there are.
const SHOWN: usize = 10;
/// Characters of a command name and of a variable's value in a table.
const COMMAND: usize = 16;
const VALUE: usize = 20;

/// The part of its job that a process is in.
pub(super) type PlaceInJob<'a> = &'a dyn Fn(&Process) -> String;

/// Prints the heading and the table; with `place`, a column for it.
pub(super) fn write(
    out: &mut dyn Write,
    style: Style,
    processes: &[&Process],
    unseen: Option<&UnseenProcesses>,
    gpus: &[Gpu],
    place: Option<PlaceInJob<'_>>,
) -> io::Result<()> {
    let seen = match (processes.len(), unseen) {
        (0, None) => "none".to_owned(),
        (0, Some(_)) => "none that can be seen".to_owned(),
        (count, _) => count.to_string(),
    };
    writeln!(out, "\nProcesses: {seen}")?;
    if let Some(unseen) = unseen {
        writeln!(out, "  {} cannot be seen: {}", unseen.counted(), sanitize::text(&unseen.why))?;
    }
    if processes.is_empty() {
        return Ok(());
    }
    let is_known = processes.iter().any(|process| is_known(process));
    let mut sorted = processes.to_vec();
    let has_nothing = |process: &Process| process.kernel_thread || process.has_ended();
    sorted.sort_by_key(|process| (process.held.as_ref().is_none_or(Vec::is_empty), has_nothing(process)));
    sorted.truncate(if style.all { usize::MAX } else { SHOWN });
    table(&sorted, |process| process)
        .text("WHERE", |process| or_dash(place.map(|place| place(process))))
        .only_if(place.is_some())
        .text("ASKS FOR", |process| details(process, gpus).asks)
        .only_if(is_known)
        .text("GPUS", |process| details(process, gpus).gpus)
        .only_if(is_known)
        .text("HOLDS", |process| held(process, gpus))
        .only_if(is_known)
        .write(out, style, Last::Wraps)?;
    if let Some(more) = processes.len().checked_sub(sorted.len()).filter(|more| *more > 0) {
        writeln!(out, "  … and {more} more (-v lists all)")?;
    }
    notes(out, style, &sorted)
}

/// A number of processes, with `?` for those that cannot be seen: `3`, `?`, `3 + ?`.
pub(super) fn count(seen: usize, unseen: Option<&UnseenProcesses>) -> String {
    match (seen, unseen) {
        (0, Some(_)) => "?".to_owned(),
        (seen, Some(_)) => format!("{seen} + ?"),
        (seen, None) => seen.to_string(),
    }
}

/// Whether anybody looked into a process.
fn is_known(process: &Process) -> bool {
    process.visible.is_some() || process.held.is_some() || process.held_unknown.is_some()
}

/// The command name; that of a kernel thread says so, which no process can
/// forge: its name has 15 bytes at most.
pub(super) fn command(process: &Process) -> String {
    let name = sanitize::short_with_hex(&process.comm, process.comm_hex.as_deref(), COMMAND);
    if process.kernel_thread { name + " (kernel thread)" } else { name }
}

/// What a process asks with, and which GPUs result.
pub(super) struct Details {
    /// The value it asks with.
    pub(super) asks: String,
    /// The GPUs that result.
    pub(super) gpus: String,
}

/// What it asks with and which GPUs result; dashes where it can ask for none.
pub(super) fn details(process: &Process, gpus: &[Gpu]) -> Details {
    let visible = process.visible.as_ref();
    if process.kernel_thread || process.has_ended() {
        return Details { asks: "-".to_owned(), gpus: "-".to_owned() };
    }
    let asks = visible.map(asks).unwrap_or_default();
    Details { asks, gpus: visible.map(|visible| result(now(visible), gpus)).unwrap_or_default() }
}

/// The value it asks with: at exec, and after an arrow the new one.
fn asks(visible: &Visible) -> String {
    let (at_exec, live) = (value(&visible.at_exec, VALUE), value(&visible.live, VALUE));
    let watched = visible.last_set.as_ref().map(|asked| value(asked, VALUE));
    let first = match (is_unknown(&visible.at_exec), is_unknown(&visible.live)) {
        (false, true) => format!("{at_exec} (now ?)"),
        (true, false) => format!("{live} (at exec ?)"),
        _ if visible.changed == Some(true) => format!("{at_exec} → {live}"),
        _ => at_exec,
    };
    watched.map_or(first.clone(), |watched| format!("{first} → {watched}"))
}

/// The newest that is known.
pub(super) fn now(visible: &Visible) -> &Asked {
    match &visible.last_set {
        Some(asked) => asked,
        None if is_unknown(&visible.live) => &visible.at_exec,
        None => &visible.live,
    }
}

fn is_unknown(asked: &Asked) -> bool {
    asked.state == ValueState::Unknown
}

/// `unset`, `empty`, `?`, or the value; a value that could be taken for one of
/// those, or for two, is quoted.
pub(super) fn value(asked: &Asked, max: usize) -> String {
    let text = match (asked.state, &asked.raw) {
        (ValueState::Value, Some(raw)) => sanitize::short_with_hex(raw, asked.raw_hex.as_deref(), max),
        (ValueState::Value, None) | (ValueState::Unknown, _) => return "?".to_owned(),
        (word, _) => return sanitize::short(word.into(), max, "…"),
    };
    quoted(text)
}

/// A user's text between gpumap's own words.
pub(super) fn quoted(text: String) -> String {
    let states = [ValueState::Unset, ValueState::Empty];
    let is_state = states.into_iter().any(|state| text == <&str>::from(state));
    let is_word = is_state || matches!(text.as_str(), "" | "?" | "-");
    if is_word || text.contains([' ', '→', '"']) { format!("\"{text}\"") } else { text }
}

/// The GPUs that result, in the process's order.
pub(super) fn result(asked: &Asked, inventory: &[Gpu]) -> String {
    in_order(asked.gpus.as_deref(), &asked.instances, inventory)
}

/// A list of GPUs and instances, or `?`.
pub(super) fn in_order(keys: Option<&[GpuKey]>, instances: &[GpuKey], inventory: &[Gpu]) -> String {
    let names = keys.map(|keys| names::list(&gpus::key_names(keys, instances, inventory)));
    match names.as_deref() {
        None => "?".to_owned(),
        Some("") => "-".to_owned(),
        Some(names) => names.to_owned(),
    }
}

/// The GPUs and instances it holds.
pub(super) fn held(process: &Process, inventory: &[Gpu]) -> String {
    let Some(held) = &process.held else { return "?".to_owned() };
    let names = gpus::held_names(held, &process.held_instances, &process.held_denied, inventory);
    match (names.as_str(), &process.held_unknown) {
        ("", None) => "-".to_owned(),
        ("", Some(_)) => "?".to_owned(),
        (_, Some(_)) => names + " ?",
        (_, None) => names,
    }
}

/// Where a list ends early and why something is unknown; equal notes share a line.
fn notes(out: &mut dyn Write, style: Style, processes: &[&Process]) -> io::Result<()> {
    let mut notes: Vec<(String, Vec<u32>)> = Vec::new();
    for process in processes {
        for text in notes_of(process) {
            match notes.iter_mut().find(|(known, _)| *known == text) {
                Some((_, pids)) if pids.last() == Some(&process.pid) => {}
                Some((_, pids)) => pids.push(process.pid),
                None => notes.push((text, vec![process.pid])),
            }
        }
    }
    if processes.iter().any(|process| process.visible.as_ref().is_some_and(|it| it.changed == Some(true))) {
        writeln!(out, "  → changed at run time")?;
    }
    legend(out, processes.iter().copied())?;
    gpus::denied_legend(out, processes.iter().any(|process| !process.held_denied.is_empty()))?;
    notes.iter().try_for_each(|(text, pids)| wrap::note_about(out, style, pids, text))
}

/// Where a list ends early and why something of a process is unknown.
pub(super) fn notes_of(process: &Process) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(visible) = process.visible.as_ref().filter(|_| !process.has_ended()) {
        notes.extend(now(visible).cut.as_ref().map(cut));
        let moments = [("at exec", &visible.at_exec), ("now", &visible.live)];
        let told =
            moments.iter().filter(|(_, asked)| is_unknown(asked) || std::ptr::eq(*asked, now(visible)));
        for (name, asked) in told {
            notes.extend(asked.why.as_deref().map(|why| reason(name, asked, why)));
            notes.extend(unread(name, asked));
        }
    }
    notes.extend(process.claim.as_ref().and_then(other_job));
    notes.extend(process.held_unknown.as_deref().map(|text| format!("holds: {}", why(text))));
    notes
}

/// Why something of one moment is unknown, or what else there is to know.
pub(super) fn reason(moment: &str, asked: &Asked, text: &str) -> String {
    let read = if is_unknown(asked) && asked.gpus.is_none() { "could not be read: " } else { "" };
    format!("{moment}: {read}{}", why(text))
}

/// Why a value is not known that makes no difference.
pub(super) fn unread(moment: &str, asked: &Asked) -> Option<String> {
    asked.raw_unknown.as_deref().map(|text| format!("{moment}: the value could not be read: {}", why(text)))
}

/// Another job than its own that a process names.
fn other_job(claim: &Claim) -> Option<String> {
    let text = claim.why.as_deref()?;
    let job = claim.job_id.map(|id| id.to_string()).or_else(|| claim.sluid.clone())?;
    Some(format!("claims job {}: {}", sanitize::short(&job, 20, "…"), why(text)))
}

fn why(text: &str) -> String {
    sanitize::short(text, 300, "…")
}

/// Where and why a list ends: `the list ends at entry 2, "7": no such GPU`.
/// Entries are counted from 0 everywhere, as CUDA counts devices.
pub(super) fn cut(cut: &Cut) -> String {
    let entry = sanitize::short(&cut.entry, VALUE, "…");
    format!("the list ends at entry {}, \"{entry}\": {}", cut.position, why(&cut.why))
}

/// Characters of a user's name in a table.
const NAME: usize = 12;
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

/// A table with the columns that every list of processes begins with; those of the state and
/// the age are left out where nothing is known of any.
pub(super) fn table<R>(rows: &[R], of: impl Fn(&R) -> &Process) -> Table<'_, R> {
    let any = |known: fn(&Process) -> bool| rows.iter().any(|row| known(of(row)));
    let age = |process: &Process| process.age_seconds.map_or_else(|| "?".to_owned(), age);
    let letter = |process: &Process| process.state.as_ref().map_or('?', ProcessState::letter).to_string();
    Table::of(rows)
        .number("PID", |row| of(row).pid.to_string())
        .text("USER", |row| user(of(row), NAME))
        .text("S", |row| letter(of(row)))
        .only_if(any(|process| process.state.is_some()))
        .number("AGE", |row| age(of(row)))
        .only_if(any(|process| process.age_seconds.is_some()))
        .text("COMMAND", |row| command(of(row)))
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
