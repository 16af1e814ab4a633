//! What `fleet` reads of a document of `gpumap/1`: everything else is passed over
//! without being kept.

use std::collections::BTreeMap;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::text::{Key, Short, Str};
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
    pub(super) policies: Option<BTreeMap<Str<'a>, Policy>>,
    pub(super) gpus: Option<Short<Gpu<'a>, GPUS>>,
    pub(super) owners: Option<Short<OwnerSets<'a>, OWNERS>>,
    pub(super) findings: Option<Short<Finding<'a>, FINDINGS>>,
    pub(super) audit: Option<Audit<'a>>,
    pub(super) compact: Option<CompactNode>,
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
        let programs = Option::<BTreeMap<u32, Program<'a>>>::deserialize(deserializer)?;
        Ok(Self(programs.unwrap_or_default()))
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
