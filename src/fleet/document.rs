//! What `fleet` reads of a document of `gpumap/1`: everything else is passed over
//! without being kept.

use std::collections::BTreeMap;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::compact_form::{Compact, Gpu};
use super::limits::{FINDINGS, GPUS, MANY};
use super::owners::Owners;
use super::text::{Pairs, Short, Str};
use crate::model::{OwnerKind, Severity, Verdict};
use crate::report;

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
    pub(super) owners: Option<Owners<false>>,
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
    pub(super) boot_id: Str<'a>,
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

/// Programs of a cgroup: the kernel runs no more than 64 of each of its ancestors.
const PROGRAMS: usize = 1024;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Cgroup<'a> {
    #[serde(borrow)]
    pub(super) owner: Option<CgroupOwner<'a>>,
    pub(super) programs: Short<Effective, PROGRAMS>,
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

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Finding<'a> {
    #[serde(borrow)]
    pub(super) id: Str<'a>,
    pub(super) severity: Severity,
    pub(super) fingerprint: Str<'a>,
    pub(super) device_fingerprints: Short<Str<'a>, MANY>,
    pub(super) summary: Str<'a>,
    pub(super) owner: Option<FindingOwner>,
    pub(super) cgroup: Option<Str<'a>>,
    pub(super) advice: Str<'a>,
    pub(super) ignored: Option<Str<'a>>,
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
            device_fingerprints: Short(
                finding.device_fingerprints.iter().map(|one| Str::from(one.as_str())).collect(),
            ),
            summary: Str::from(finding.summary.as_str()),
            owner: finding.owner.as_ref().map(|owner| FindingOwner { kind: owner.kind.clone() }),
            cgroup: finding.cgroup.as_deref().map(Str::from),
            advice: Str::from(finding.advice.as_str()),
            ignored: finding.ignored.as_deref().map(Str::from),
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

/// Reads an answer. UTF-8 that is checked at once takes a fraction of the time that it
/// takes word by word; in a document that is none in parts, only the words that are read
/// have to be.
pub(super) fn read(bytes: &[u8]) -> Result<Answer<'_>, serde_json::Error> {
    match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(bytes),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that bytes which are no UTF-8 matter only where they are read.
    #[test]
    fn broken_text() {
        let command = |bytes| read(bytes).map(|answer| answer.command.to_string());
        assert_eq!(command(b"{\"command\":\"node\",\"x\":\"y\"}").unwrap(), "node");
        assert_eq!(command(b"{\"command\":\"node\",\"x\":\"\xff\"}").unwrap(), "node");
        assert!(command(b"{\"command\":\"n\xff\",\"x\":\"y\"}").is_err());
    }
}
