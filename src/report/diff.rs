//! The answer of `diff`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::node_diff::NodeDiff;
use super::policy::{Change, Omitted};
use crate::model::Verdict;

/// The difference of two policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diff {
    /// The first policy's source, as asked.
    pub a: String,
    /// The second policy's source, as asked.
    pub b: String,
    /// The one cgroup of the first side, if only that was compared and not what
    /// is below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a_cgroup: Option<String>,
    /// The one cgroup of the second side, in the same case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b_cgroup: Option<String>,
    /// Whether the policies are equal, which takes that both are known.
    pub equal: bool,
    /// Whether part of either side is unknown: there may be more differences than
    /// are listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// Where they differ.
    pub changes: Vec<Change>,
    /// GPUs whose verdict differs.
    pub gpus: Vec<GpuChange>,
    /// If some of the difference has no short form: how many (device, request)
    /// pairs are not listed in `changes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<Omitted>,
    /// What changed on the node, if both sides are whole observations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeDiff>,
}

/// One GPU on which two policies differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuChange {
    /// Key into the inventory.
    pub gpu: String,
    /// Verdict in the first policy.
    pub from: Verdict,
    /// Verdict in the second.
    pub to: Verdict,
}
