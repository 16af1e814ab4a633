//! The answers of `gpumap vgpu`: limits of HAMi-core and SoftMig, GPU by process, and why
//! each is in force or not; and a shared region with its processes.

use std::io;
use std::io::Write;

use super::activity::amounts::bytes;
use super::table::{Last, Table, or_dash};
use super::{Style, gpus, names, process, sanitize, wrap};
use crate::model::{InForce, LimitCode, MeantBy};
use crate::report::{
    Gpu, LimitVerdict, Process, Region, RegionAnswer, RegionDevice, RegionProcess, Vgpu, VgpuAnswer,
    VgpuDevice,
};

/// Prints the region of the answer.
pub fn write(out: &mut dyn Write, style: Style, answer: &RegionAnswer) -> io::Result<()> {
    let region = &answer.region;
    writeln!(out, "Shared region, layout {}, {} bytes", region.layout, region.file_size)?;
    let Some(processes) = &region.procs else { return Ok(()) };
    writeln!(
        out,
        "  The file switches SM limits {}",
        if region.utilization_switch == Some(0) { "off" } else { "on" }
    )?;
    if region.recent_kernel == Some(-1) {
        writeln!(out, "  Launches wait for a task of higher priority")?;
    }
    writeln!(out, "\nDevices")?;
    Table::of(&devices(region))
        .text("DEVICE", |device| device.index.to_string())
        .text("MEMORY LIMIT", |device| match device.memory {
            0 => "none".to_owned(),
            memory => bytes(memory),
        })
        .text("SM LIMIT", |device| match device.sm {
            sm @ 1..100 => format!("{sm} %"),
            _ => "none".to_owned(),
        })
        .text("UUID", |device| match device.uuid {
            "" => "not known yet".to_owned(),
            uuid => sanitize::text(uuid).into_owned(),
        })
        .write(out, style, Last::Runs)?;
    let (counted, left): (Vec<_>, Vec<_>) = processes.iter().partition(|process| process.in_range);
    writeln!(out, "\nProcesses: {}", counted.len())?;
    write_processes(out, style, &counted)?;
    if !left.is_empty() {
        writeln!(out, "\nEntries that the library no longer counts: {}", left.len())?;
        write_processes(out, style, &left)?;
    }
    Ok(())
}

/// A device of a region with its limits; zero is no limit.
struct Device<'a> {
    index: usize,
    uuid: &'a str,
    memory: u64,
    sm: u64,
}

fn devices(region: &Region) -> Vec<Device<'_>> {
    let uuids = region.uuids.iter().flatten();
    let limits = region.limit.iter().flatten().zip(region.sm_limit.iter().flatten());
    let all = uuids.zip(limits).enumerate();
    let all = all.map(|(index, (uuid, (memory, sm)))| Device { index, uuid, memory: *memory, sm: *sm });
    let is_there = |device: &Device<'_>| {
        let counted = u64::try_from(device.index).is_ok_and(|index| Some(index) < region.device_num);
        counted || !device.uuid.is_empty() || (region.device_num == Some(0) && device.index == 0)
    };
    all.filter(is_there).collect()
}

/// A process of a region, and one of its devices if it has any.
type Entry<'a> = (&'a RegionProcess, Option<&'a RegionDevice>);

fn write_processes(out: &mut dyn Write, style: Style, processes: &[&RegionProcess]) -> io::Result<()> {
    let rows: Vec<Entry<'_>> = processes.iter().flat_map(|process| entries(process)).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let pid = |pid: i32| if pid == 0 { "-".to_owned() } else { pid.to_string() };
    Table::of(&rows)
        .number("ENTRY", |(process, _)| process.index.to_string())
        .number("PID INSIDE", |(process, _)| pid(process.pid))
        .number("PID ON NODE", |(process, _)| pid(process.hostpid))
        .text("STATUS", |(process, _)| status(process).to_owned())
        .text("DEVICE", |(_, device)| or_dash(device.map(|device| device.device.to_string())))
        .text("MEMORY", |(_, device)| or_dash(device.map(|device| counted(device.total))))
        .text("SM", |(_, device)| or_dash(device.map(percent)))
        .write(out, style, Last::Runs)
}

/// A line for each device of a process, or one.
fn entries(process: &RegionProcess) -> Vec<Entry<'_>> {
    match process.devices.as_slice() {
        [] => vec![(process, None)],
        devices => devices.iter().map(|device| (process, Some(device))).collect(),
    }
}

