//! How bad a finding is, and how sure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

/// How bad a finding is, the mildest first.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; isolation holds.
    #[default]
    Note,
    /// Something does not work as somebody expects.
    Warning,
    /// Isolation does not hold.
    Critical,
}

/// How sure a finding is.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Confidence {
    /// It rests on what the kernel and root's files say.
    #[default]
    Certain,
    /// It rests on an assumption, which stands in the evidence.
    Likely,
    /// It rests on what the user's own processes say.
    Claimed,
}
