//! What `fleet` reads of a document of `gpumap/1`: everything else is passed over
//! without being kept.

use std::collections::BTreeMap;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::text::{Key, Pairs, Short, Str};
use crate::model::{AllocationSource, JobIdSource, OwnerKind, Severity, Verdict};
use crate::report::{self, CompactNode};

/// GPUs of a node.
const GPUS: usize = 1024;
/// GPUs and instances of a set.
const SET: usize = 16 * GPUS;
/// Cgroups, programs and problems of a node.
const MANY: usize = 1 << 18;
/// Owners of a node.
const OWNERS: usize = 1 << 16;
/// Findings of a node: more than a node with a finding for each of 50 jobs and
/// 5000 cgroups.
const FINDINGS: usize = 1 << 14;
/// Drivers, kinds of owners, shapes of programs and codes of problems of a node.
const KINDS: usize = 256;

/// An answer of `node` or `audit`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Answer<'a> {
    #[serde(borrow)]
    pub(super) command: Str<'a>,
    pub(super) version: Str<'a>,
    pub(super) taken_at: Str<'a>,
    pub(super) host: Host<'a>,
    pub(super) complete: bool,
    pub(super) errors: Short<Problem<'a>, MANY>,
    pub(super) cgroups: Option<Short<Cgroup<'a>, MANY>>,
    pub(super) programs: Programs<'a>,
    pub(super) policies: Option<Policies<'a>>,
    pub(super) gpus: Option<Short<Gpu<'a>, GPUS>>,
    pub(super) owners: Option<Short<OwnerSets<'a>, OWNERS>>,
    pub(super) findings: Option<Short<Finding<'a>, FINDINGS>>,
    pub(super) audit: Option<Audit<'a>>,
    pub(super) compact: Option<Compact<'a>>,
    pub(super) fleet: Option<IgnoredAny>,
    pub(super) observation: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Host<'a> {
    #[serde(borrow)]
    pub(super) name: Str<'a>,
    pub(super) kernel: Str<'a>,
    pub(super) cgroup_mode: Str<'a>,
    pub(super) slurm_cluster: Option<Str<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Problem<'a> {
    #[serde(borrow)]
    pub(super) code: Str<'a>,
    pub(super) what: Str<'a>,
    pub(super) why: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Cgroup<'a> {
    #[serde(borrow)]
    pub(super) owner: Option<CgroupOwner<'a>>,
    pub(super) programs: Short<Effective, 1024>,
    pub(super) policy: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CgroupOwner<'a> {
    #[serde(borrow)]
    pub(super) kind: Str<'a>,
    pub(super) part: Option<IgnoredAny>,
    pub(super) job_id: Option<IgnoredAny>,
    pub(super) sluid: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Effective {
    pub(super) id: u32,
}

/// Programs by id.
#[derive(Debug, Default)]
pub(super) struct Programs<'a>(pub(super) BTreeMap<u32, Program<'a>>);

/// Policies by id.
#[derive(Debug, Default)]
pub(super) struct Policies<'a>(pub(super) BTreeMap<Str<'a>, Policy>);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Program<'a> {
    #[serde(borrow)]
    pub(super) writer: Option<Str<'a>>,
    pub(super) insns: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Policy {
    pub(super) default: Verdict,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Gpu<'a> {
    #[serde(borrow)]
    pub(super) key: Str<'a>,
    pub(super) vendor: Str<'a>,
    pub(super) model: Option<Str<'a>>,
    pub(super) minor: Option<u32>,
    pub(super) nvml_index: Option<u32>,
    pub(super) slurm_index: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OwnerSets<'a> {
    #[serde(borrow)]
    pub(super) owner: Owner<'a>,
    pub(super) depth: usize,
    pub(super) allocated: Set,
    pub(super) allowed: Set,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Owner<'a> {
    pub(super) kind: OwnerKind,
    pub(super) job_id: Option<u64>,
    pub(super) job_id_source: Option<JobIdSource>,
    #[serde(borrow)]
    pub(super) job: Option<Str<'a>>,
    pub(super) sluid: Option<Str<'a>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Set {
    pub(super) gpus: Option<Short<Key, SET>>,
    pub(super) instances: Short<Instance, SET>,
    pub(super) unknown: Short<Key, SET>,
    pub(super) source: Option<AllocationSource>,
}

/// A MIG instance of a set: the GPU that it is on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instance(pub(super) Key);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Finding<'a> {
    #[serde(borrow)]
    pub(super) id: Str<'a>,
    pub(super) severity: Severity,
    pub(super) fingerprint: Str<'a>,
    pub(super) summary: Str<'a>,
    pub(super) owner: Option<FindingOwner>,
    pub(super) ignored: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FindingOwner {
    pub(super) kind: OwnerKind,
}

