//! What processes do with their GPUs: a line for each process and GPU, the busiest
//! first, with the streams under it with -v.

pub(super) mod amounts;
mod interception;
mod notes;
mod totals;

use std::io::{self, Write};

use super::names::counted;
use super::table::{Last, Table, or_dash};
use super::{Style, gpus, names, owner, sanitize};
use crate::model::{GpuEvidence, GpuKey, Owner};
use crate::report::{
    ActiveProcess, Activity, ActivityAnswer, Gpu, GpuUse, QuietHolder, Rates, StreamUse, Work,
};
use amounts::{byte_rate, bytes, count, idle};

use amounts::gpu;

pub use notes::Told;
pub use totals::write as write_totals;

/// Characters of a command name, and of an owner's.
const COMMAND: usize = 15;
const OWNER: usize = 20;
/// Rows before the rest is counted.
const SHOWN: usize = 40;

/// Prints the activity of an answer as `gpumap activity` shows it.
pub fn write(out: &mut dyn Write, style: Style, answer: &ActivityAnswer) -> io::Result<()> {
    write_next(out, style, answer, &mut Told::default())
}

/// The same of an interval after others, of which `told` knows what was said.
pub fn write_next(
    out: &mut dyn Write,
    style: Style,
    answer: &ActivityAnswer,
    told: &mut Told,
) -> io::Result<()> {
    let Some(activity) = answer.activity.as_deref() else {
        return writeln!(out, "Nobody counts calls here.");
    };
    let gpus = answer.gpus.as_slice();
    let processes: Vec<&ActiveProcess> = activity.processes.iter().collect();
    writeln!(out, "{}", heading(activity))?;
    table(out, style, activity, &processes, &|_| true, gpus)?;
    notes::of_processes(out, style, &processes, gpus, told)?;
    notes::of_counting(out, style, activity, told)
}

/// The part of `job` and `pid` about some of the processes, if somebody counts
/// their calls.
pub(super) fn section(
    out: &mut dyn Write,
    style: Style,
    activity: &Activity,
    is_its: impl Fn(&ActiveProcess) -> bool,
    gpus: &[Gpu],
) -> io::Result<()> {
    let processes: Vec<&ActiveProcess> =
        activity.processes.iter().filter(|process| is_its(process)).collect();
    let told = &mut Told::default();
    if processes.is_empty() {
        writeln!(out, "\nActivity: {}", none(activity))?;
        return notes::of_counting(out, style, activity, told);
    }
    writeln!(out, "\nActivity since {}", sanitize::text(activity.since.as_str()))?;
    table(out, style, activity, &processes, &|_| false, gpus)?;
    notes::of_processes(out, style, &processes, gpus, told)?;
    notes::of_counting(out, style, activity, told)
}

/// Since when there was no call: a library that was found later is counted since then.
fn none(activity: &Activity) -> String {
    let since = sanitize::text(activity.since.as_str());
    match activity.libraries.iter().map(|library| &library.since).max() {
        None => format!("no call; no driver's library was found since {since}"),
        Some(latest) if *latest > activity.since => {
            format!(
                "no call since {}; not all libraries were counted before that",
                sanitize::text(latest.as_str())
            )
        }
        Some(_) => format!("no call since {since}"),
    }
}

/// `12:00:02Z  2.0 s: 3 processes on 2 GPUs, 100.4k launches/s, 1.2 GiB/s copied`
fn heading(activity: &Activity) -> String {
    let mut gpus: Vec<&GpuKey> = activity
        .processes
        .iter()
        .flat_map(|process| &process.gpus)
        .filter_map(|one| one.gpu.as_ref())
        .collect();
    gpus.sort();
    gpus.dedup();
    let who = format!("{} on {}", counted(activity.processes.len(), "process"), counted(gpus.len(), "GPU"));
    let clock = activity.at.clock();
    let clock = sanitize::text(&clock);
    match (&activity.per_second, activity.interval_seconds) {
        (Some(rates), Some(seconds)) => format!(
            "{clock}  {seconds:.1} s: {who}, {} launches/s, {} copied per second",
            count(rates.launches + rates.graph_launches),
            byte_rate(rates.copied_bytes)
        ),
        _ => format!("{clock}  since {}: {who}", sanitize::text(activity.since.as_str())),
    }
}

