//! Policies as rules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Rule, Verdict};

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
