//! Prints the events of `gpumap watch`, a line each.

use std::io::{self, Write};

use super::{gpu_names, owner, problems, process, sanitize, watch_move};
use crate::model::{EventCause, EventKind, ValueState};
use crate::report::{Event, Gpu, LostBy, Value};

/// Characters of a value, and of a reason that has one in it.
const VALUE: usize = 60;
const WHY: usize = 300;

/// Prints an event.
pub fn write(out: &mut dyn Write, event: &Event, gpus: &[Gpu]) -> io::Result<()> {
    if let Some(line) = super::policy_event(event, gpus).filter(|_| event.process.is_none()) {
        return writeln!(out, "{line}");
    }
    writeln!(out, "{}  {}{}", time(&event.at), who(event), what(event, gpus))
}

/// The time of day, which is UTC and says so; the date is known to who watches.
fn time(at: &str) -> String {
    let time = at.split('T').nth(1).unwrap_or(at);
    format!("{}Z", time.split(['.', 'Z']).next().unwrap_or_default())
}

/// `31337 python3 (slurm job 4711, step 0): `, and nothing for an event that
/// is not about a process.
fn who(event: &Event) -> String {
    let Some(process) = &event.process else { return String::new() };
    let comm = sanitize::with_hex(&process.comm, process.comm_hex.as_deref());
    let owner = event.owner.as_ref().map(|owner| format!(" ({})", owner::full(owner)));
    format!("{} {comm}{}: ", process.pid, owner.unwrap_or_default())
}

fn what(event: &Event, gpus: &[Gpu]) -> String {
    let why = event.why.as_deref().map(sanitize::text).unwrap_or_default();
    match event.event {
        EventKind::Visible => visible(event, gpus),
        EventKind::Process => format!("executed{}", asked(event, gpus)),
        EventKind::Exit => "ended".to_owned(),
        EventKind::Driver => {
            let what = event.how.map_or("driver initialised", <&str>::from);
            if why.is_empty() {
                format!("{what}: later changes are without effect")
            } else {
                why.into_owned()
            }
        }
        EventKind::Uncovered if event.process.is_none() => why.into_owned(),
        EventKind::Uncovered => format!("its changes are not seen as they happen: {why}"),
        EventKind::Opened | EventKind::Closed => devices(event, gpus),
        EventKind::Moved => {
            event.moved.as_ref().map_or(why.into_owned(), |moved| watch_move::what(event, moved, gpus))
        }
        EventKind::Decoding => format!("policy {why}"),
        EventKind::Lost => format!("{} events were lost{}", event.lost.unwrap_or_default(), lost_by(event)),
        EventKind::Start => format!("watching with {}{}", event.engines.join(", "), ready(event)),
        EventKind::Ready => uncovered(event),
        EventKind::Problem => {
            format!("not watched: {}", event.problem.as_ref().map(problems::line).unwrap_or_default())
        }
        EventKind::End => "end".to_owned(),
        EventKind::Policy => "the programs in force changed".to_owned(),
    }
}

/// The limits of a watch, a line for each sentence of a `start` event.
pub fn not_seen(out: &mut dyn Write, event: &Event) -> io::Result<()> {
    event.not_seen.iter().try_for_each(|one| writeln!(out, "  not covered: {}", sanitize::text(one)))
}

/// `; ready after 0.31 s`
fn ready(event: &Event) -> String {
    let after = |after: u64| format!("; ready after {}.{:02} s", after / 1000, after % 1000 / 10);
    event.ready_after_ms.map(after).unwrap_or_default()
}

/// The processes that are not covered, on one line however many there are.
fn uncovered(event: &Event) -> String {
    match event.uncovered.unwrap_or_default() {
        0 => "everything is covered".to_owned(),
        1 => "changes of 1 process are not seen as they happen (-v says why)".to_owned(),
        count => format!("changes of {count} processes are not seen as they happen (-v says why)"),
    }
}

/// ` (uid 1000: 7, others: 1)`
fn lost_by(event: &Event) -> String {
    let one = |lost: &LostBy| match lost.uid {
        Some(uid) => format!("uid {uid}: {}", lost.events),
        None => format!("others: {}", lost.events),
    };
    let all: Vec<String> = event.lost_by.iter().map(one).collect();
    if all.is_empty() { String::new() } else { format!(" ({})", all.join(", ")) }
}