/// The compact form of a node, of which the report needs the jobs alone.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Compact<'a> {
    #[serde(borrow)]
    pub(super) gpus: Short<CompactGpu<'a>, GPUS>,
    #[serde(default)]
    pub(super) instances: Short<Str<'a>, SET>,
    pub(super) owners: CompactOwners<'a>,
    #[serde(default)]
    pub(super) drivers: Pairs<Str<'a>, Str<'a>, KINDS>,
    pub(super) gres_conf: Option<Str<'a>>,
    #[serde(default)]
    pub(super) programs: Pairs<Str<'a>, Short<Str<'a>, KINDS>, KINDS>,
    #[serde(default)]
    pub(super) problems: Pairs<Str<'a>, usize, KINDS>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct CompactGpu<'a> {
    #[serde(borrow)]
    pub(super) key: Str<'a>,
    pub(super) model: Str<'a>,
    pub(super) minor: Option<u32>,
    pub(super) nvml: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct CompactOwners<'a> {
    #[serde(borrow)]
    pub(super) owner: Short<Str<'a>, OWNERS>,
    pub(super) depth: Short<u8, OWNERS>,
    pub(super) allocated: Short<Option<Str<'a>>, OWNERS>,
    pub(super) allowed: Short<Option<Str<'a>>, OWNERS>,
}

/// That of an observation, which gpumap makes itself.
impl<'a> From<&'a CompactNode> for Compact<'a> {
    fn from(node: &'a CompactNode) -> Self {
        let gpu = |gpu: &'a report::CompactGpu| CompactGpu {
            key: gpu.key.as_str().into(),
            model: gpu.model.as_str().into(),
            minor: gpu.minor,
            nvml: gpu.nvml,
        };
        let owners = &node.owners;
        let drivers = node.drivers.iter().map(|(name, text)| (name.as_str().into(), text.as_str().into()));
        let programs = node.programs.iter().map(|(kind, all)| (kind.as_str().into(), Short(texts(all))));
        let problems = node.problems.iter().map(|(code, count)| (code.as_str().into(), *count));
        Self {
            gpus: Short(node.gpus.iter().map(gpu).collect()),
            instances: Short(texts(&node.instances)),
            owners: CompactOwners {
                owner: Short(texts(&owners.owner)),
                depth: Short(owners.depth.clone()),
                allocated: Short(masks(&owners.allocated)),
                allowed: Short(masks(&owners.allowed)),
            },
            drivers: Pairs(drivers.collect()),
            gres_conf: node.gres_conf.as_deref().map(Str::from),
            programs: Pairs(programs.collect()),
            problems: Pairs(problems.collect()),
        }
    }
}

fn texts(all: &[String]) -> Vec<Str<'_>> {
    all.iter().map(|text| text.as_str().into()).collect()
}

fn masks(all: &[Option<String>]) -> Vec<Option<Str<'_>>> {
    all.iter().map(|mask| mask.as_deref().map(Str::from)).collect()
}

impl<'a> From<&'a report::Finding> for Finding<'a> {
    fn from(finding: &'a report::Finding) -> Self {
        Self {
            id: Str::from(finding.id.as_str()),
            severity: finding.severity,
            fingerprint: Str::from(finding.fingerprint.as_str()),
            summary: Str::from(finding.summary.as_str()),
            owner: finding.owner.as_ref().map(|owner| FindingOwner { kind: owner.kind.clone() }),
            ignored: None,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Audit<'a> {
    #[serde(borrow)]
    pub(super) known_fingerprints: Short<Str<'a>, FINDINGS>,
    pub(super) options: AuditOptions<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AuditOptions<'a> {
    #[serde(borrow)]
    pub(super) config: Option<AuditConfig<'a>>,
    pub(super) paths: Short<IgnoredAny, MANY>,
    pub(super) job: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AuditConfig<'a> {
    #[serde(borrow)]
    pub(super) text: Str<'a>,
}

impl<'de> Deserialize<'de> for Instance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Str::deserialize(deserializer)?;
        let gpu = text.rsplitn(3, '/').nth(2).unwrap_or(&text);
        Ok(Self(Key::of(gpu)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Programs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let programs = Option::<Pairs<u32, Program<'a>, MANY>>::deserialize(deserializer)?;
        Ok(Self(programs.unwrap_or_default().0.into_iter().collect()))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Policies<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let policies = Pairs::<Str<'a>, Policy, MANY>::deserialize(deserializer)?;
        Ok(Self(policies.0.into_iter().collect()))
    }
}

/// The `schema` of a document. Reads no further than to it.
pub(super) fn schema(bytes: &[u8]) -> Result<String, serde_json::Error> {
    struct Schema<'f>(&'f mut Option<String>);
    impl<'de> Visitor<'de> for Schema<'_> {
        type Value = ();

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a document of gpumap")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(key) = map.next_key::<Str<'de>>()? {
                if &*key == "schema" {
                    *self.0 = Some(map.next_value::<Str<'de>>()?.chars().take(80).collect());
                    return Err(A::Error::custom("found"));
                }
                map.next_value::<IgnoredAny>()?;
            }
            Ok(())
        }
    }
    let mut found = None;
    let read = serde_json::Deserializer::from_slice(bytes).deserialize_map(Schema(&mut found));
    match (found, read) {
        (Some(schema), _) => Ok(schema),
        (None, Err(error)) => Err(error),
        (None, Ok(())) => Ok(String::new()),
    }
}
