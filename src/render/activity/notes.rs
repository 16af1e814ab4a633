//! What stands under the table of activity: errors by name, what is not known or not
//! counted, and with -v how long calls took.

use std::io::{self, Write};

use super::amounts::{class, idle};
use super::gpu_of_use::gpu;
use super::interception;
use crate::observation::Uncovered;
use crate::render::{Style, sanitize};
use crate::report::{ActiveProcess, Activity, CallError, Gpu};

/// Lines of each kind before the rest is counted.
const LINES: usize = 4;

/// What there is to say of processes.
pub(super) fn of_processes(
    out: &mut dyn Write,
    style: Style,
    all: &[&ActiveProcess],
    gpus: &[Gpu],
) -> io::Result<()> {
    let processes = || all.iter().copied();
    if processes().any(|process| process.ended_at.is_some()) {
        writeln!(out, "  † has ended")?;
    }
    let errors = processes().filter(|process| !process.errors.is_empty()).map(errors);
    lines(out, style, errors.collect(), "processes with errors")?;
    let unknown = processes().flat_map(|process| process.gpus.iter().map(move |one| (process, one)));
    let unknown = unknown.filter_map(|(process, one)| {
        Some(format!("{}: which GPU is not known: {}", process.pid, sanitize::text(one.why.as_deref()?)))
    });
    lines(out, style, unknown.collect(), "GPUs that are not known")?;
    let partial = processes().filter(|process| process.partial);
    let partial = partial.map(|process| {
        format!(
            "{}: counted since {}, what it did before is not known",
            process.pid,
            sanitize::text(&process.since)
        )
    });
    lines(out, style, partial.collect(), "processes that were there before")?;
    interception::write(out, style, all)?;
    if style.all { durations(out, all, gpus) } else { Ok(()) }
}

/// What there is to say of the counting itself.
pub(super) fn of_counting(out: &mut dyn Write, style: Style, activity: &Activity) -> io::Result<()> {
    if let Some(age) = activity.age_seconds.filter(|age| *age >= 1.0) {
        writeln!(out, "  these counts are {} old", idle(age))?;
    }
    for lost in &activity.lost {
        writeln!(
            out,
            "  not counted: {} times no room in the table of {}",
            lost.count,
            sanitize::text(&lost.map.to_string())
        )?;
    }
    lines(out, style, activity.uncovered.iter().map(uncovered).collect(), "things that are not counted")
}

fn lines(out: &mut dyn Write, style: Style, lines: Vec<String>, what: &str) -> io::Result<()> {
    let shown = if style.all { lines.len() } else { LINES };
    lines.iter().take(shown).try_for_each(|line| writeln!(out, "  {line}"))?;
    match lines.len().saturating_sub(shown) {
        0 => Ok(()),
        more => writeln!(out, "  … and {more} more {what} (-v lists all)"),
    }
}

/// `31337: CUDA_ERROR_OUT_OF_MEMORY (2) 14 times`
fn errors(process: &ActiveProcess) -> String {
    let one = |error: &CallError| {
        let name = match &error.name {
            Some(name) => format!("{} ({})", sanitize::text(name), error.code),
            None => format!("error {}", error.code),
        };
        let times = if error.count == 1 { "once".to_owned() } else { format!("{} times", error.count) };
        let sticky = if error.sticky { ", after which every call fails" } else { "" };
        format!("{name} {times}{sticky}")
    };
    let all: Vec<String> = process.errors.iter().map(one).collect();
    format!("{}: {}", process.pid, all.join("; "))
}

fn uncovered(one: &Uncovered) -> String {
    let file = sanitize::bytes(one.file.as_bytes());
    let what = match &one.function {
        Some(function) => format!("{} of {file}", sanitize::text(function)),
        None => file.into_owned(),
    };
    let pid = one.pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
    format!("not counted: {what}{pid}: {}", sanitize::text(&one.why))
}

/// How long calls took, a line for each process and GPU.
fn durations(out: &mut dyn Write, processes: &[&ActiveProcess], gpus: &[Gpu]) -> io::Result<()> {
    for process in processes {
        for one in process.gpus.iter().filter(|one| !one.durations.is_empty()) {
            let classes: Vec<String> = one.durations.iter().map(class).collect();
            writeln!(
                out,
                "  {} on {}, calls by duration: {}",
                process.pid,
                gpu(one, gpus),
                classes.join(", ")
            )?;
        }
    }
    Ok(())
}
