//! What the page of a fleet has of a document beyond the report. The document was read
//! once already, and refused if anything in it is longer than it may be; it is read a
//! second time for the page alone, so that a report costs what it did.

use serde::{Deserialize, Deserializer};

use super::super::text::{Key, Short, Str};
use crate::model::{AllocationSource, Owner, Severity};
use crate::report;

/// GPUs of a node.
const GPUS: usize = 1024;
/// GPUs and instances of a set.
const SET: usize = 16 * GPUS;
/// Owners of a node that are read; a node of 1,000 jobs has some 7,000.
const OWNERS: usize = 1 << 14;
/// Findings of a node.
const FINDINGS: usize = 1 << 14;

/// An answer of `node` or `audit`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Answer<'a> {
    #[serde(borrow)]
    pub(super) gpus: Option<Short<Gpu<'a>, GPUS>>,
    pub(super) owners: Option<Short<OwnerSets, OWNERS>>,
    pub(super) compact: Option<Compact<'a>>,
    pub(super) findings: Option<Short<Finding<'a>, FINDINGS>>,
}

/// A GPU, in a full or a compact document.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Gpu<'a> {
    #[serde(borrow)]
    pub(super) key: Str<'a>,
    pub(super) minor: Option<u32>,
    #[serde(alias = "nvml_index")]
    pub(super) nvml: Option<u32>,
}

/// An owner in a full document.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
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

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Set {
    pub(super) gpus: Option<Short<Device, SET>>,
    pub(super) instances: Short<Device, SET>,
    pub(super) unknown: Short<Device, SET>,
    pub(super) source: Option<AllocationSource>,
}

/// A GPU by its key, or an instance on it, `KEY/GI/CI`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Device {
    pub(super) gpu: Key,
    pub(super) instance: Option<(u16, u16)>,
}

impl Device {
    /// The device with this key.
    pub(super) fn of(key: &str) -> Self {
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

/// A compact document.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Compact<'a> {
    #[serde(borrow)]
    pub(super) gpus: Short<Gpu<'a>, GPUS>,
    pub(super) instances: Short<Str<'a>, SET>,
    pub(super) owners: Columns<'a>,
}

/// One set of all owners.
pub(super) type MaskColumn<'a> = Short<Option<Str<'a>>, OWNERS>;

/// Its owners: entry N of all columns is one owner.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Columns<'a> {
    #[serde(borrow)]
    pub(super) owner: Short<Str<'a>, OWNERS>,
    pub(super) depth: Short<u8, OWNERS>,
    pub(super) processes: Short<usize, OWNERS>,
    pub(super) allocated: MaskColumn<'a>,
    pub(super) allowed: MaskColumn<'a>,
    pub(super) asked: MaskColumn<'a>,
    pub(super) held: MaskColumn<'a>,
    pub(super) denied: MaskColumn<'a>,
}

/// A finding.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Finding<'a> {
    #[serde(borrow)]
    pub(super) id: Str<'a>,
    pub(super) severity: Severity,
    pub(super) summary: Str<'a>,
    pub(super) cgroup: Option<Str<'a>>,
    pub(super) advice: Str<'a>,
    pub(super) ignored: Option<Str<'a>>,
}

impl<'a> From<&'a report::Finding> for Finding<'a> {
    fn from(found: &'a report::Finding) -> Self {
        Self {
            id: Str::from(found.id.as_str()),
            severity: found.severity,
            summary: Str::from(found.summary.as_str()),
            cgroup: found.cgroup.as_deref().map(Str::from),
            advice: Str::from(found.advice.as_str()),
            ignored: found.ignored.as_deref().map(Str::from),
        }
    }
}

/// That of an observation, which gpumap makes itself.
impl<'a> From<&'a report::CompactNode> for Compact<'a> {
    fn from(node: &'a report::CompactNode) -> Self {
        let gpu = |gpu: &'a report::CompactGpu| Gpu {
            key: gpu.key.as_str().into(),
            minor: gpu.minor,
            nvml: gpu.nvml,
        };
        let owners = &node.owners;
        let texts = |all: &'a [String]| Short(all.iter().map(|text| text.as_str().into()).collect());
        let masks = |all: &'a [Option<String>]| {
            Short(all.iter().map(|mask| mask.as_deref().map(Str::from)).collect())
        };
        Self {
            gpus: Short(node.gpus.iter().map(gpu).collect()),
            instances: Short(node.instances.iter().map(|key| key.as_str().into()).collect()),
            owners: Columns {
                owner: texts(&owners.owner),
                depth: Short(owners.depth.clone()),
                processes: Short(owners.processes.clone()),
                allocated: masks(&owners.allocated),
                allowed: masks(&owners.allowed),
                asked: masks(&owners.asked),
                held: masks(&owners.held),
                denied: masks(&owners.denied),
            },
        }
    }
}
