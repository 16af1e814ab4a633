//! The owners of a node with the four sets, in a few bytes each: sets are the texts of
//! masks, of which a node has few different ones.

use std::collections::BTreeMap;

use super::super::mask::{DEVICES, Mask};
use super::super::owner;
use super::super::tables::Tables;
use super::super::text::Str;
use super::super::words::{Word, Words};
use super::document::{Answer, Columns, Compact, Device, Gpu, MaskColumn, Set};
use crate::analyse;
use crate::model::Membership;
use crate::report::{FleetOwner, FleetOwners, FleetSet, GpuNumbers, MatrixCell};

/// The owners of a node.
#[derive(Debug)]
pub(in super::super) struct KeptOwners {
    numbers: GpuNumbers,
    /// The node's GPUs, then its instances, in the order of the bits of masks.
    devices: Vec<Named>,
    rows: Vec<Row>,
}

/// A GPU by its number, or an instance on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    gpu: u32,
    instance: Option<(u16, u16)>,
}

#[derive(Debug)]
struct Row {
    name: Word,
    depth: u8,
    processes: u32,
    /// The texts of the masks; `None` where nothing is known.
    allocated: Option<Word>,
    allowed: Option<Word>,
    asked: Option<Word>,
    held: Option<Word>,
    denied: Option<Word>,
}

/// Those of a compact document.
pub(super) fn of_compact(tables: &mut Tables, node: &Compact<'_>) -> KeptOwners {
    let (numbers, mut devices) = named(&node.gpus.0);
    let keys: Vec<Device> = node.gpus.0.iter().map(|gpu| Device::of(&gpu.key)).collect();
    for key in &node.instances.0 {
        let device = Device::of(key);
        let on = keys.iter().position(|gpu| gpu.gpu == device.gpu).and_then(|at| devices.get(at));
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
pub(super) fn of_answer(tables: &mut Tables, answer: &Answer<'_>) -> KeptOwners {
    let gpus = answer.gpus.as_ref().map(|gpus| gpus.0.as_slice()).unwrap_or_default();
    let owners = answer.owners.as_ref().map(|owners| owners.0.as_slice()).unwrap_or_default();
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
    let mask = |set: &Set| {
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

impl KeptOwners {
    /// How many rows there are.
    pub(in super::super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// How many of them are inside of others.
    pub(super) fn inner(&self) -> usize {
        self.rows.iter().filter(|row| row.depth > 0).count()
    }

    /// In words, with what is inside of others or without.
    pub(super) fn told(&self, words: &Words, with_inner: bool) -> FleetOwners {
        let rows = self.rows.iter().filter(|row| with_inner || row.depth == 0);
        FleetOwners { numbers: self.numbers, rows: rows.map(|row| self.row(words, row)).collect() }
    }

    fn row(&self, words: &Words, row: &Row) -> FleetOwner {
        // What is no mask, or was too long to be kept, says nothing.
        let mask = |word: Option<Word>| word.and_then(|word| Mask::read(words.get(word)));
        let [allocated, allowed, asked, held] = [row.allocated, row.allowed, row.asked, row.held].map(mask);
        let denied = mask(row.denied).unwrap_or_default();
        let cells: Vec<MatrixCell> = (0..self.devices.len())
            .map(|at| {
                let sets = [
                    self.allocation(allocated.as_ref(), at),
                    membership(allowed.as_ref(), at),
                    membership(asked.as_ref(), at),
                    membership(held.as_ref(), at),
                ];
                analyse::matrix_cell(sets, denied.certain.contains(&at))
            })
            .collect();
        let mut contradictions: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (at, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.state.is_contradiction()) {
            contradictions.entry(cell.state).or_default().push(at);
        }
        let set = |mask: Option<Mask>| match mask {
            Some(mask) => FleetSet {
                gpus: Some(self.text(&mask.certain)),
                maybe: self.text(&mask.maybe),
                claimed: mask.claimed,
            },
            None => FleetSet::default(),
        };
        FleetOwner {
            name: words.get(row.name).to_owned(),
            depth: row.depth,
            processes: usize::try_from(row.processes).unwrap_or(usize::MAX),
            allocated: set(allocated),
            allowed: set(allowed),
            asked: set(asked),
            held: set(held),
            contradictions: contradictions
                .into_iter()
                .map(|(state, places)| (state, self.text(&places)))
                .collect(),
        }
    }

    /// Whether a device is allocated: of a GPU that was allocated as a whole nobody knows
    /// which instance is meant, and a claim says nothing against the rest.
    fn allocation(&self, mask: Option<&Mask>, at: usize) -> Membership {
        let Some(mask) = mask else { return Membership::Unknown };
        let device = self.devices.get(at);
        let is_on = |other: &usize, whole: bool| {
            let other = self.devices.get(*other);
            other.zip(device).is_some_and(|(a, b)| a.gpu == b.gpu && a.instance.is_none() == whole)
        };
        let is_whole = device.is_some_and(|device| device.instance.is_some())
            && mask.certain.iter().any(|other| is_on(other, true))
            && !mask.certain.iter().any(|other| is_on(other, false));
        analyse::allocation_cell(membership(Some(mask), at), !mask.claimed, is_whole)
    }

    /// `0-1,3`, and `0/1/0` for an instance.
    fn text(&self, positions: &[usize]) -> String {
        let found: Vec<Named> = positions.iter().filter_map(|at| self.devices.get(*at).copied()).collect();
        let parts = found.iter().filter_map(|device| {
            let (gi, ci) = device.instance?;
            Some(format!("{}/{gi}/{ci}", device.gpu))
        });
        let has_part = |gpu: u32| found.iter().any(|device| device.gpu == gpu && device.instance.is_some());
        // The GPU below an instance is in the set, too.
        let whole = found.iter().filter(|device| device.instance.is_none() && !has_part(device.gpu));
        let whole = super::super::inventory::ranges(whole.map(|device| device.gpu).collect());
        let whole = Some(whole).filter(|text| !text.is_empty());
        whole.into_iter().chain(parts).collect::<Vec<_>>().join(",")
    }
}

fn membership(mask: Option<&Mask>, at: usize) -> Membership {
    match mask {
        None => Membership::Unknown,
        Some(mask) if mask.certain.contains(&at) => Membership::Yes,
        Some(mask) if mask.maybe.contains(&at) => Membership::Unknown,
        Some(_) => Membership::No,
    }
}
