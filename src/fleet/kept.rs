//! What is kept of a node for the page of a fleet, beyond what a report needs: its owners
//! with the four sets, in a few bytes each, and its findings one by one. Sets are the
//! texts of masks, of which a node has few different ones. All of it has a bound: a node
//! beyond it has a section that says so.

use std::collections::{BTreeMap, BTreeSet};

use super::compact_form::{Columns, Compact, Gpu, MaskColumn};
use super::document::{Answer, Finding};
use super::inventory::Tables;
use super::limits::{Word, Words};
use super::text::{Key, Mask, Str};
use crate::analyse;
use crate::model::{InOrder as _, Membership, Severity};
use crate::report::{self, FleetOwner, FleetOwners, FleetSet, GpuNumbers, MatrixCell};

/// A finding of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptFinding {
    /// As in [`crate::report::Finding`].
    pub(super) severity: Severity,
    pub(super) id: Word,
    pub(super) summary: Word,
    pub(super) cgroup: Option<Word>,
    pub(super) advice: Word,
    pub(super) accepted: Option<Word>,
}

/// A part of a document that is kept if there is room.
#[derive(Debug)]
pub(super) enum Kept<T> {
    /// Nobody wants it.
    Unwanted,
    /// There was no room for it.
    NoRoom,
    /// It is not what a page can show: a report does not read it.
    Unreadable,
    /// It is there.
    There(T),
}

impl Kept<KeptOwners> {
    /// How many owners there are.
    pub(super) fn count(&self) -> usize {
        if let Self::There(owners) = self { owners.len() } else { 0 }
    }
}

impl Kept<Vec<KeptFinding>> {
    /// How many findings there are.
    pub(super) fn count(&self) -> usize {
        if let Self::There(findings) = self { findings.len() } else { 0 }
    }
}

/// The owners of a node.
#[derive(Debug)]
pub(super) struct KeptOwners {
    /// By which numbers its devices are named.
    pub(super) numbers: GpuNumbers,
    /// Its GPUs, then its instances, in the order of the bits of masks.
    pub(super) devices: Vec<Named>,
    /// The owners; those inside of another follow it.
    pub(super) rows: Vec<Row>,
}

/// A GPU by its number, or an instance on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// The number of the GPU.
    pub(super) gpu: u32,
    /// The GPU instance and the compute instance.
    pub(super) instance: Option<(u16, u16)>,
}

/// An owner.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: Word,
    pub(super) depth: u8,
    pub(super) processes: u32,
    /// The texts of the masks; `None` where nothing is known.
    pub(super) allocated: Option<Word>,
    pub(super) allowed: Option<Word>,
    pub(super) asked: Option<Word>,
    pub(super) held: Option<Word>,
    pub(super) denied: Option<Word>,
}

impl KeptOwners {
    /// Those of a node.
    pub(super) fn of(tables: &mut Tables, node: &Compact<'_>) -> Self {
        let (numbers, mut devices) = named(&node.gpus.0);
        let places: BTreeMap<Key, usize> =
            node.gpus.0.iter().enumerate().map(|(at, gpu)| (Key::of(&gpu.key), at)).collect();
        for device in &node.instances.0 {
            let on = places.get(&device.gpu).and_then(|at| devices.get(*at));
            let gpu = on.map_or(u32::MAX, |on| on.gpu);
            devices.push(Named { gpu, instance: device.instance });
        }
        let rows = (0..node.owners.owner.0.len()).filter_map(|at| compact_row(tables, &node.owners, at));
        Self { numbers, devices, rows: rows.collect() }
    }

    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
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
        let granted = allocated.as_ref().map(|mask| Granted::of(mask, &self.devices));
        let cells: Vec<MatrixCell> = (0..self.devices.len())
            .map(|at| {
                let sets = [
                    granted.as_ref().map_or(Membership::Unknown, |granted| granted.cell(at, &self.devices)),
                    membership(allowed.as_ref(), at),
                    membership(asked.as_ref(), at),
                    membership(held.as_ref(), at),
                ];
                analyse::matrix_cell(sets, denied.has(at))
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

    /// `0-1,3`, and `0/1/0` for an instance.
    fn text(&self, positions: &[usize]) -> String {
        let found: Vec<Named> = positions.iter().filter_map(|at| self.devices.get(*at).copied()).collect();
        let parts = found.iter().filter_map(|device| {
            let (gi, ci) = device.instance?;
            Some(format!("{}/{gi}/{ci}", device.gpu))
        });
        let has_part: BTreeSet<u32> =
            found.iter().filter(|device| device.instance.is_some()).map(|device| device.gpu).collect();
        // The GPU below an instance is in the set, too.
        let whole =
            found.iter().filter(|device| device.instance.is_none() && !has_part.contains(&device.gpu));
        let whole = super::inventory::ranges(whole.map(|device| device.gpu).collect());
        let whole = Some(whole).filter(|text| !text.is_empty());
        whole.into_iter().chain(parts).collect::<Vec<_>>().join(",")
    }
}

/// What an owner was allocated.
struct Granted<'a> {
    mask: &'a Mask,
    /// GPUs that are in it as a whole.
    whole: BTreeSet<u32>,
    /// GPUs of which an instance is in it.
    parted: BTreeSet<u32>,
}

impl<'a> Granted<'a> {
    fn of(mask: &'a Mask, devices: &[Named]) -> Self {
        let named = mask.certain.iter().filter_map(|at| devices.get(*at));
        let (whole, parted): (Vec<&Named>, Vec<&Named>) = named.partition(|device| device.instance.is_none());
        let gpus = |devices: Vec<&Named>| devices.into_iter().map(|device| device.gpu).collect();
        Self { mask, whole: gpus(whole), parted: gpus(parted) }
    }

