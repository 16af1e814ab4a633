//! What is kept of a node for the page of a fleet, beyond what a report needs: its owners
//! with the four sets, in a few bytes each, and its findings one by one. Sets are the
//! texts of masks, of which a node has few different ones.

use std::collections::{BTreeMap, BTreeSet};

use super::mask::Mask;
use super::words::{Word, Words};
use crate::analyse;
use crate::model::{Membership, Severity};
use crate::report::{FleetOwner, FleetOwners, FleetSet, GpuNumbers, MatrixCell};

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
