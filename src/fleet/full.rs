//! Makes the compact form of a full answer of `node`, so that everything behind reads
//! one form.

use std::collections::BTreeMap;

use super::compact_form::{Columns, Compact, Gpu};
use super::document::Answer;
use super::limits::{CELLS, Refusal};
use super::owners::{self, OwnerSets, Set};
use super::shapes;
use super::text::{DEVICES, Device, Mask, Pairs, Short, Str};

/// The compact form of an answer with these owners.
pub(super) fn compact<'a>(answer: &Answer<'a>, owners: &[OwnerSets]) -> Result<Compact<'a>, Refusal> {
    let gpus = answer.gpus.clone().unwrap_or_default();
    let mut devices = Devices::of(&gpus.0);
    let mut columns = Columns::default();
    for row in owners {
        devices.add(&mut columns, row);
        if devices.at.len().saturating_mul(columns.owner.0.len()) > CELLS {
            return Err(Refusal::why("it has more GPUs and owners than any node"));
        }
    }
    let programs = shapes::of_answer(answer).into_iter().map(|(kind, shapes)| {
        let shapes = shapes.into_iter().map(Str::from).collect();
        (Str::from(kind), Short(shapes))
    });
    Ok(Compact {
        gpus,
        instances: Short(devices.instances),
        owners: columns,
        programs: Pairs(programs.collect()),
        lacks_files: true,
        ..Compact::default()
    })
}

/// The positions of devices in masks: GPUs, then the instances that sets name.
struct Devices {
    at: BTreeMap<Device, usize>,
    instances: Vec<Device>,
}

impl Devices {
    fn of(gpus: &[Gpu<'_>]) -> Self {
        let at = gpus.iter().enumerate().map(|(at, gpu)| (Device::of(&gpu.key), at)).collect();
        let mut all = Self { at, instances: Vec::new() };
        for gpu in gpus {
            for instance in gpu.mig.0.iter().filter_map(|one| Some((one.gi, one.ci?))) {
                // One too many is refused with the sets.
                let _position = all.position(Device { instance: Some(instance), ..Device::of(&gpu.key) });
            }
        }
        all
    }

    /// `None` for what is neither a GPU of the node nor an instance on one.
    fn position(&mut self, device: Device) -> Option<usize> {
        if let Some(at) = self.at.get(&device) {
            return Some(*at);
        }
        let gpu = Device { instance: None, ..device };
        let next = self.at.len();
        if device.instance.is_none() || !self.at.contains_key(&gpu) || next >= DEVICES {
            return None;
        }
        self.instances.push(device);
        self.at.insert(device, next);
        Some(next)
    }

    /// In ascending order; `None` if one of them is none of the node's.
    fn positions<'d>(&mut self, devices: impl IntoIterator<Item = &'d Device>) -> Option<Vec<usize>> {
        let found: Option<Vec<usize>> = devices.into_iter().map(|device| self.position(*device)).collect();
        found.map(|mut found| {
            found.sort_unstable();
            found.dedup();
            found
        })
    }

    /// The text of a set's mask; `None` if the set is not known, or names devices that the
    /// node does not have.
    fn mask(&mut self, set: &Set) -> Option<Str<'static>> {
        let certain = self.positions(set.gpus.as_ref()?.0.iter().chain(&set.instances.0))?;
        let maybe = self.positions(&set.unknown.0)?;
        let claimed = set.source.as_ref().is_some_and(|source| !source.is_trusted());
        Some(Mask { claimed, certain, maybe }.text().into())
    }

    fn add(&mut self, columns: &mut Columns<'_>, row: &OwnerSets) {
        columns.owner.0.push(owners::label(&row.owner, row.depth).into());
        columns.depth.0.push(u8::try_from(row.depth).unwrap_or(u8::MAX));
        columns.processes.0.push(row.processes);
        columns.allocated.0.push(self.mask(&row.allocated));
        columns.allowed.0.push(self.mask(&row.allowed));
        columns.asked.0.push(self.mask(&row.visible));
        columns.held.0.push(self.mask(&row.held));
        let mut denied: Vec<usize> =
            row.held_denied.0.iter().filter_map(|device| self.at.get(device).copied()).collect();
        denied.sort_unstable();
        denied.dedup();
        let denied = Some(denied).filter(|denied| !denied.is_empty());
        let mask = |certain| Mask { certain, ..Mask::default() }.text().into();
        columns.denied.0.push(denied.map(mask));
    }
}
