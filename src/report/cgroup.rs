//! Cgroups: their programs, the policies that these are together as rules, and what may
//! be opened from them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::process::Process;
use crate::model::{AttachFlag, GpuKey, Owner, Rule, Verdict};
use crate::observation::UnseenProcesses;

/// One cgroup and what may be opened from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cgroup {
    /// Relative to the cgroup root, `/` first.
    pub path: String,
    /// Hex of the path's bytes if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_hex: Option<String>,
    /// Cgroup id (inode number of the directory).
    pub id: u64,
    /// The owner; null if it was not recognised.
    pub owner: Option<Owner>,
    /// Programs in force, in run order.
    pub programs: Vec<Effective>,
    /// Why the programs in force could not be asked; then `programs` is empty, but
    /// there may be programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs_unknown: Option<String>,
    /// Key into `policies`.
    pub policy: String,
    /// Every GPU of the node.
    pub gpus: Vec<GpuVerdict>,
    /// Its processes.
    pub processes: Vec<Process>,
    /// How many processes are in the cgroups below it; left out where nobody counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes_below: Option<usize>,
    /// Processes in it that cannot be seen from where gpumap runs; left out where there
    /// are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<UnseenProcesses>,
}

/// A program in force on a cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Effective {
    /// Key into `programs`.
    pub id: u32,
    /// The cgroup it is attached to; empty if that could not be asked.
    pub attached_at: String,
    /// `multi`, `override`, `preorder`, `link`; none is `[]`.
    pub flags: Vec<AttachFlag>,
    /// Whether it is not known if a link holds it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub link_unknown: bool,
}

/// One GPU as seen from one cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuVerdict {
    /// Key into the inventory.
    pub gpu: GpuKey,
    /// Major of the node asked about; null if the GPU has no node.
    pub major: Option<u32>,
    /// Minor of the node asked about.
    pub minor: Option<u32>,
    /// Verdict for `rw`, which is what using the GPU takes.
    pub verdict: Verdict,
    /// All requests that are allowed.
    pub requests: String,
    /// Why the verdict is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Its MIG instances, in the order of [`Gpu::mig`](super::Gpu::mig).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<InstanceVerdict>,
}

/// One MIG instance as seen from one cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceVerdict {
    /// `KEY/GI/CI`.
    pub instance: GpuKey,
    /// Verdict for using it: for its GPU and the capabilities of both levels.
    pub verdict: Verdict,
}

/// What is allowed, as disjoint rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// Equal ids are equal policies. An id that begins with `inexact-` is that of a
    /// policy of which not everything is known; it is made of the programs and what their
    /// maps hold, and other ids may be those of equal policies.
    pub id: String,
    /// Verdict of everything that no rule names.
    pub default: Verdict,
    /// Whether `default` and `rules` say everything there is to say: no
    /// verdict is unknown and no rule is missing.
    pub exact: bool,
    /// Disjoint exceptions from `default`.
    pub rules: Vec<ListedRule>,
    /// Why verdicts are unknown, and where.
    pub unknown: Vec<Unknown>,
    /// Whether `default` is unknown only because the policy is too complex to be drawn:
    /// `gpumap check` runs the programs on one device, and may know more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_drawn: bool,
    /// If the policy has no short form: how many rules were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<Omitted>,
}

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Rule")]
pub struct ListedRule {
    /// The devices, the requests and the verdict on them.
    #[serde(flatten)]
    pub rule: Rule,
    /// Whether the verdict is unknown only because the policy is too complex to be
    /// drawn: `gpumap check` runs the programs on one device, and may know more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_drawn: bool,
    /// Drivers that have this major on this boot, if the kernel assigns it anew on
    /// each boot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl From<Rule> for ListedRule {
    fn from(rule: Rule) -> Self {
        Self { rule, ..Self::default() }
    }
}

impl Policy {
    /// Whether it certainly allows every request for every device.
    #[must_use]
    pub fn allows_everything(&self) -> bool {
        self.default == Verdict::Allow && self.exact && self.rules.is_empty()
    }
}

/// Rules that a policy is too irregular to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Omitted {
    /// Number of (type, major, minor, request) questions whose verdict is not
    /// the default.
    pub questions: u64,
}

/// A region of unknown verdicts, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unknown {
    /// The rules concerned, in rule notation.
    pub rules: Vec<String>,
    /// The reason.
    pub why: String,
    /// Whether the rules are only not drawn: `gpumap check` runs the programs on one
    /// device, and may know more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_drawn: bool,
}

/// One region on which two policies differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Verdict in the first policy.
    pub from: Verdict,
    /// Verdict in the second.
    pub to: Verdict,
    /// The devices and requests; its own `verdict` is the second policy's.
    #[serde(flatten)]
    pub rule: ListedRule,
}