fn table(
    out: &mut dyn Write,
    style: Style,
    activity: &Activity,
    processes: &[&ActiveProcess],
    is_asked: &dyn Fn(&QuietHolder) -> bool,
    gpus: &[Gpu],
) -> io::Result<()> {
    let uses: Vec<(&ActiveProcess, &GpuUse)> =
        processes.iter().flat_map(|it| it.gpus.iter().map(move |one| (*it, one))).collect();
    let uses: Vec<_> =
        uses.into_iter().filter(|(process, one)| style.all || !is_past(process, one)).collect();
    let quiet: Vec<&QuietHolder> = activity.quiet.iter().filter(|one| is_asked(one)).collect();
    if uses.is_empty() && quiet.is_empty() {
        return Ok(());
    }
    let mut rows: Vec<Line<'_>> = Vec::new();
    for (process, one) in uses.iter().take(if style.all { usize::MAX } else { SHOWN }) {
        rows.push(Line::Use(process, one));
        rows.extend(one.streams.iter().flatten().map(Line::Stream));
    }
    let left = if style.all { usize::MAX } else { SHOWN.saturating_sub(uses.len()) };
    rows.extend(quiet.iter().take(left).map(|one| Line::Quiet(one)));
    let uses = uses.len() + quiet.len();
    lines(activity, &rows, gpus).write(out, style, Last::Runs)?;
    match uses.saturating_sub(SHOWN) {
        0 => Ok(()),
        _ if style.all => Ok(()),
        more => writeln!(out, "  … and {more} more (-v lists all)"),
    }
}

/// Whether a row is about calls of before the process's devices were known, and nothing came
/// to it since.
fn is_past(process: &ActiveProcess, one: &GpuUse) -> bool {
    let is_quiet = one.interval.is_some_and(|work| work == Work::default());
    let is_known = |other: &GpuUse| other.gpu.is_some();
    one.gpu.is_none() && one.memory.now_bytes == 0 && is_quiet && process.gpus.iter().any(is_known)
}

/// A line of the table: a process on a GPU, below it one of its streams, or a process that
/// holds GPUs and made no call.
enum Line<'a> {
    Use(&'a ActiveProcess, &'a GpuUse),
    Stream(&'a StreamUse),
    Quiet(&'a QuietHolder),
}

/// What a quiet process allocated before is not known.
fn lines<'a>(activity: &Activity, lines: &'a [Line<'a>], gpus: &[Gpu]) -> Table<'a, Line<'a>> {
    let [launches, copied] = match activity.interval_seconds {
        Some(_) => ["LAUNCHES/S", "COPIED/S"],
        None => ["LAUNCHES", "COPIED"],
    };
    let none = if activity.interval_seconds.is_some() { "0 %" } else { "-" };
    let least = |one: &QuietHolder, text: &str| if one.partial { "?" } else { text }.to_owned();
    let by = |by: GpuEvidence| if by == GpuEvidence::Unknown { "-".to_owned() } else { by.to_string() };
    Table::of(lines)
        .number("PID", |line| match line {
            Line::Use(process, _) => {
                format!("{}{}", process.pid, if process.ended_at.is_some() { "†" } else { "" })
            }
            Line::Stream(_) => String::new(),
            Line::Quiet(one) => one.pid.to_string(),
        })
        .text("COMMAND", |line| match line {
            Line::Use(it, _) => sanitize::short_with_hex(&it.comm, it.comm_hex.as_deref(), COMMAND),
            Line::Stream(_) => String::new(),
            Line::Quiet(one) => sanitize::short(&one.comm, COMMAND, "…"),
        })
        .text("OWNER", |line| match line {
            Line::Use(process, _) => owned(process.owner.as_ref()),
            Line::Stream(stream) => format!("  {}", stream_name(stream)),
            Line::Quiet(one) => owned(one.owner.as_ref()),
        })
        .text("GPU", |line| match line {
            Line::Use(_, one) => gpu(one, gpus),
            Line::Stream(_) => String::new(),
            Line::Quiet(one) => names::set(gpus::key_names(&one.gpus, &[], gpus)),
        })
        .text("BY", |line| match line {
            Line::Use(_, one) => by(one.by),
            Line::Stream(_) => String::new(),
            Line::Quiet(_) => GpuEvidence::Held.to_string(),
        })
        .number(launches, |line| match line {
            Line::Use(it, one) => {
                amounts::number(it, amounts::LAUNCHES, launched(&one.counts, one.per_second.as_ref()))
            }
            Line::Stream(one) => launched(&one.counts, one.per_second.as_ref()),
            Line::Quiet(one) => least(one, "0"),
        })
        .number(copied, |line| match line {
            Line::Use(it, one) => {
                amounts::number(it, amounts::COPIED, copied_by(&one.counts, one.per_second.as_ref()))
            }
            Line::Stream(one) => copied_by(&one.counts, one.per_second.as_ref()),
            Line::Quiet(one) => least(one, "-"),
        })
        .number("MEMORY", |line| match line {
            Line::Use(it, one) => {
                let memory = one.memory.now_bytes.saturating_add(one.memory.physical_bytes);
                amounts::number(it, amounts::MEMORY, bytes(memory))
            }
            Line::Stream(_) => String::new(),
            Line::Quiet(_) => "?".to_owned(),
        })
        .number("WAITS", |line| match line {
            Line::Use(it, one) => {
                amounts::number(it, amounts::WAITS, waits(&one.counts, one.per_second.as_ref()))
            }
            Line::Stream(one) => waits(&one.counts, one.per_second.as_ref()),
            Line::Quiet(one) => least(one, none),
        })
        .number("ERRORS", |line| match line {
            Line::Use(it, one) => {
                let failed = one.counts.failed_calls.saturating_add(one.counts.failed_allocations);
                amounts::number(it, amounts::ERRORS, failed.to_string())
            }
            Line::Stream(one) => one.counts.failed_calls.to_string(),
            Line::Quiet(one) => least(one, "0"),
        })
        .number("IDLE", |line| match line {
            Line::Use(process, one) => idle_of(process, one),
            Line::Stream(one) => or_dash(one.idle_seconds.map(idle)),
            Line::Quiet(one) => {
                let since = activity.at.since(&one.since).map(|idle| idle.as_secs_f64());
                least(one, &idle_since(since))
            }
        })
}

fn owned(owner: Option<&Owner>) -> String {
    or_dash(owner.map(|owner| sanitize::short(&owner::full(owner), OWNER, "…")))
}

/// `>5m`: it made no call for so long at least.
fn idle_since(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "?".to_owned(), |seconds| format!(">{}", idle(seconds).replace("now", "0s")))
}

