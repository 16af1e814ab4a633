//! Limits of HAMi-core and SoftMig: GPU by process, and why each is in force or
//! not.

use std::io::{self, Write};

use bytesize::ByteSize;

use super::table::{self, Last};
use super::{Style, gpu_names, names, process, sanitize, vgpu_bytes};
use crate::model::{InForce, LimitCode, MeantBy};
use crate::report::{Gpu, LimitVerdict, Payload, Process, Vgpu, VgpuDevice};

const HEADER: [&str; 8] = ["PID", "COMMAND", "GPU", "MEANT", "LIMIT", "USED", "MEMORY", "SM"];

/// Prints the answer of `gpumap vgpu`.
pub fn write(out: &mut dyn Write, style: Style, payload: &Payload) -> io::Result<()> {
    let all: Vec<&Process> = payload.processes.iter().flatten().collect();
    let inventory = payload.gpus.as_deref().unwrap_or_default();
    if all.is_empty() {
        return writeln!(
            out,
            "No process was seen that has limits of libvgpu.so or SoftMig, or was meant to have any."
        );
    }
    writeln!(
        out,
        "Limits of libvgpu.so and SoftMig: {} {}",
        all.len(),
        plural(all.len(), "process", "processes")
    )?;
    table(out, style, &all, inventory)
}

/// Prints the same below the answer of another command, if there is anything.
pub(super) fn section(
    out: &mut dyn Write,
    style: Style,
    processes: &[&Process],
    inventory: &[Gpu],
) -> io::Result<()> {
    let limited: Vec<&Process> = processes.iter().copied().filter(|one| one.vgpu.is_some()).collect();
    if limited.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nLimits of libvgpu.so and SoftMig")?;
    table(out, style, &limited, inventory)
}

fn table(out: &mut dyn Write, style: Style, processes: &[&Process], inventory: &[Gpu]) -> io::Result<()> {
    let matters = |one: &&&Process| {
        style.all || processes.len() == 1 || one.vgpu.as_ref().is_some_and(|limits| limits.may_use_gpu())
    };
    let shown: Vec<&Process> = processes.iter().filter(matters).copied().collect();
    let rows: Vec<Vec<String>> = shown.iter().flat_map(|one| rows(one, inventory)).collect();
    if !rows.is_empty() {
        table::write(out, style, &HEADER, &["PID"], rows, Last::Wraps)?;
    }
    if shown.iter().any(|one| one.vgpu.as_ref().is_some_and(|limits| !limits.devices.is_empty())) {
        writeln!(out, "  MEMORY and SM: whether these limits are in force")?;
    }
    notes(out, &shown)?;
    match processes.len() - shown.len() {
        0 => Ok(()),
        count => writeln!(
            out,
            "  {count} {} no GPU open and {} not called the library (-v lists all)",
            plural(count, "process has", "processes have"),
            plural(count, "has", "have"),
        ),
    }
}

fn plural<'a>(count: usize, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// A line for each device.
fn rows(process: &Process, inventory: &[Gpu]) -> Vec<Vec<String>> {
    let Some(limits) = &process.vgpu else { return Vec::new() };
    let line = |device: &VgpuDevice| {
        vec![
            process.pid.to_string(),
            process::command(process),
            gpu(device, inventory),
            limit(device.memory_meant, device.sm_meant),
            limit(device.memory_limit, device.sm_limit),
            device.memory_used.map_or_else(|| "?".to_owned(), |bytes| short(vgpu_bytes::counted(bytes))),
            word(&device.memory),
            word(&device.sm),
        ]
    };
    limits.devices.iter().map(line).collect()
}

/// `no`, or `none` where no limit is set.
fn word(verdict: &LimitVerdict) -> String {
    match verdict.code {
        LimitCode::NoLimit => "none".to_owned(),
        _ => verdict.in_force.to_string(),
    }
}

