//! What the site says of itself: `/etc/gpumap.toml`.

use crate::model::Severity;
use std::collections::BTreeMap;

use jiff::civil::Date;
use serde::Deserialize;

/// The configuration of an audit. Unknown keys are errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What is shared on purpose.
    pub sharing: Sharing,
    /// Daemons that may hold any GPU, beside those that gpumap knows.
    #[serde(rename = "daemon")]
    pub daemons: Vec<Daemon>,
    /// Severity by id, instead of the usual one.
    pub severity: BTreeMap<String, Severity>,
    /// Findings that are known and accepted.
    pub ignore: Vec<Ignore>,
}

/// Sharing by design.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sharing {
    /// Keys of GPUs that several owners may have at once; `*` for all.
    pub gpus: Vec<String>,
    /// Whether this node's jobs may open every GPU on purpose, because jobs
    /// get whole nodes.
    pub whole_node: bool,
}

/// A daemon that may hold GPUs that are somebody else's. All that is given
/// must match: a name alone can be taken by anybody.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Daemon {
    /// Path of its executable.
    pub exe: String,
    /// Its cgroup: this one and all below it.
    pub cgroup: String,
    /// Its uid.
    #[serde(default)]
    pub uid: u32,
}

/// A finding that is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ignore {
    /// Its id.
    pub id: String,
    /// Only in this cgroup and below.
    pub cgroup: Option<String>,
    /// Only about this GPU, by key.
    pub gpu: Option<String>,
    /// Why it is accepted; whoever reads the audit sees it.
    pub reason: String,
    /// The last day on which it is accepted, UTC.
    #[serde(deserialize_with = "super::parse::date")]
    pub until: Date,
}
