//! What owners did with their GPUs from begin to end: for the Epilog of a job.

use std::io::{self, Write};

use super::super::gpus;
use super::super::names::counted;
use super::amounts::{bytes, count, duration, idle};
use crate::render::table::{Last, Table, or_dash};
use crate::render::{Style, owner, sanitize};
use crate::report::{Activity, ActivityAnswer, CallError, Gpu, GpuWork, OwnerWork, Work};

/// Prints the totals of an answer; `named` are the jobs that were asked for.
pub fn write(out: &mut dyn Write, style: Style, answer: &ActivityAnswer, named: &[String]) -> io::Result<()> {
    let Some(activity) = answer.activity.as_deref() else {
        return writeln!(out, "Nobody counts calls here.");
    };
    let gpus = answer.gpus.as_slice();
    if activity.totals.is_empty() {
        let whose = if named.is_empty() { String::new() } else { format!(" of job {}", named.join(", ")) };
        let since = sanitize::text(activity.since.as_str());
        let until = sanitize::text(activity.at.as_str());
        writeln!(out, "No call{} was counted from {since} to {until}.", sanitize::text(&whose))?;
        return missing(out, activity);
    }
    for (place, one) in activity.totals.iter().enumerate() {
        if place > 0 {
            writeln!(out)?;
        }
        write_owner(out, style, one, gpus, activity.unattributed.is_some())?;
    }
    missing(out, activity)
}

/// What may be theirs, and is in no numbers.
fn missing(out: &mut dyn Write, activity: &Activity) -> io::Result<()> {
    let Some(what) = &activity.unattributed else { return Ok(()) };
    let of = |number: u64, one: &str| counted(usize::try_from(number).unwrap_or(usize::MAX), one);
    let lines = [
        (
            what.processes > 0,
            format!("the owner of {} with calls is not known", of(what.processes, "process")),
        ),
        (what.lost > 0, format!("calls found no room {}", of(what.lost, "time"))),
        (what.uncovered > 0, format!("calls of {} are not counted", of(what.uncovered as u64, "file"))),
        (
            what.forgotten_owners > 0,
            format!("numbers of {} are kept no longer", of(what.forgotten_owners, "earlier owner")),
        ),
        (what.is_part_of_node, "only some processes of the node are counted".to_owned()),
    ];
    let lines: Vec<String> = lines.into_iter().filter_map(|(is_so, line)| is_so.then_some(line)).collect();
    writeln!(out, "  Calls may be missing: {}.", lines.join("; "))
}

