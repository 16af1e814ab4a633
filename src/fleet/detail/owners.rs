//! Reads the owners of a node from a document.

use std::collections::BTreeMap;

use super::super::document::{AllSets, Columns, Compact, Device, Gpu, MaskColumn, Set};
use super::super::kept::{KeptOwners, Named, Row};
use super::super::mask::{DEVICES, Mask};
use super::super::owner;
use super::super::tables::Tables;
use super::super::text::{Key, Str};
use crate::report::GpuNumbers;

/// Those of a compact document.
pub(super) fn of_compact(tables: &mut Tables, node: &Compact<'_>) -> KeptOwners {
    let (numbers, mut devices) = named(&node.gpus.0);
    let places: BTreeMap<Key, usize> =
        node.gpus.0.iter().enumerate().map(|(at, gpu)| (Key::of(&gpu.key), at)).collect();
    for key in &node.instances.0 {
        let device = Device::of(key);
        let on = places.get(&device.gpu).and_then(|at| devices.get(*at));
        let gpu = on.map_or(u32::MAX, |on| on.gpu);
        devices.push(Named { gpu, instance: device.instance });
    }
    let rows = (0..node.owners.owner.0.len()).filter_map(|at| compact_row(tables, &node.owners, at));
    KeptOwners { numbers, devices, rows: rows.collect() }
}

/// The owner of one entry of the columns.
fn compact_row(tables: &mut Tables, owners: &Columns<'_>, at: usize) -> Option<Row> {
    let mut word = |text: &Str<'_>| tables.words.number(text);
    let name = word(owners.owner.0.get(at)?);
    let mut mask = |column: &MaskColumn<'_>| column.0.get(at)?.as_ref().map(&mut word);
    Some(Row {
        name,
        depth: owners.depth.0.get(at).copied().unwrap_or_default(),
        processes: owners.processes.0.get(at).map_or(0, |count| u32::try_from(*count).unwrap_or(u32::MAX)),
        allocated: mask(&owners.allocated),
        allowed: mask(&owners.allowed),
        asked: mask(&owners.asked),
        held: mask(&owners.held),
        denied: mask(&owners.denied),
    })
}

/// Those of a full document.
pub(super) fn of_answer(tables: &mut Tables, gpus: &[Gpu<'_>], owners: &[AllSets]) -> KeptOwners {
    let (numbers, mut devices) = named(gpus);
    let mut at: BTreeMap<Device, usize> =
        gpus.iter().enumerate().map(|(at, gpu)| (Device::of(&gpu.key), at)).collect();
    for instance in owners.iter().flat_map(|row| {
        [&row.allocated, &row.allowed, &row.visible, &row.held].into_iter().flat_map(|set| &set.instances.0)
    }) {
        let gpu = Device { instance: None, ..*instance };
        let on = at.get(&gpu).and_then(|at| devices.get(*at)).map(|on| on.gpu);
        if let (Some(gpu), false) = (on, at.contains_key(instance) || devices.len() >= DEVICES) {
            at.insert(*instance, devices.len());
            devices.push(Named { gpu, instance: instance.instance });
        }
    }
    let positions = |all: &[Device]| {
        let mut found: Vec<usize> = all.iter().filter_map(|device| at.get(device).copied()).collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    let mask = |set: &Set<Device>| {
        let mut certain = set.gpus.as_ref()?.0.clone();
        certain.extend(&set.instances.0);
        let claimed = set.source.as_ref().is_some_and(|source| !source.is_trusted());
        Some(Mask { claimed, certain: positions(&certain), maybe: positions(&set.unknown.0) }.text())
    };
    let mut word = |text: &str| tables.words.number(text);
    let rows = owners.iter().map(|row| {
        let denied = Mask { certain: positions(&row.held_denied.0), ..Mask::default() };
        Row {
            name: word(&owner::label(&row.owner, row.depth)),
            depth: u8::try_from(row.depth).unwrap_or(u8::MAX),
            processes: u32::try_from(row.processes).unwrap_or(u32::MAX),
            allocated: mask(&row.allocated).map(|text| word(&text)),
            allowed: mask(&row.allowed).map(|text| word(&text)),
            asked: mask(&row.visible).map(|text| word(&text)),
            held: mask(&row.held).map(|text| word(&text)),
            denied: Some(denied).filter(|mask| !mask.certain.is_empty()).map(|mask| word(&mask.text())),
        }
    });
    KeptOwners { numbers, devices, rows: rows.collect() }
}

/// GPUs by the first kind of number that all of them have, and each its own.
fn named(gpus: &[Gpu<'_>]) -> (GpuNumbers, Vec<Named>) {
    let all = |of: fn(&Gpu<'_>) -> Option<u32>| {
        let found: Option<Vec<u32>> = gpus.iter().map(of).collect();
        found.filter(|found| found.iter().collect::<std::collections::BTreeSet<_>>().len() == found.len())
    };
    let (numbers, found) = match (all(|gpu| gpu.nvml), all(|gpu| gpu.minor)) {
        (Some(found), _) => (GpuNumbers::Nvml, found),
        (None, Some(found)) => (GpuNumbers::Minor, found),
        (None, None) => (GpuNumbers::Place, (0..).take(gpus.len()).collect()),
    };
    (numbers, found.into_iter().map(|gpu| Named { gpu, instance: None }).collect())
}
