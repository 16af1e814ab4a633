//! The owners of a full document with their sets of devices.
//!
//! A report needs two sets of owners that no other one is around: [`Jobs`]. A page needs
//! all of all: [`EverySet`], which is read of the same bytes a second time, so that a
//! report costs no more than it needs.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::super::text::{Key, Short, Str};
use super::limits::{CELLS, OWNERS, SET};
use crate::model::{self, AllocationSource, JobIdSource, OwnerKind};

/// The owners of a node as `T`, those of them that are wanted.
#[derive(Debug)]
pub(in crate::fleet) struct Owners<T>(pub(in crate::fleet) Vec<T>);

/// What is read of an owner.
pub(in crate::fleet) trait OwnerRow {
    /// How many devices its sets have altogether.
    fn devices(&self) -> usize;

    /// Whether it is kept.
    fn is_wanted(&self) -> bool;
}

/// The owners that no other one is around, with the sets that a report needs.
pub(in crate::fleet) type Jobs<'a> = Owners<Sets<'a>>;

/// An owner with the sets that a report needs.
#[derive(Debug, Default)]
pub(in crate::fleet) struct Sets<'a> {
    pub(in crate::fleet) owner: Owner<'a>,
    depth: usize,
    pub(in crate::fleet) allocated: Set<Key>,
    pub(in crate::fleet) allowed: Set<Key>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::fleet) struct Owner<'a> {
    pub(in crate::fleet) kind: OwnerKind,
    pub(in crate::fleet) job_id: Option<u64>,
    pub(in crate::fleet) job_id_source: Option<JobIdSource>,
    #[serde(borrow)]
    pub(in crate::fleet) job: Option<Str<'a>>,
    pub(in crate::fleet) sluid: Option<Str<'a>>,
}

/// A set of GPUs as `GPU`, and of instances.
#[derive(Debug, Deserialize)]
#[serde(default, bound(deserialize = "GPU: Deserialize<'de>"))]
pub(in crate::fleet) struct Set<GPU> {
    pub(in crate::fleet) gpus: Option<Short<GPU, SET>>,
    pub(in crate::fleet) instances: Short<Device, SET>,
    pub(in crate::fleet) unknown: Short<GPU, SET>,
    pub(in crate::fleet) source: Option<AllocationSource>,
}

impl<GPU> Set<GPU> {
    fn devices(&self) -> usize {
        self.gpus.as_ref().map_or(0, |gpus| gpus.0.len()) + self.instances.0.len() + self.unknown.0.len()
    }
}

impl<GPU> Default for Set<GPU> {
    fn default() -> Self {
        Self { gpus: None, instances: Short::default(), unknown: Short::default(), source: None }
    }
}

/// All owners with all of their sets.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::fleet) struct EverySet {
    pub(in crate::fleet) owners: Owners<AllSets>,
}

/// An owner with all of its sets.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::fleet) struct AllSets {
    pub(in crate::fleet) owner: model::Owner,
    pub(in crate::fleet) depth: usize,
    pub(in crate::fleet) processes: usize,
    pub(in crate::fleet) allocated: Set<Device>,
    pub(in crate::fleet) allowed: Set<Device>,
    pub(in crate::fleet) visible: Set<Device>,
    pub(in crate::fleet) held: Set<Device>,
    pub(in crate::fleet) held_denied: Short<Device, SET>,
}

impl OwnerRow for Sets<'_> {
    fn devices(&self) -> usize {
        self.allocated.devices() + self.allowed.devices()
    }

    fn is_wanted(&self) -> bool {
        self.depth == 0
    }
}

impl OwnerRow for AllSets {
    fn devices(&self) -> usize {
        let sets = [&self.allocated, &self.allowed, &self.visible, &self.held];
        sets.into_iter().map(Set::devices).sum::<usize>() + self.held_denied.0.len()
    }

    fn is_wanted(&self) -> bool {
        true
    }
}

impl<T> Default for Owners<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// A GPU by its key, or an instance on it, `KEY/GI/CI`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::fleet) struct Device {
    pub(in crate::fleet) gpu: Key,
    pub(in crate::fleet) instance: Option<(u16, u16)>,
}

impl Device {
    /// The device with this key.
    pub(in crate::fleet) fn of(key: &str) -> Self {
        let mut parts = key.rsplitn(3, '/');
        let mut number = || parts.next().and_then(|text| text.parse().ok());
        let (ci, gi): (Option<u16>, Option<u16>) = (number(), number());
        match (parts.next(), gi.zip(ci)) {
            (Some(gpu), Some(instance)) => Self { gpu: Key::of(gpu), instance: Some(instance) },
            _ => Self { gpu: Key::of(key), instance: None },
        }
    }
}

impl<'de> Deserialize<'de> for Device {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Str::deserialize(deserializer).map(|key| Self::of(&key))
    }
}

impl<'de, T: OwnerRow + Deserialize<'de>> Deserialize<'de> for Owners<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T>(PhantomData<T>);
        impl<'de, T: OwnerRow + Deserialize<'de>> Visitor<'de> for List<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {OWNERS} owners")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let (mut wanted, mut count, mut devices) = (Vec::new(), 0, 0);
                while let Some(one) = list.next_element::<T>()? {
                    (count, devices) = (count + 1, devices + one.devices());
                    if count > OWNERS {
                        return Err(A::Error::custom(format_args!("a list of more than {OWNERS}")));
                    }
                    if devices > CELLS {
                        return Err(A::Error::custom("more devices in sets than any node has"));
                    }
                    if one.is_wanted() {
                        wanted.push(one);
                    }
                }
                Ok(wanted)
            }
        }
        deserializer.deserialize_seq(List(PhantomData)).map(Self)
    }
}

/// The names of an owner's parts.
#[derive(Clone, Copy, Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Name {
    Owner,
    Depth,
    Allocated,
    Allowed,
    #[serde(other)]
    Other,
}

/// Sets of an owner inside of another are passed over: its depth stands before them.
impl<'de: 'a, 'a> Deserialize<'de> for Sets<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Row;
        impl<'de> Visitor<'de> for Row {
            type Value = Sets<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an owner with its sets")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut row = Sets::default();
                let mut seen = [false; 4];
                while let Some(name) = map.next_key::<Name>()? {
                    if let Some(seen) = seen.get_mut(name as usize)
                        && std::mem::replace(seen, true)
                    {
                        return Err(A::Error::custom("a part of an owner stands there twice"));
                    }
                    match name {
                        Name::Owner => row.owner = map.next_value()?,
                        Name::Depth => row.depth = map.next_value()?,
                        Name::Allocated if row.depth == 0 => row.allocated = map.next_value()?,
                        Name::Allowed if row.depth == 0 => row.allowed = map.next_value()?,
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(row)
            }
        }
        deserializer.deserialize_map(Row)
    }
}