fn write_owner(
    out: &mut dyn Write,
    style: Style,
    one: &OwnerWork,
    gpus: &[Gpu],
    is_told_below: bool,
) -> io::Result<()> {
    let nameless = if one.is_nobodys { "processes of no owner" } else { "owner not known" };
    let name = one.owner.as_ref().map_or_else(|| nameless.to_owned(), owner::full);
    let there = if one.alive > 0 { format!(", {} still there", one.alive) } else { String::new() };
    writeln!(
        out,
        "{name}: {} with calls{there}",
        counted(usize::try_from(one.processes).unwrap_or(usize::MAX), "process")
    )?;
    writeln!(
        out,
        "  from {} to {}: {}",
        sanitize::text(one.since.as_str()),
        sanitize::text(one.until.as_str()),
        idle(one.seconds)
    )?;
    table(one, gpus).write(out, style, Last::Runs)?;
    if !one.errors.is_empty() {
        let errors: Vec<String> = one.errors.iter().map(error).collect();
        writeln!(out, "  errors: {}", errors.join("; "))?;
    }
    let tables: Vec<String> = one.lost.iter().map(ToString::to_string).collect();
    match (one.partial, tables.is_empty()) {
        (_, false) => {
            writeln!(out, "  numbers are the least that it did: no room for its {}", tables.join(", "))
        }
        (true, true) if is_told_below => writeln!(out, "  numbers are the least that it did"),
        (true, true) => writeln!(out, "  numbers are the least that it did: it was not counted all the time"),
        (false, true) => Ok(()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
fn table<'a>(owner: &'a OwnerWork, gpus: &[Gpu]) -> Table<'a, GpuWork> {
    let is_least = owner.partial;
    let at_least = |text: String| if is_least { format!("≥{text}") } else { text };
    let name = |one: &GpuWork| Some(gpus::instance_name(one.instance.as_ref().or(one.gpu.as_ref())?, gpus));
    let launches = |work: &Work| work.launches.saturating_add(work.graph_kernels);
    let failed = |work: &Work| work.failed_calls.saturating_add(work.failed_allocations);
    let waited = |work: &Work| work.wait_seconds + work.copy_wait_seconds;
    let idle = |share: f64| format!("{:.0} %", share * 100.0);
    Table::of(&owner.gpus)
        .text("GPU", |one| name(one).unwrap_or_else(|| "?".to_owned()))
        .number("LAUNCHES", |one: &GpuWork| at_least(count(launches(&one.counts) as f64)))
        .number("COPIED", |one: &GpuWork| at_least(bytes(one.counts.copied_bytes())))
        .number("PEAK MEMORY", |one: &GpuWork| at_least(peak(one)))
        .number("WAITED", |one: &GpuWork| duration(waited(&one.counts)))
        .number("FAILED", |one: &GpuWork| at_least(failed(&one.counts).to_string()))
        .number("IDLE", |one: &GpuWork| or_dash(one.idle_share.map(idle)))
}

fn peak(one: &GpuWork) -> String {
    match one.peak_at_most_bytes > one.peak_bytes {
        true => format!("{} to {}", bytes(one.peak_bytes), bytes(one.peak_at_most_bytes)),
        false => bytes(one.peak_bytes),
    }
}

fn error(error: &CallError) -> String {
    let name = error.name.as_deref().map_or_else(String::new, |name| format!("{} ", sanitize::text(name)));
    format!("{name}({}) {} times", error.code, error.count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Owner, OwnerKind};
    use crate::report::{Unattributed, Work};

    fn text(totals: Vec<OwnerWork>) -> String {
        text_with(totals, None)
    }

    fn text_with(totals: Vec<OwnerWork>, unattributed: Option<Unattributed>) -> String {
        let activity = Activity {
            unattributed,
            since: "2026-11-25T10:00:00Z".into(),
            at: "2026-11-25T11:00:00Z".into(),
            totals,
            ..Activity::default()
        };
        let payload = ActivityAnswer { activity: Some(Box::new(activity)), ..ActivityAnswer::default() };
        let mut out = Vec::new();
        let style = Style { width: 100, ..Style::default() };
        write(&mut out, style, &payload, &["4711".to_owned()]).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Make sure that a job's summary says what it did with each GPU, and what is not known.
    #[test]
    fn epilog() {
        let counts = Work {
            launches: 1200,
            to_device_bytes: 1 << 30,
            wait_seconds: 2.0,
            failed_calls: 1,
            ..Work::default()
        };
        let gpu = GpuWork {
            gpu: Some("GPU-1".into()),
            counts,
            peak_bytes: 1 << 30,
            peak_at_most_bytes: 3 << 30,
            idle_share: Some(0.25),
            ..GpuWork::default()
        };
        let one = OwnerWork {
            owner: Some(Owner { kind: OwnerKind::Slurm, job_id: Some(4711), ..Owner::default() }),
            since: "2026-11-25T10:00:00Z".into(),
            until: "2026-11-25T10:02:00Z".into(),
            seconds: 120.0,
            processes: 2,
            gpus: vec![gpu],
            ..OwnerWork::default()
        };
        let said = text(vec![one.clone()]);
        for part in ["4711", "2 processes with calls", ": 2m", "1.2k", "1.0 GiB to 3.0 GiB", "2.0 s", "25 %"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
        let partial = text(vec![OwnerWork { partial: true, ..one.clone() }]);
        assert!(
            partial.contains("≥1.2k") && partial.contains("it was not counted all the time"),
            "{partial}"
        );
        let unattributed = Unattributed { processes: 1, lost: 3, ..Unattributed::default() };
        let said = text_with(vec![OwnerWork { partial: true, ..one }], Some(unattributed));
        assert!(
            said.ends_with(
                "  numbers are the least that it did\n  Calls may be missing: the owner of 1 process with \
                 calls is not known; calls found no room 3 times.\n"
            ),
            "{said}"
        );
        assert_eq!(
            text(Vec::new()),
            "No call of job 4711 was counted from 2026-11-25T10:00:00Z to 2026-11-25T11:00:00Z.\n"
        );
    }
}