fn percent(device: &RegionDevice) -> String {
    device.sm_util.map_or_else(|| "-".to_owned(), |sm| format!("{sm} %"))
}

fn status(process: &RegionProcess) -> &'static str {
    match (process.status, process.seqlock.is_some_and(|lock| lock % 2 == 1)) {
        (1, true) => "writing",
        (1, false) => "running",
        (2, _) => "suspended",
        _ => "gone",
    }
}

/// More than any GPU has.
const IMPOSSIBLE: u64 = 1 << 50;

/// `2.0 GiB`; `-1.8 MiB` of a counter below zero, `? (more than any GPU has)` of another one
/// that cannot be.
pub(super) fn counted(amount: u64) -> String {
    match amount {
        amount if amount < IMPOSSIBLE => bytes(amount),
        amount if amount > i64::MAX.unsigned_abs() => {
            format!("-{} (below zero)", bytes(amount.wrapping_neg()))
        }
        _ => "? (more than any GPU has)".to_owned(),
    }
}

/// Prints the answer of `gpumap vgpu`.
pub fn write_limits(out: &mut dyn Write, style: Style, answer: &VgpuAnswer) -> io::Result<()> {
    let all: Vec<&Process> = answer.processes.iter().collect();
    let inventory = answer.gpus.as_slice();
    if all.is_empty() {
        let none = "No process was seen that has limits of libvgpu.so or SoftMig, or was meant to have any.";
        return wrap::write(out, "", 2, usize::from(style.width), none);
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
    let rows: Vec<Limited<'_>> = shown.iter().flat_map(|one| limited(one)).collect();
    if !rows.is_empty() {
        limit_table(&rows, inventory).write(out, style, Last::Wraps)?;
    }
    if shown.iter().any(|one| one.vgpu.as_ref().is_some_and(|limits| !limits.devices.is_empty())) {
        writeln!(out, "  MEMORY and SM: whether these limits are in force")?;
    }
    notes(out, style, &shown)?;
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

/// A process, and a device that it has limits of.
type Limited<'a> = (&'a Process, &'a VgpuDevice);

fn limited(process: &Process) -> impl Iterator<Item = Limited<'_>> {
    let devices = process.vgpu.iter().flat_map(|limits| &limits.devices);
    devices.map(move |device| (process, device))
}

fn limit_table<'a>(rows: &'a [Limited<'a>], inventory: &[Gpu]) -> Table<'a, Limited<'a>> {
    let used = |device: &VgpuDevice| {
        device.memory_used.map_or_else(|| "?".to_owned(), |bytes| short(counted(bytes)))
    };
    Table::of(rows)
        .number("PID", |(process, _)| process.pid.to_string())
        .text("COMMAND", |(process, _)| process::command(process))
        .text("GPU", |(_, device)| gpu(device, inventory))
        .text("MEANT", |(_, device)| limit(device.memory_meant, device.sm_meant))
        .text("LIMIT", |(_, device)| limit(device.memory_limit, device.sm_limit))
        .text("USED", |(_, device)| used(device))
        .text("MEMORY", |(_, device)| word(&device.memory))
        .text("SM", |(_, device)| word(&device.sm))
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
        (Some(key), _) => names::list(&gpus::key_names(std::slice::from_ref(key), &[], inventory)),
        (None, Some(uuid)) => match inventory.iter().find(|gpu| gpu.uuid.as_ref() == Some(uuid)) {
            Some(known) => gpus::name(&known.key, inventory),
            None => sanitize::short(uuid, 12, "…"),
        },
        (None, None) => format!("device {}", device.device),
    }
}

/// `2.0GiB 30%`: limits of memory and SM.
fn limit(memory: Option<u64>, sm: Option<u64>) -> String {
    let (Some(memory), Some(sm)) = (memory, sm) else { return "?".to_owned() };
    let memory = (memory > 0).then(|| short(bytes(memory)));
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
fn notes(out: &mut dyn Write, style: Style, processes: &[&Process]) -> io::Result<()> {
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
    notes.iter().try_for_each(|(text, pids)| wrap::note_about(out, style, pids, text))
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
    notes
        .extend(limits.last_launch.as_ref().map(|at| format!("last launch {}", sanitize::text(at.as_str()))));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that no counter below zero is shown as memory.
    #[test]
    fn below_zero() {
        assert_eq!(counted(2 << 30), "2.0 GiB");
        assert_eq!(counted(0_u64.wrapping_sub(1_843_956)), "-1.8 MiB (below zero)");
        assert_eq!(counted(1 << 60), "? (more than any GPU has)");
    }
}