/// How long ago the last call was, or how long the process waits in one: `waits 3h`.
fn idle_of(process: &ActiveProcess, one: &GpuUse) -> String {
    let is_known = !amounts::is_concerned(process, amounts::WAITS);
    let since = one.idle_seconds.filter(|_| is_known);
    let text = amounts::idle_or_waiting(one.waiting_seconds, since);
    text.unwrap_or_else(|| if is_known { "-" } else { "?" }.to_owned())
}

fn stream_name(stream: &StreamUse) -> String {
    match stream.stream.as_str() {
        "0x0" => "default stream".to_owned(),
        "0x2" => "threads' default".to_owned(),
        "0x3" => "other streams".to_owned(),
        handle => sanitize::short(handle, 18, "…"),
    }
}

/// Launches, per second where that is known.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
fn launched(counts: &Work, rates: Option<&Rates>) -> String {
    match rates {
        Some(rates) => count(rates.launches + rates.graph_launches),
        None => count(counts.launches.saturating_add(counts.graph_launches) as f64),
    }
}

/// Copied bytes, per second where that is known.
fn copied_by(counts: &Work, rates: Option<&Rates>) -> String {
    rates.map_or_else(|| bytes(counts.copied_bytes()), |rates| byte_rate(rates.copied_bytes))
}

/// The share of time that threads waited, or how long they did.
fn waits(counts: &Work, rates: Option<&Rates>) -> String {
    match rates {
        Some(rates) => format!("{:.0} %", (rates.wait_seconds + rates.copy_wait_seconds) * 100.0),
        None => match counts.wait_seconds + counts.copy_wait_seconds {
            waited if waited <= 0.0 => "-".to_owned(),
            waited => amounts::duration(waited),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{CountedLibrary, GpuUse};

    /// Make sure that "no call since" names a moment since which calls are counted.
    #[test]
    fn since_when_there_was_no_call() {
        let library = |since: &str| CountedLibrary { since: since.into(), ..CountedLibrary::default() };
        let of = |libraries| {
            none(&Activity { since: "2026-11-25T10:43:10.944Z".into(), libraries, ..Activity::default() })
        };
        assert_eq!(of(vec![library("2026-11-25T10:43:10.944Z")]), "no call since 2026-11-25T10:43:10.944Z");
        assert_eq!(
            of(vec![library("2026-11-25T10:43:10.944Z"), library("2026-11-25T10:43:12.140Z")]),
            "no call since 2026-11-25T10:43:12.140Z; not all libraries were counted before that"
        );
        assert!(of(Vec::new()).contains("no driver's library was found"));
    }

    /// Make sure that a process which holds a GPU and made no call has a row, without a 0 where
    /// its calls may have found no room.
    #[test]
    fn without_a_call() {
        let activity = Activity { at: "2026-11-25T10:05:00Z".into(), ..Activity::default() };
        let one = QuietHolder { pid: 7, since: "2026-11-25T10:00:00Z".into(), ..QuietHolder::default() };
        let amounts = |one: &QuietHolder| lines(&activity, &[Line::Quiet(one)], &[]).row(0).split_off(5);
        assert_eq!(amounts(&one), ["0", "-", "?", "-", "0", ">5m"]);
        assert_eq!(amounts(&QuietHolder { partial: true, ..one }), ["?"; 6]);
    }

    /// Make sure that a row of calls of before the device was known goes once nothing comes
    /// to it any more, and that one with memory stays.
    #[test]
    fn rows_of_the_past() {
        let work = |launches| Work { launches, ..Work::default() };
        let unknown = |recent| GpuUse { counts: work(7), interval: Some(work(recent)), ..GpuUse::default() };
        let known = GpuUse { gpu: Some("GPU-1".into()), ..GpuUse::default() };
        let process = ActiveProcess { gpus: vec![known, unknown(0)], ..ActiveProcess::default() };
        assert!(is_past(&process, &unknown(0)) && !is_past(&process, &unknown(1)));
        let alone = ActiveProcess { gpus: vec![unknown(0)], ..ActiveProcess::default() };
        assert!(!is_past(&alone, &unknown(0)));
    }
}
