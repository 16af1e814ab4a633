//! The compact form of a node, which `fleet` turns every document into and all that is
//! behind reads.

use serde::Deserialize;

use super::limits::{GPUS, KINDS, OWNERS, SET};
use super::text::{Device, Pairs, Short, Str};
use crate::report::{self, CompactNode};

/// A node: as a compact document has it, or made of a full answer ([`super::full`]) or of an
/// observation.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Compact<'a> {
    #[serde(borrow)]
    pub(super) gpus: Short<Gpu<'a>, GPUS>,
    #[serde(default)]
    pub(super) instances: Short<Device, SET>,
    pub(super) owners: Columns<'a>,
    #[serde(default)]
    pub(super) drivers: Pairs<Str<'a>, Str<'a>, KINDS>,
    pub(super) gres_conf: Option<Str<'a>>,
    #[serde(default)]
    pub(super) programs: Pairs<Str<'a>, Short<Str<'a>, KINDS>, KINDS>,
    #[serde(default)]
    pub(super) problems: Pairs<Str<'a>, usize, KINDS>,
    /// Whether nothing is known of drivers and `gres.conf`, as in a full answer.
    #[serde(skip)]
    pub(super) lacks_files: bool,
}

/// One set of all owners.
pub(super) type MaskColumn<'a> = Short<Option<Str<'a>>, OWNERS>;

/// Its owners: entry N of all columns is one owner. A page alone needs the columns that
/// may be missing.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Columns<'a> {
    #[serde(borrow)]
    pub(super) owner: Short<Str<'a>, OWNERS>,
    pub(super) depth: Short<u8, OWNERS>,
    #[serde(default)]
    pub(super) processes: Short<usize, OWNERS>,
    pub(super) allocated: MaskColumn<'a>,
    pub(super) allowed: MaskColumn<'a>,
    #[serde(default)]
    pub(super) asked: MaskColumn<'a>,
    #[serde(default)]
    pub(super) held: MaskColumn<'a>,
    #[serde(default)]
    pub(super) denied: MaskColumn<'a>,
}

/// That of an observation, which gpumap makes itself.
impl<'a> From<&'a CompactNode> for Compact<'a> {
    fn from(node: &'a CompactNode) -> Self {
        let gpu = |gpu: &'a report::CompactGpu| Gpu {
            key: gpu.key.as_str().into(),
            vendor: Str::default(),
            model: Some(gpu.model.as_str().into()),
            minor: gpu.minor,
            nvml: gpu.nvml,
            mig: Short::default(),
        };
        let owners = &node.owners;
        let drivers = node.drivers.iter().map(|(name, text)| (name.as_str().into(), text.as_str().into()));
        let programs = node.programs.iter().map(|(kind, all)| (kind.as_str().into(), texts(all)));
        let problems = node.problems.iter().map(|(code, count)| (code.as_str().into(), *count));
        Self {
            gpus: Short(node.gpus.iter().map(gpu).collect()),
            instances: Short(node.instances.iter().map(|key| Device::of(key)).collect()),
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
            drivers: Pairs(drivers.collect()),
            gres_conf: node.gres_conf.as_deref().map(Str::from),
            programs: Pairs(programs.collect()),
            problems: Pairs(problems.collect()),
            lacks_files: false,
        }
    }
}

fn texts<const N: usize>(all: &[String]) -> Short<Str<'_>, N> {
    Short(all.iter().map(|text| text.as_str().into()).collect())
}

fn masks(all: &[Option<String>]) -> MaskColumn<'_> {
    Short(all.iter().map(|mask| mask.as_deref().map(Str::from)).collect())
}

/// A GPU, in a full or a compact document.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Gpu<'a> {
    #[serde(borrow)]
    pub(super) key: Str<'a>,
    pub(super) vendor: Str<'a>,
    pub(super) model: Option<Str<'a>>,
    pub(super) minor: Option<u32>,
    #[serde(alias = "nvml_index")]
    pub(super) nvml: Option<u32>,
    /// Its instances, in a full document.
    pub(super) mig: Short<Instance, SET>,
}

/// A MIG instance.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Instance {
    pub(super) gi: u16,
    pub(super) ci: Option<u16>,
}
