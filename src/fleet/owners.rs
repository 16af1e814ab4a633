//! Reads the owners of a full answer with their sets of devices.
//!
//! A report needs two sets of the owners that no other one is around, a page all sets of
//! all. [`Owners`] reads both, and passes over the rest; a page reads the same bytes a
//! second time, so that a report costs no more than it needs.

use std::fmt;

use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::limits::{CELLS, OWNERS, SET};
use super::text::{Device, Short};
use crate::model::{AllocationSource, Owner};

/// All owners of a full answer with all of their sets, for a page.
pub(super) fn every_owner(bytes: &[u8]) -> Result<Vec<OwnerSets>, serde_json::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct All {
        owners: Owners<true>,
    }
    serde_json::from_slice::<All>(bytes).map(|all| all.owners.0)
}

/// The owners of a node: all, or those that no other one is around, with two sets.
#[derive(Debug, Default)]
pub(super) struct Owners<const ALL: bool>(pub(super) Vec<OwnerSets>);

/// An owner with its sets.
#[derive(Debug, Default)]
pub(super) struct OwnerSets {
    pub(super) owner: Owner,
    pub(super) depth: usize,
    pub(super) processes: usize,
    pub(super) allocated: Set,
    pub(super) allowed: Set,
    pub(super) visible: Set,
    pub(super) held: Set,
    pub(super) held_denied: Short<Device, SET>,
}

/// A set of GPUs and instances.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Set {
    pub(super) gpus: Option<Short<Device, SET>>,
    pub(super) instances: Short<Device, SET>,
    pub(super) unknown: Short<Device, SET>,
    pub(super) source: Option<AllocationSource>,
}

impl Set {
    fn devices(&self) -> usize {
        self.gpus.as_ref().map_or(0, |gpus| gpus.0.len()) + self.instances.0.len() + self.unknown.0.len()
    }
}

impl OwnerSets {
    /// How many devices its sets have altogether.
    fn devices(&self) -> usize {
        let sets = [&self.allocated, &self.allowed, &self.visible, &self.held];
        sets.into_iter().map(Set::devices).sum::<usize>() + self.held_denied.0.len()
    }
}

impl<'de, const ALL: bool> Deserialize<'de> for Owners<ALL> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(OwnerList::<ALL>).map(Self)
    }
}

struct OwnerList<const ALL: bool>;

impl<'de, const ALL: bool> Visitor<'de> for OwnerList<ALL> {
    type Value = Vec<OwnerSets>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {OWNERS} owners")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let (mut wanted, mut count, mut devices) = (Vec::new(), 0, 0);
        while let Some(Row::<ALL>(one)) = list.next_element()? {
            (count, devices) = (count + 1, devices + one.devices());
            if count > OWNERS {
                return Err(A::Error::custom(format_args!("a list of more than {OWNERS}")));
            }
            if devices > CELLS {
                return Err(A::Error::custom("more devices in sets than any node has"));
            }
            if ALL || one.depth == 0 {
                wanted.push(one);
            }
        }
        Ok(wanted)
    }
}

/// One owner of the list.
struct Row<const ALL: bool>(OwnerSets);

impl<'de, const ALL: bool> Deserialize<'de> for Row<ALL> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OwnerParts::<ALL>).map(Self)
    }
}

/// The names of an owner's parts.
#[derive(Clone, Copy, Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Name {
    Owner,
    Depth,
    Processes,
    Allocated,
    Allowed,
    Visible,
    Held,
    HeldDenied,
    #[serde(other)]
    Other,
}

struct OwnerParts<const ALL: bool>;

impl<'de, const ALL: bool> Visitor<'de> for OwnerParts<ALL> {
    type Value = OwnerSets;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an owner with its sets")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut row = OwnerSets::default();
        let mut seen = [false; Name::Other as usize];
        while let Some(name) = map.next_key::<Name>()? {
            if let Some(seen) = seen.get_mut(name as usize)
                && std::mem::replace(seen, true)
            {
                return Err(A::Error::custom("a part of an owner stands there twice"));
            }
            // Sets of an owner inside of another are passed over: its depth stands before
            // them.
            let is_wanted = ALL || row.depth == 0;
            match name {
                Name::Owner => row.owner = map.next_value()?,
                Name::Depth => row.depth = map.next_value()?,
                Name::Allocated if is_wanted => row.allocated = map.next_value()?,
                Name::Allowed if is_wanted => row.allowed = map.next_value()?,
                Name::Processes if ALL => row.processes = map.next_value()?,
                Name::Visible if ALL => row.visible = map.next_value()?,
                Name::Held if ALL => row.held = map.next_value()?,
                Name::HeldDenied if ALL => row.held_denied = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(row)
    }
}