    /// Whether a device is allocated: of a GPU that was allocated as a whole nobody knows
    /// which instance is meant, and a claim says nothing against the rest.
    fn cell(&self, at: usize, devices: &[Named]) -> Membership {
        let is_whole = devices.get(at).is_some_and(|device| {
            device.instance.is_some()
                && self.whole.contains(&device.gpu)
                && !self.parted.contains(&device.gpu)
        });
        analyse::allocation_cell(membership(Some(self.mask), at), !self.mask.claimed, is_whole)
    }
}

fn membership(mask: Option<&Mask>, at: usize) -> Membership {
    match mask {
        None => Membership::Unknown,
        Some(mask) if mask.has(at) => Membership::Yes,
        Some(mask) if mask.may_have(at) => Membership::Unknown,
        Some(_) => Membership::No,
    }
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

/// GPUs by the first kind of number that all of them have, and each its own.
fn named(gpus: &[Gpu<'_>]) -> (GpuNumbers, Vec<Named>) {
    let all = |of: fn(&Gpu<'_>) -> Option<u32>| {
        let found: Option<Vec<u32>> = gpus.iter().map(of).collect();
        found.filter(|found| found.iter().collect::<BTreeSet<_>>().len() == found.len())
    };
    let (numbers, found) = match (all(|gpu| gpu.nvml), all(|gpu| gpu.minor)) {
        (Some(found), _) => (GpuNumbers::Nvml, found),
        (None, Some(found)) => (GpuNumbers::Minor, found),
        (None, None) => (GpuNumbers::Place, (0..).take(gpus.len()).collect()),
    };
    (numbers, found.into_iter().map(|gpu| Named { gpu, instance: None }).collect())
}

/// Owners of all nodes together: some 50 MiB. 10,000 nodes of 50 jobs with their steps
/// and tasks have more; the page has room for fewer.
const OWNERS: usize = 1 << 20;

/// Findings of all nodes together: some 30 MiB.
const FINDINGS: usize = 1 << 20;

/// How much may still be kept.
#[derive(Debug)]
pub(super) struct Room {
    owners: usize,
    findings: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { owners: OWNERS, findings: FINDINGS }
    }
}

impl Room {
    fn take<T>(room: &mut usize, count: usize, what: T) -> Kept<T> {
        match room.checked_sub(count) {
            Some(rest) => {
                *room = rest;
                Kept::There(what)
            }
            None => Kept::NoRoom,
        }
    }

    /// Owners that a newer answer of their node replaced.
    pub(super) fn give_back_owners(&mut self, count: usize) {
        self.owners += count;
    }

    /// Findings, likewise.
    pub(super) fn give_back_findings(&mut self, count: usize) {
        self.findings += count;
    }

    /// The owners of a node. `room` is `None` if no page is asked for.
    pub(super) fn owners_of(
        room: &mut Option<Self>,
        tables: &mut Tables,
        node: &Compact<'_>,
    ) -> Kept<KeptOwners> {
        let Some(room) = room else { return Kept::Unwanted };
        let owners = KeptOwners::of(tables, node);
        Self::take(&mut room.owners, owners.len(), owners)
    }

    /// The findings in an answer of `audit`.
    pub(super) fn findings_of_answer(
        room: &mut Option<Self>,
        tables: &mut Tables,
        answer: &Answer<'_>,
    ) -> Kept<Vec<KeptFinding>> {
        let Some(room) = room else { return Kept::Unwanted };
        room.findings(tables, answer.findings.as_ref().map(|list| list.0.as_slice()).unwrap_or_default())
    }

    /// The findings of an observation.
    pub(super) fn findings_of(
        room: &mut Option<Self>,
        tables: &mut Tables,
        found: &[report::Finding],
    ) -> Kept<Vec<KeptFinding>> {
        let Some(room) = room else { return Kept::Unwanted };
        let found: Vec<Finding<'_>> = found.iter().map(Finding::from).collect();
        room.findings(tables, &found)
    }

    fn findings(&mut self, tables: &mut Tables, found: &[Finding<'_>]) -> Kept<Vec<KeptFinding>> {
        let mut word = |text: &str| tables.words.number(text);
        let mut kept: Vec<KeptFinding> = found
            .iter()
            .map(|one| KeptFinding {
                severity: one.severity,
                id: word(&one.id),
                summary: word(&one.summary),
                cgroup: one.cgroup.as_ref().map(|path| word(path)),
                advice: word(&one.advice),
                accepted: one.ignored.as_ref().map(|why| word(why)),
            })
            .collect();
        kept.order_by_key(|one| (one.accepted.is_some(), std::cmp::Reverse(one.severity)));
        Self::take(&mut self.findings, kept.len(), kept)
    }
}
