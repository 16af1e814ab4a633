//! The answer of `diff`: the difference of two policies, and what changed on a node between
//! two moments.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cgroup::{Change, Omitted};
use super::sets::GpuSet;
use crate::model::{GpuKey, Owner, Verdict};

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
    pub gpu: GpuKey,
    /// Verdict in the first policy.
    pub from: Verdict,
    /// Verdict in the second.
    pub to: Verdict,
}

/// The changes between two observations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeDiff {
    /// Whether nothing of it changed.
    pub equal: bool,
    /// Whether the node was rebooted in between; then ids of the two sides cannot be
    /// compared.
    pub rebooted: bool,
    /// Owners that came.
    pub come: Vec<OwnerAt>,
    /// Owners that went.
    pub gone: Vec<OwnerAt>,
    /// Programs attached to and removed from cgroups that are in both.
    pub programs: Vec<ProgramMove>,
    /// Policies that changed, each with the cgroups concerned.
    pub policies: Vec<PolicyChange>,
    /// GPUs that owners in both may open or may not open any more.
    pub gpus: Vec<OwnerGpus>,
    /// Allocations that changed.
    pub allocations: Vec<AllocationChange>,
}

/// An owner and its topmost cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerAt {
    /// The owner.
    pub owner: Owner,
    /// Its topmost cgroup.
    pub cgroup: String,
}

/// Programs attached to one cgroup and removed from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramMove {
    /// The cgroup they are attached to.
    pub cgroup: String,
    /// Ids of programs that came, in attach order.
    pub attached: Vec<u32>,
    /// Ids of programs that went.
    pub gone: Vec<u32>,
}

/// One change of policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyChange {
    /// The cgroups that it happened to, in walk order.
    pub cgroups: Vec<String>,
    /// Where the policies differ.
    pub changes: Vec<Change>,
    /// If some of the difference has no short form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<Omitted>,
}

/// GPUs that an owner may open now and could not before, and the reverse.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerGpus {
    /// The owner.
    pub owner: Owner,
    /// Its topmost cgroup.
    pub cgroup: String,
    /// Keys of GPUs that it may not open any more.
    pub lost: Vec<GpuKey>,
    /// Keys of GPUs that it may open now.
    pub gained: Vec<GpuKey>,
    /// Keys of GPUs for which that is unknown on one side alone.
    pub unknown: Vec<GpuKey>,
}

/// An allocation that changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllocationChange {
    /// The owner.
    pub owner: Owner,
    /// Its topmost cgroup.
    pub cgroup: String,
    /// Before.
    pub from: GpuSet,
    /// After.
    pub to: GpuSet,
}