fn gpu(device: &VgpuDevice, inventory: &[Gpu]) -> String {
    match (&device.gpu, &device.uuid) {
        (Some(key), _) => names::list(&gpu_names::key_names(std::slice::from_ref(key), &[], inventory)),
        (None, Some(uuid)) => sanitize::short(uuid, 12, "…"),
        (None, None) => format!("device {}", device.device),
    }
}

/// `2.0GiB 30%`: limits of memory and SM.
fn limit(memory: Option<u64>, sm: Option<u64>) -> String {
    let (Some(memory), Some(sm)) = (memory, sm) else { return "?".to_owned() };
    let memory = (memory > 0).then(|| short(ByteSize(memory).to_string()));
    let sm = (1..100).contains(&sm).then(|| format!("{sm}%"));
    match (memory, sm) {
        (None, None) => "none".to_owned(),
        (Some(one), None) | (None, Some(one)) => one,
        (Some(memory), Some(sm)) => format!("{memory} {sm}"),
    }
}

/// A size as one word.
fn short(size: String) -> String {
    size.replace(' ', "")
}

/// Why, and what else there is to know; alike ones share a line.
fn notes(out: &mut dyn Write, processes: &[&Process]) -> io::Result<()> {
    let mut notes: Vec<(String, Vec<u32>)> = Vec::new();
    for process in processes {
        for text in process.vgpu.iter().flat_map(|limits| of_process(limits)) {
            match notes.iter_mut().find(|(known, _)| *known == text) {
                Some((_, pids)) if pids.last() == Some(&process.pid) => {}
                Some((_, pids)) => pids.push(process.pid),
                None => notes.push((text, vec![process.pid])),
            }
        }
    }
    notes.iter().try_for_each(|(text, pids)| match pids.as_slice() {
        [pid] => writeln!(out, "  {pid}: {text}"),
        [pid, rest @ ..] => writeln!(out, "  {pid} and {} more: {text}", rest.len()),
        [] => Ok(()),
    })
}

fn of_process(limits: &Vgpu) -> Vec<String> {
    let mut notes = verdicts(limits);
    let place = limits.meant_in.as_deref().map(|place| sanitize::short(place, 80, "…"));
    notes.extend(match (limits.meant_by, place) {
        (MeantBy::JobFile | MeantBy::OverrideFile, Some(path)) => {
            Some(format!("what was meant stands in {path}"))
        }
        (MeantBy::Container, Some(who)) => {
            Some(format!("what was meant stands in the environment of {who}, the first of its container"))
        }
        _ => None,
    });
    if limits.region.as_ref().is_some_and(|region| region.deleted) {
        notes.push("its region was removed: programs that begin now make another".to_owned());
    }
    if limits.suspended == Some(true) {
        notes.push("it is suspended (SIGUSR2)".to_owned());
    }
    if limits.blocked == Some(true) {
        notes.push("its launches wait for a task of higher priority".to_owned());
    }
    if limits.priority == Some(0) {
        notes.push("its priority is high".to_owned());
    }
    notes.extend(limits.last_launch.as_deref().map(|at| format!("last launch {}", sanitize::text(at))));
    notes
}

/// Why limits are not in force or not known to be.
fn verdicts(limits: &Vgpu) -> Vec<String> {
    let mut notes = Vec::new();
    for device in &limits.devices {
        let (memory, sm) = (&device.memory, &device.sm);
        let is_news =
            |verdict: &LimitVerdict| verdict.in_force != InForce::Yes && verdict.code != LimitCode::NoLimit;
        let why = |verdict: &LimitVerdict| sanitize::short(&verdict.why, 300, "…");
        if is_news(memory) && memory == sm {
            notes.push(why(memory));
            continue;
        }
        notes.extend(is_news(memory).then(|| format!("memory: {}", why(memory))));
        notes.extend(is_news(sm).then(|| format!("SM: {}", why(sm))));
    }
    notes.dedup();
    notes
}
