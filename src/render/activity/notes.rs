//! What stands under the table of activity: errors by name, what is not known or not
//! counted. A sentence that stays true is said once, and not in each interval.

use std::collections::BTreeSet;
use std::io;
use std::io::Write;

use super::amounts::{class, gpu, idle};
use super::interception;
use crate::observation::Uncovered;
use crate::render::{Style, sanitize};
use crate::report::{ActiveProcess, Activity, CallError, Gpu, LostCalls};

/// Calls that last so many seconds are told by name.
const LONG: f64 = 1.0;
/// Lines of each kind before the rest is counted.
const LINES: usize = 4;

/// What there is to say of processes.
pub(super) fn of_processes(
    out: &mut dyn Write,
    style: Style,
    all: &[&ActiveProcess],
    gpus: &[Gpu],
    told: &mut Told,
) -> io::Result<()> {
    let processes = || all.iter().copied();
    if processes().any(|process| process.ended_at.is_some()) {
        writeln!(out, "  † has ended")?;
    }
    let errors = processes().filter(|process| !process.errors.is_empty()).map(errors);
    lines(out, style, told.new_ones(errors.collect()), "processes with errors")?;
    let calls = processes().flat_map(calls).collect();
    lines(out, style, calls, "calls that have not returned")?;
    let unknown = processes().flat_map(|process| process.gpus.iter().map(move |one| (process, one)));
    let unknown = unknown.filter_map(|(process, one)| {
        Some(format!("{}: which GPU is not known: {}", process.pid, sanitize::text(one.why.as_deref()?)))
    });
    lines(out, style, told.new_ones(unknown.collect()), "GPUs that are not known")?;
    let lossy = processes().filter(|process| !process.lost.is_empty()).map(lossy).collect();
    lines(out, style, told.new_ones(lossy), "processes of which not all is counted")?;
    let partial = processes().filter(|process| process.partial && process.lost.is_empty());
    let partial = partial.map(|process| {
        format!(
            "{}: counted since {}, what it did before is not known",
            process.pid,
            sanitize::text(process.since.as_str())
        )
    });
    lines(out, style, told.new_ones(partial.collect()), "processes that were there before")?;
    interception::write(out, style, all)?;
    if style.all { durations(out, all, gpus) } else { Ok(()) }
}

/// What there is to say of the counting itself.
pub(super) fn of_counting(
    out: &mut dyn Write,
    style: Style,
    activity: &Activity,
    told: &mut Told,
) -> io::Result<()> {
    if activity.libraries.is_empty() {
        let none = "no driver's library (libcuda.so.1, libamdhip64.so) was found: there is nothing to count";
        lines(out, style, told.new_ones(vec![none.to_owned()]), "")?;
    }
    if let Some(age) = activity.age_seconds.filter(|age| *age >= 1.0) {
        writeln!(out, "  these counts are {} old", idle(age))?;
    }
    let lost = activity.lost.iter().map(lost).collect();
    lines(out, style, told.new_ones(lost), "users without room")?;
    let uncovered = activity.uncovered.iter().map(uncovered).collect();
    lines(out, style, told.new_ones(uncovered), "things that are not counted or measured")
}

/// `not counted: calls of user mallory (61234), 4215 times no room in the table of streams`
fn lost(lost: &LostCalls) -> String {
    let whose = match (lost.uid, &lost.user) {
        (Some(uid), Some(name)) => format!("calls of user {} ({uid}), ", sanitize::text(name)),
        (Some(uid), None) => format!("calls of user {uid}, "),
        (None, _) => String::new(),
    };
    let table = lost.map.to_string();
    format!("not counted: {whose}{} times no room in the table of {}", lost.count, sanitize::text(&table))
}

/// `31337: numbers are the least that it did: no room for its streams`
fn lossy(process: &ActiveProcess) -> String {
    let tables: Vec<String> = process.lost.iter().map(ToString::to_string).collect();
    let tables = tables.join(", ");
    format!("{}: numbers are the least that it did: no room for its {}", process.pid, sanitize::text(&tables))
}

