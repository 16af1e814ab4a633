//! Reads the owners of a full answer with their sets of devices, and writes owners as words,
//! such as `slurm job 4711`: by these, jobs of several nodes are the same.
//!
//! A report needs two sets of the owners that no other one is around, a page all sets of
//! all. [`Owners`] reads both, and passes over the rest; a page reads the same bytes a
//! second time, so that a report costs no more than it needs.

use std::fmt;

use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::limits::{CELLS, OWNERS, SET};
use super::text::{Device, Short};
use crate::model::{AllocationSource, JobIdSource, Owner, OwnerKind};

/// The longest word of a name.
const LONGEST: usize = 64;

/// The longest kind of an owner.
const KIND: usize = 40;
/// Characters of a container's id, as Docker shows it.
const ID: usize = 12;

/// The job with this name, if a compact document may name a job so.
pub(super) fn job_of_text(text: &str) -> Option<&str> {
    let (kind, id) = text.split_once(" job ")?;
    // A kind that a site's configuration or a later gpumap has is a word too.
    let is_word = kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let is_kind = is_word && (1..=KIND).contains(&kind.len()) && OwnerKind::of(kind).is_job();
    (is_kind && is_id(id)).then_some(text)
}

fn is_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+:[]@".contains(&byte);
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_plain)
}

/// An owner in a compact document; below the first level its own part alone.
pub(super) fn label(owner: &Owner, depth: usize) -> String {
    match (depth, &owner.task, &owner.step) {
        (1.., Some(task), _) if owner.claims.is_empty() => format!("task {}", cut(task)),
        (1.., None, Some(step)) if owner.claims.is_empty() => {
            let component = owner.het_component.map(|number| format!("+{number}")).unwrap_or_default();
            format!("step {}{component}", cut(step))
        }
        _ => whole(owner),
    }
}

fn whole(owner: &Owner) -> String {
    if let Some(id) = id_of_job(owner).filter(|_| owner.kind.is_job()) {
        return format!("{} job {id}", owner.kind);
    }
    let id = owner.container.as_deref().map(|id| id.chars().take(ID).collect());
    let names = [&owner.pod, &owner.name, &owner.session];
    let other = names.into_iter().flatten().next().map(|name| cut(name));
    let uid = owner.uid.map(|uid| uid.to_string());
    format!("{} {}", owner.kind, id.or(other).or(uid).unwrap_or_default()).trim_end().to_owned()
}

/// The name of a job among those of its kind; `None` if it has none that others can know.
/// A number that only the environment of its processes says, which the user may have
/// invented, begins with `~`.
fn id_of_job(owner: &Owner) -> Option<String> {
    let is_claimed = owner.job_id_source == Some(JobIdSource::Environment);
    match (owner.job_id, owner.job.as_deref().or(owner.sluid.as_deref())) {
        (Some(number), _) if is_claimed => Some(format!("~{number}")),
        (Some(number), _) => Some(number.to_string()),
        (None, text) => text.filter(|text| is_id(text)).map(str::to_owned),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a job has the same name on all nodes, and that no user's word makes
    /// one.
    #[test]
    fn names() {
        let owner = Owner { kind: OwnerKind::Slurm, job_id: Some(7), ..Owner::default() };
        let job = |owner: &Owner| job_of_text(&label(owner, 0)).map(str::to_owned);
        assert_eq!(job(&owner).as_deref(), Some("slurm job 7"));
        let claimed = Owner { job_id_source: Some(JobIdSource::Environment), ..owner.clone() };
        assert_eq!((label(&claimed, 0).as_str(), job(&claimed)), ("slurm job ~7", None));
        assert_eq!(job(&Owner { kind: OwnerKind::Docker, ..owner.clone() }), None);
        let pbs = |text: &str| Owner { kind: OwnerKind::Pbs, job: Some(text.to_owned()), ..Owner::default() };
        assert_eq!(job(&pbs("12.pbs")).as_deref(), Some("pbs job 12.pbs"));
        assert_eq!(job(&pbs("12 \x1b[2J")), None);
        let step = Owner { step: Some("0".to_owned()), het_component: Some(1), ..owner };
        assert_eq!((label(&step, 1).as_str(), label(&step, 0).as_str()), ("step 0+1", "slurm job 7"));
        assert_eq!((job_of_text("docker job 7"), job_of_text("slurm job 7 8")), (None, None));
        assert_eq!(job_of_text("slurm job ~7"), None);
        assert_eq!(job_of_text("acme job 7"), Some("acme job 7"));
        for bad in ["a b job 7", "\x1b[2J job 7", " job 7", "Acme job 7"] {
            assert_eq!(job_of_text(bad), None, "{bad:?}");
        }
    }
}
