//! The table of the node's GPUs, with a column for each of their numberings, so that
//! nobody takes one number for another.

use std::io::{self, Write};

use super::table::{self, Last};
use super::{Style, gpu_names, sanitize};
use crate::report::{Gpu, MigInstance, Payload};

/// Characters of a UUID where there is no room for all 40.
const UUID: usize = 13;
/// The least that a model's name has.
const MODEL: usize = 12;

/// What an empty list of GPUs says.
pub(super) fn none(payload: &Payload) -> &'static str {
    match payload.gpus_unread {
        false => "This node has no GPU",
        true => "No GPU was seen, and whether this node has one is not known",
    }
}

/// Prints a heading and one row per GPU, its MIG instances below it.
pub(super) fn write(out: &mut dyn Write, style: Style, title: &str, list: &[&Gpu]) -> io::Result<()> {
    let models: Vec<_> = list.iter().map(|gpu| model(gpu)).collect();
    let same = models.first().filter(|first| models.iter().all(|model| model == *first));
    match same {
        Some(model) => writeln!(out, "{title}: {}", sanitize::short(model, 60, "…"))?,
        None => writeln!(out, "{title}")?,
    }
    if list.is_empty() {
        return Ok(());
    }
    let mut columns = columns(list, usize::MAX);
    if !style.all && table::width(&columns) > usize::from(style.width) {
        columns = self::columns(list, UUID);
    }
    if same.is_none() {
        let room = usize::from(style.width).saturating_sub(table::width(&columns) + 2);
        let room = if style.all { usize::MAX } else { room.max(MODEL) };
        let short = |gpu: &Gpu| sanitize::short(&model(gpu), room, "…");
        columns.push(("MODEL", column(list, short, |_, _| String::new())));
    }
    let header: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let count = columns.first().map_or(0, |(_, cells)| cells.len());
    let cell = |row: usize| columns.iter().map(move |(_, cells)| cells.get(row).cloned().unwrap_or_default());
    let rows = (0..count).map(|row| cell(row).collect()).collect();
    table::write(out, style, &header, &["NVML", "SLURM", "NUMA"], rows, Last::Runs)
}

/// The columns that say something.
fn columns(list: &[&Gpu], uuid: usize) -> Vec<(&'static str, Vec<String>)> {
    let number = |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let mut columns = vec![
        (
            "NODE",
            column(
                list,
                |gpu| gpu_names::name(&gpu.key, list_of(gpu)),
                |gpu, mig| format!("  {}/{}", gpu_names::name(&gpu.key, list_of(gpu)), instance(mig)),
            ),
        ),
        ("NUMBER", column(list, gate_number, |_, mig| gpu_names::capability(mig))),
        ("NVML", column(list, |gpu| number(gpu.nvml_index), |_, _| String::new())),
    ];
    if list.iter().any(|gpu| gpu.slurm_index.is_some()) {
        columns.push(("SLURM", column(list, |gpu| number(gpu.slurm_index), |_, _| String::new())));
    }
    let text =
        |text: Option<&str>, max| text.map_or_else(|| "-".to_owned(), |text| sanitize::short(text, max, "…"));
    columns.push(("PCI", column(list, |gpu| text(gpu.pci.as_deref(), 16), |_, _| String::new())));
    if list.iter().any(|gpu| gpu.numa_node.is_some()) {
        columns.push(("NUMA", column(list, |gpu| number(gpu.numa_node), |_, _| String::new())));
    }
    columns.push(("UUID", column(list, |gpu| text(gpu.uuid.as_deref(), uuid), |_, _| String::new())));
    columns
}

/// The model alone: that it is split is seen by its instances.
fn model(gpu: &Gpu) -> String {
    let model = gpu.model.clone().unwrap_or_else(|| gpu.vendor.to_string());
    if gpu.excluded { format!("{model} (excluded)") } else { model }
}

fn column(
    list: &[&Gpu],
    of_gpu: impl Fn(&Gpu) -> String,
    of_instance: impl Fn(&Gpu, &MigInstance) -> String,
) -> Vec<String> {
    let mut cells = Vec::new();
    for gpu in list {
        cells.push(of_gpu(gpu));
        cells.extend(gpu.mig.iter().map(|mig| of_instance(gpu, mig)));
    }
    cells
}

fn list_of(gpu: &Gpu) -> &[Gpu] {
    std::slice::from_ref(gpu)
}

fn gate_number(gpu: &Gpu) -> String {
    let number = gpu.major.zip(gpu.minor).map(|(major, minor)| format!("{major}:{minor}"));
    number.unwrap_or_else(|| "-".to_owned())
}

/// GPU instance and compute instance: `1/0`.
fn instance(mig: &MigInstance) -> String {
    mig.ci.map_or_else(|| mig.gi.to_string(), |ci| format!("{}/{ci}", mig.gi))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that what could not be read is not said to be none.
    #[test]
    fn no_gpus() {
        let of = |gpus_unread| none(&Payload { gpus_unread, ..Payload::default() });
        assert_eq!(of(false), "This node has no GPU");
        assert!(of(true).ends_with("is not known"));
    }
}