/// Calls that last long, a line for each function: `31337: in cuStreamSynchronize for 3h (4
/// threads)`
fn calls(process: &ActiveProcess) -> Vec<String> {
    let mut all: Vec<(&str, f64, usize)> = Vec::new();
    for call in process.calls.iter().filter(|call| call.seconds >= LONG) {
        match all.iter_mut().find(|(function, ..)| *function == call.function) {
            Some((_, longest, threads)) => {
                *longest = longest.max(call.seconds);
                *threads += 1;
            }
            None => all.push((&call.function, call.seconds, 1)),
        }
    }
    let one = |(function, longest, threads): (&str, f64, usize)| {
        let function = sanitize::text(function);
        let threads = if threads > 1 { format!(" ({threads} threads)") } else { String::new() };
        format!("{}: in {function} for {}{threads}", process.pid, idle(longest))
    };
    all.into_iter().map(one).collect()
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
    let missing = if one.counted { "not measured" } else { "not counted" };
    format!("{missing}: {what}{pid}: {}", sanitize::text(&one.why))
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

/// The sentences that were said.
#[derive(Debug, Default)]
pub struct Told(BTreeSet<String>);

impl Told {
    /// Those of some sentences that were not said yet.
    pub(super) fn new_ones(&mut self, sentences: Vec<String>) -> Vec<String> {
        // A run that lasts for months does not remember each process.
        if self.0.len() > 10_000 {
            self.0.clear();
        }
        sentences.into_iter().filter(|sentence| self.0.insert(sentence.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CountTable;
    use crate::observation::Text;
    use crate::report::{CallNow, CountedLibrary, GpuUse};

    fn said(processes: &[ActiveProcess], activity: &Activity, told: &mut Told) -> String {
        let mut out = Vec::new();
        let all: Vec<&ActiveProcess> = processes.iter().collect();
        of_processes(&mut out, Style::default(), &all, &[], told).unwrap();
        of_counting(&mut out, Style::default(), activity, told).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn library() -> CountedLibrary {
        CountedLibrary { path: "/usr/lib/libcuda.so.1".to_owned(), ..CountedLibrary::default() }
    }

    /// Make sure that each sentence says what it said before, and those that stay true say it
    /// once.
    #[test]
    fn sentences() {
        let call = |tid, seconds| CallNow {
            tid,
            function: "cuStreamSynchronize".to_owned(),
            seconds,
            ..CallNow::default()
        };
        let error = |code, count, name: Option<&str>, sticky| CallError {
            code,
            count,
            sticky,
            name: name.map(str::to_owned),
            ..CallError::default()
        };
        let unknown = GpuUse { why: Some("it has 2 GPUs open".to_owned()), ..GpuUse::default() };
        let processes = [
            ActiveProcess {
                pid: 7,
                ended_at: Some("2026-11-25T10:04:00Z".into()),
                errors: vec![
                    error(2, 14, Some("CUDA_ERROR_OUT_OF_MEMORY"), false),
                    error(700, 1, Some("CUDA_ERROR_ILLEGAL_ADDRESS"), true),
                    error(1234, 1, None, false),
                ],
                lost: vec![CountTable::Streams, CountTable::Blocks],
                partial: true,
                ..ActiveProcess::default()
            },
            ActiveProcess {
                pid: 8,
                since: "2026-11-25T10:00:00Z".into(),
                partial: true,
                calls: vec![call(8, 10_800.0), call(9, 3.0), call(10, 0.2)],
                gpus: vec![unknown],
                ..ActiveProcess::default()
            },
        ];
        let activity = Activity {
            age_seconds: Some(75.0),
            libraries: vec![library()],
            lost: vec![
                LostCalls {
                    map: CountTable::Streams,
                    count: 4215,
                    uid: Some(61_234),
                    user: Some("mallory".to_owned()),
                },
                LostCalls { map: CountTable::Records, count: 3, ..LostCalls::default() },
            ],
            uncovered: vec![Uncovered {
                file: Text::from(b"/opt/libcuda.so.1".to_vec()),
                function: None,
                counted: false,
                why: "it is locked".to_owned(),
                pid: Some(9),
            }],
            ..Activity::default()
        };
        let mut told = Told::default();
        let first = said(&processes, &activity, &mut told);
        assert_eq!(
            first.lines().map(str::trim_start).collect::<Vec<_>>(),
            [
                "† has ended",
                "7: CUDA_ERROR_OUT_OF_MEMORY (2) 14 times; CUDA_ERROR_ILLEGAL_ADDRESS (700) once, after which \
                 every call fails; error 1234 once",
                "8: in cuStreamSynchronize for 3h (2 threads)",
                "8: which GPU is not known: it has 2 GPUs open",
                "7: numbers are the least that it did: no room for its streams, blocks",
                "8: counted since 2026-11-25T10:00:00Z, what it did before is not known",
                "these counts are 1m old",
                "not counted: calls of user mallory (61234), 4215 times no room in the table of streams",
                "not counted: 3 times no room in the table of records",
                "not counted: /opt/libcuda.so.1 (process 9): it is locked",
            ]
        );
        let again = said(&processes, &activity, &mut told);
        assert_eq!(
            again.lines().map(str::trim_start).collect::<Vec<_>>(),
            ["† has ended", "8: in cuStreamSynchronize for 3h (2 threads)", "these counts are 1m old"]
        );
    }

    /// Make sure that an interval without a driver's library says so.
    #[test]
    fn without_a_library() {
        let none =
            "  no driver's library (libcuda.so.1, libamdhip64.so) was found: there is nothing to count\n";
        let say = |libraries| said(&[], &Activity { libraries, ..Activity::default() }, &mut Told::default());
        assert_eq!((say(Vec::new()).as_str(), say(vec![library()]).as_str()), (none, ""));
    }
}

#[cfg(test)]
mod told_tests {
    use super::*;

    /// Make sure that a sentence is said once, and again when it says something else.
    #[test]
    fn once() {
        let mut told = Told::default();
        let say = |told: &mut Told, text: &str| told.new_ones(vec![text.to_owned()]).len();
        assert_eq!(
            [say(&mut told, "7: twice"), say(&mut told, "7: twice"), say(&mut told, "7: 3 times")],
            [1, 0, 1]
        );
    }
}
