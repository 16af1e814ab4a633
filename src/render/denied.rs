//! Prints a device that the kernel refused, and what decides: a line of `gpumap watch` and
//! `gpumap denials`.

use super::gpus::device_names;
use super::sanitize;
use crate::model::{DeviceType, Time};
use crate::report::{DeniedEvent, Event, Gpu};

/// Characters of what an instruction means, of a reason, and of a program's name or place.
const MEANING: usize = 60;
const WHY: usize = 300;
const PROGRAM: usize = 160;

/// `nvidia3 (195:3) rw refused 214 times in 2.0 s: program 1727 sd_devices at /system.slice,
/// instruction 12: r0 = 0`.
pub(super) fn denied(event: &Event, gpus: &[Gpu]) -> String {
    let Some((devices, denied)) = event.devices.as_ref().zip(event.denied.as_ref()) else {
        return event.event.to_string();
    };
    let number = devices.numbers.first();
    let letter = number.filter(|device| device.kind == DeviceType::Block).map_or("", |_| "b ");
    let number =
        number.map(|device| format!("{letter}{}:{}", device.major, device.minor)).unwrap_or_default();
    let names = device_names(devices, &[], gpus);
    let name = if names.is_empty() { number } else { format!("{} ({number})", names.join(" ")) };
    let request = sanitize::text(&denied.request);
    let times = match denied.count {
        1 => String::new(),
        count => format!(" {count} times{}", within(&event.at, &denied.last)),
    };
    let error = match denied.error.as_str() {
        "EPERM" => String::new(),
        other => format!(" with {}", sanitize::text(other)),
    };
    format!("{name} {request} refused{times}{error}{}", decides(event, denied))
}

/// ` in 2.0 s`, between two times.
fn within(first: &Time, last: &Time) -> String {
    let span = last.since(first).map(|span| span.as_secs_f64());
    span.map(|seconds| format!(" in {seconds:.1} s")).unwrap_or_default()
}

/// What decides, or why that is not known.
fn decides(event: &Event, denied: &DeniedEvent) -> String {
    if denied.devices_v1 {
        return ": by the devices controller of cgroup v1".to_owned();
    }
    let Some(program) = &denied.program else {
        let why = event.why.as_deref().unwrap_or("its programs were not read");
        return format!(", by what is not known: {}", sanitize::short(why, WHY, "…"));
    };
    let name = match program.name.as_str() {
        "" => String::new(),
        name => format!(" {}", sanitize::short(name, PROGRAM, "…")),
    };
    let at = sanitize::short(&program.attached_at, PROGRAM, "…");
    let step = program.instruction.as_ref();
    let step = step.map(|step| {
        let meaning = if step.meaning.is_empty() { &step.text } else { &step.meaning };
        format!(", instruction {}: {}", step.pc, sanitize::short(meaning, MEANING, "…"))
    });
    format!(": program {}{name} at {at}{}", program.id, step.unwrap_or_default())
}
