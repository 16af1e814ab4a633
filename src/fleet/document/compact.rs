//! The compact form of a node.

use serde::Deserialize;

use super::super::text::{Pairs, Short, Str};
use super::gpu::Gpu;
use super::limits::{GPUS, KINDS, OWNERS, SET};
use crate::report::{self, CompactNode};

#[derive(Debug, Default, Deserialize)]
pub(in crate::fleet) struct Compact<'a> {
    #[serde(borrow)]
    pub(in crate::fleet) gpus: Short<Gpu<'a>, GPUS>,
    #[serde(default)]
    pub(in crate::fleet) instances: Short<Str<'a>, SET>,
    pub(in crate::fleet) owners: Columns<'a>,
    #[serde(default)]
    pub(in crate::fleet) drivers: Pairs<Str<'a>, Str<'a>, KINDS>,
    pub(in crate::fleet) gres_conf: Option<Str<'a>>,
    #[serde(default)]
    pub(in crate::fleet) programs: Pairs<Str<'a>, Short<Str<'a>, KINDS>, KINDS>,
    #[serde(default)]
    pub(in crate::fleet) problems: Pairs<Str<'a>, usize, KINDS>,
}

/// One set of all owners.
pub(in crate::fleet) type MaskColumn<'a> = Short<Option<Str<'a>>, OWNERS>;

/// Its owners: entry N of all columns is one owner. A page alone needs the columns that
/// may be missing.
#[derive(Debug, Default, Deserialize)]
pub(in crate::fleet) struct Columns<'a> {
    #[serde(borrow)]
    pub(in crate::fleet) owner: Short<Str<'a>, OWNERS>,
    pub(in crate::fleet) depth: Short<u8, OWNERS>,
    #[serde(default)]
    pub(in crate::fleet) processes: Short<usize, OWNERS>,
    pub(in crate::fleet) allocated: MaskColumn<'a>,
    pub(in crate::fleet) allowed: MaskColumn<'a>,
    #[serde(default)]
    pub(in crate::fleet) asked: MaskColumn<'a>,
    #[serde(default)]
    pub(in crate::fleet) held: MaskColumn<'a>,
    #[serde(default)]
    pub(in crate::fleet) denied: MaskColumn<'a>,
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
        };
        let owners = &node.owners;
        let drivers = node.drivers.iter().map(|(name, text)| (name.as_str().into(), text.as_str().into()));
        let programs = node.programs.iter().map(|(kind, all)| (kind.as_str().into(), texts(all)));
        let problems = node.problems.iter().map(|(code, count)| (code.as_str().into(), *count));
        Self {
            gpus: Short(node.gpus.iter().map(gpu).collect()),
            instances: texts(&node.instances),
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
        }
    }
}

fn texts<const N: usize>(all: &[String]) -> Short<Str<'_>, N> {
    Short(all.iter().map(|text| text.as_str().into()).collect())
}

fn masks(all: &[Option<String>]) -> MaskColumn<'_> {
    Short(all.iter().map(|mask| mask.as_deref().map(Str::from)).collect())
}