/// `CUDA_VISIBLE_DEVICES 0,1 → 1 (nvidia1)`
fn visible(event: &Event, gpus: &[Gpu]) -> String {
    let Some(variable) = &event.variable else {
        return format!("all variables removed ({})", event.how.map_or("", <&str>::from));
    };
    let old = event.old.as_ref().map(value).unwrap_or_else(|| "?".to_owned());
    let new = event.new.as_ref().map(value).unwrap_or_else(|| "?".to_owned());
    let found = if event.how == Some(EventCause::Memory) { ", found in memory" } else { "" };
    let effect = match event.effective {
        Some(false) => ", without effect: its driver was initialised before",
        _ => "",
    };
    format!("{variable} {old} → {new}{}{found}{effect}", result(event, gpus))
}

/// `opened nvidia1 (195:1)`, with what it may not open any more.
fn devices(event: &Event, gpus: &[Gpu]) -> String {
    let Some(devices) = &event.devices else { return event.event.to_string() };
    let numbers: Vec<String> =
        devices.numbers.iter().map(|device| format!("{}:{}", device.major, device.minor)).collect();
    let denied = devices.held_denied.as_deref().unwrap_or_default();
    let names = gpu_names::held_names(&devices.held, &devices.held_instances, denied, gpus);
    let shared = devices.held_shared.iter().map(|role| sanitize::text(&role.to_string()).into_owned());
    let names: Vec<String> =
        std::iter::once(names).chain(shared).filter(|name| !name.is_empty() && name != "-").collect();
    let denied = if denied.is_empty() { "" } else { ", ! denied by its rules" };
    format!("{} {} ({}){denied}", event.event, names.join(" "), numbers.join(" "))
}

/// The GPUs that result, in parentheses.
fn result(event: &Event, gpus: &[Gpu]) -> String {
    let asked = event.asked.as_ref().filter(|_| !gpus.is_empty());
    let why = event.why.as_deref().filter(|_| event.new.is_some() || event.event == EventKind::Process);
    let why = why.map(|why| format!(": {}", sanitize::short(why, WHY, "…"))).unwrap_or_default();
    asked.map(|asked| format!(" ({}{why})", process::result(asked, gpus))).unwrap_or_default()
}

/// The variables of a new process, and what results.
fn asked(event: &Event, gpus: &[Gpu]) -> String {
    let variables = event.asked.iter().flat_map(|asked| &asked.variables);
    let variables: Vec<String> = variables
        .filter(|one| !one.name.starts_with("SLURM"))
        .map(|one| {
            let text = sanitize::short_with_hex(&one.value, one.value_hex.as_deref(), VALUE);
            format!(" {}={}", one.name, process::quoted(text))
        })
        .collect();
    format!("{}{}", variables.concat(), result(event, gpus))
}

fn value(value: &Value) -> String {
    match (value.state, &value.raw) {
        (ValueState::Value, Some(raw)) => {
            let text = sanitize::short_with_hex(raw, value.raw_hex.as_deref(), VALUE);
            process::quoted(text)
        }
        (state, _) => state.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::EventProcess;

    fn line(event: &Event) -> String {
        let mut out = Vec::new();
        write(&mut out, event, &[]).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Make sure that a change reads as one line, whatever is in it.
    #[test]
    fn changes() {
        let of =
            |raw: &str| Value { state: ValueState::Value, raw: Some(raw.to_owned()), ..Value::default() };
        let event = Event {
            at: "2026-01-02T03:04:05.6Z".to_owned(),
            event: EventKind::Visible,
            process: Some(EventProcess { pid: 7, comm: "x\x1b[2J".to_owned(), ..EventProcess::default() }),
            variable: Some("CUDA_VISIBLE_DEVICES".to_owned()),
            old: Some(of("0,1")),
            new: Some(of("1\n")),
            effective: Some(false),
            ..Event::default()
        };
        let text = line(&event);
        assert!(text.starts_with("03:04:05Z  7 x"), "{text}");
        assert!(text.contains("CUDA_VISIBLE_DEVICES 0,1 → 1") && text.contains("without effect"), "{text}");
        assert!(text.matches('\n').count() == 1 && !text.contains('\x1b'), "{text}");
    }
}
