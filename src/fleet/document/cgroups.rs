//! What `fleet` reads of the cgroups of a full document: whose they are, and under which
//! programs.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::super::text::{Short, Str};

/// Programs of a cgroup: the kernel runs no more than 64 of each of its ancestors.
const PROGRAMS: usize = 1024;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::fleet) struct Cgroup<'a> {
    #[serde(borrow)]
    pub(in crate::fleet) owner: Option<CgroupOwner<'a>>,
    pub(in crate::fleet) programs: Short<Effective, PROGRAMS>,
    pub(in crate::fleet) policy: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::fleet) struct CgroupOwner<'a> {
    #[serde(borrow)]
    pub(in crate::fleet) kind: Str<'a>,
    pub(in crate::fleet) part: Option<IgnoredAny>,
    pub(in crate::fleet) job_id: Option<IgnoredAny>,
    pub(in crate::fleet) sluid: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::fleet) struct Effective {
    pub(in crate::fleet) id: u32,
}
