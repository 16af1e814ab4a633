//! What processes do with their GPUs: a line for each process and GPU, the busiest
//! first, with the streams under it with -v.

pub(super) mod amounts;
mod gpu_of_use;
mod interception;
mod notes;

use std::io::{self, Write};

use super::counted::counted;
use super::table::{self, Last};
use super::{Style, owner, sanitize};
use crate::model::GpuEvidence;
use crate::report::{ActiveProcess, Activity, Gpu, GpuUse, Payload, Rates, StreamUse, Work};
use amounts::{byte_rate, bytes, count, idle};
use gpu_of_use::gpu;

/// Characters of a command name, and of an owner's.
const COMMAND: usize = 15;
const OWNER: usize = 20;
/// Rows before the rest is counted.
const SHOWN: usize = 40;

/// Prints the activity of an answer as `gpumap activity` shows it.
pub fn write(out: &mut dyn Write, style: Style, payload: &Payload) -> io::Result<()> {
    let Some(activity) = payload.activity.as_deref() else {
        return writeln!(out, "Nobody counts calls here.");
    };
    let gpus = payload.gpus.as_deref().unwrap_or_default();
    let processes: Vec<&ActiveProcess> = activity.processes.iter().collect();
    writeln!(out, "{}", heading(activity))?;
    table(out, style, activity, &processes, gpus)?;
    notes::of_processes(out, style, &processes, gpus)?;
    notes::of_counting(out, style, activity)
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
    let since = sanitize::text(&activity.since);
    if processes.is_empty() {
        return writeln!(out, "\nActivity: no call since {since}");
    }
    writeln!(out, "\nActivity since {since}")?;
    table(out, style, activity, &processes, gpus)?;
    notes::of_processes(out, style, &processes, gpus)?;
    notes::of_counting(out, style, activity)
}

/// `12:00:02Z  2.0 s: 3 processes on 2 GPUs, 100.4k launches/s, 1.2 GiB/s copied`
fn heading(activity: &Activity) -> String {
    let time = activity.at.split('T').nth(1).unwrap_or(&activity.at);
    let time = time.split(['.', 'Z']).next().unwrap_or_default();
    let mut gpus: Vec<&String> = activity
        .processes
        .iter()
        .flat_map(|process| &process.gpus)
        .filter_map(|one| one.gpu.as_ref())
        .collect();
    gpus.sort();
    gpus.dedup();
    let who = format!("{} on {}", counted(activity.processes.len(), "process"), counted(gpus.len(), "GPU"));
    let time = format!("{}Z", sanitize::text(time));
    match (&activity.per_second, activity.interval_seconds) {
        (Some(rates), Some(seconds)) => format!(
            "{time}  {seconds:.1} s: {who}, {} launches/s, {} copied per second",
            count(rates.launches + rates.graph_launches),
            byte_rate(rates.copied_bytes)
        ),
        _ => format!("{time}  since {}: {who}", sanitize::text(&activity.since)),
    }
}

/// The columns of amounts, with or without an interval.
const RATES: [&str; 2] = ["LAUNCHES/S", "COPIED/S"];
const COUNTS: [&str; 2] = ["LAUNCHES", "COPIED"];

fn table(
    out: &mut dyn Write,
    style: Style,
    activity: &Activity,
    processes: &[&ActiveProcess],
    gpus: &[Gpu],
) -> io::Result<()> {
    let uses: Vec<(&ActiveProcess, &GpuUse)> =
        processes.iter().flat_map(|it| it.gpus.iter().map(move |one| (*it, one))).collect();
    if uses.is_empty() {
        return Ok(());
    }
    let [launches, copied] = if activity.interval_seconds.is_some() { RATES } else { COUNTS };
    let header =
        ["PID", "COMMAND", "OWNER", "GPU", "BY", launches, copied, "MEMORY", "WAITS", "ERRORS", "IDLE"];
    let right = ["PID", launches, copied, "MEMORY", "WAITS", "ERRORS", "IDLE"];
    let mut rows = Vec::new();
    for (process, one) in uses.iter().take(if style.all { usize::MAX } else { SHOWN }) {
        rows.push(row(process, one, gpus));
        rows.extend(one.streams.iter().flatten().map(stream));
    }
    table::write(out, style, &header, &right, rows, Last::Runs)?;
    match uses.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        _ if style.all => Ok(()),
        more => writeln!(out, "  … and {more} more (-v lists all)"),
    }
}

fn row(process: &ActiveProcess, one: &GpuUse, gpus: &[Gpu]) -> Vec<String> {
    let failed = one.counts.failed_calls.saturating_add(one.counts.failed_allocations);
    let mark = if process.ended_at.is_some() { "†" } else { "" };
    let mut row = vec![
        format!("{}{mark}", process.pid),
        sanitize::short_with_hex(&process.comm, process.comm_hex.as_deref(), COMMAND),
        process
            .owner
            .as_ref()
            .map_or_else(|| "-".to_owned(), |owner| sanitize::short(&owner::full(owner), OWNER, "…")),
        gpu(one, gpus),
        if one.by == GpuEvidence::Unknown { "-".to_owned() } else { one.by.to_string() },
    ];
    row.extend(amounts_of(&one.counts, one.per_second.as_ref()));
    row.extend([
        bytes(one.memory.now_bytes.saturating_add(one.memory.physical_bytes)),
        waits(&one.counts, one.per_second.as_ref()),
        failed.to_string(),
        one.idle_seconds.map_or_else(|| "-".to_owned(), idle),
    ]);
    row
}

/// A stream, in the columns of its process.
fn stream(stream: &StreamUse) -> Vec<String> {
    let name = match stream.stream.as_str() {
        "0x0" => "default stream".to_owned(),
        "0x2" => "threads' default".to_owned(),
        "0x3" => "further streams".to_owned(),
        handle => sanitize::short(handle, 18, "…"),
    };
    let empty = String::new;
    let mut row = vec![empty(), empty(), format!("  {name}"), empty(), empty()];
    row.extend(amounts_of(&stream.counts, stream.per_second.as_ref()));
    row.extend([
        empty(),
        waits(&stream.counts, stream.per_second.as_ref()),
        stream.counts.failed_calls.to_string(),
        stream.idle_seconds.map_or_else(|| "-".to_owned(), idle),
    ]);
    row
}

/// Launches and copied bytes, per second where that is known.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
fn amounts_of(counts: &Work, rates: Option<&Rates>) -> [String; 2] {
    match rates {
        Some(rates) => [count(rates.launches + rates.graph_launches), byte_rate(rates.copied_bytes)],
        None => {
            let launches = counts.launches.saturating_add(counts.graph_launches);
            [count(launches as f64), bytes(counts.copied_bytes())]
        }
    }
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
