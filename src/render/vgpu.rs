//! A shared region of libvgpu.so: its limits, then its processes.

use std::io::{self, Write};

use bytesize::ByteSize;

use super::vgpu_bytes;

use super::table::{self, Last};
use super::{Style, sanitize};
use crate::report::{Payload, Region, RegionDevice, RegionProcess};

/// Prints the region of the answer.
pub fn write(out: &mut dyn Write, style: Style, payload: &Payload) -> io::Result<()> {
    let Some(region) = &payload.region else { return Ok(()) };
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
    table::write(
        out,
        style,
        &["DEVICE", "MEMORY LIMIT", "SM LIMIT", "UUID"],
        &[],
        devices(region),
        Last::Runs,
    )?;
    let (counted, left): (Vec<_>, Vec<_>) = processes.iter().partition(|process| process.in_range);
    writeln!(out, "\nProcesses: {}", counted.len())?;
    write_processes(out, style, &counted)?;
    if !left.is_empty() {
        writeln!(out, "\nEntries that the library no longer counts: {}", left.len())?;
        write_processes(out, style, &left)?;
    }
    Ok(())
}

fn devices(region: &Region) -> Vec<Vec<String>> {
    let uuids = region.uuids.iter().flatten();
    let limits = region.limit.iter().flatten().zip(region.sm_limit.iter().flatten());
    let rows = uuids.zip(limits).enumerate().filter(|(index, (uuid, _))| {
        let counted = u64::try_from(*index).is_ok_and(|index| Some(index) < region.device_num);
        counted || !uuid.is_empty() || (region.device_num == Some(0) && *index == 0)
    });
    rows.map(|(index, (uuid, (memory, sm)))| {
        let memory = if *memory == 0 { "none".to_owned() } else { ByteSize(*memory).to_string() };
        let sm = if (1..100).contains(sm) { format!("{sm} %") } else { "none".to_owned() };
        let uuid = if uuid.is_empty() { "not known yet".into() } else { sanitize::text(uuid) };
        vec![index.to_string(), memory, sm, uuid.into_owned()]
    })
    .collect()
}

fn write_processes(out: &mut dyn Write, style: Style, processes: &[&RegionProcess]) -> io::Result<()> {
    let header = ["ENTRY", "PID INSIDE", "PID ON NODE", "STATUS", "DEVICE", "MEMORY", "SM"];
    let rows = processes.iter().flat_map(|process| rows(process)).collect::<Vec<_>>();
    if rows.is_empty() {
        return Ok(());
    }
    table::write(out, style, &header, &header[..3], rows, Last::Runs)
}

/// A line for each device of a process.
fn rows(process: &RegionProcess) -> Vec<Vec<String>> {
    let none = [RegionDevice::default()];
    let devices = if process.devices.is_empty() { &none } else { process.devices.as_slice() };
    let line = |device: &RegionDevice| {
        let (number, memory, sm) = match process.devices.is_empty() {
            true => ("-".to_owned(), "-".to_owned(), "-".to_owned()),
            false => (device.device.to_string(), vgpu_bytes::counted(device.total), percent(device)),
        };
        let pids =
            [process.pid, process.hostpid].map(|pid| if pid == 0 { "-".to_owned() } else { pid.to_string() });
        let [inside, outside] = pids;
        vec![process.index.to_string(), inside, outside, status(process).to_owned(), number, memory, sm]
    };
    devices.iter().map(line).collect()
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
