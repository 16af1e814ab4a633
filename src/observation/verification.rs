//! What the kernel answered when it was asked inside a cgroup.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Answer, Text};

/// One question to the kernel, asked by a process in the cgroup itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verification {
    /// The cgroup, relative to the cgroup root, with a leading `/`.
    pub cgroup: Text,
    /// The node that was asked about; empty if the cgroup could not be asked
    /// about any.
    pub path: String,
    /// Its major number.
    pub major: u32,
    /// Its minor number.
    pub minor: u32,
    /// The request as in rules: `rw`.
    pub request: String,
    /// Whether the kernel allows it, or why it did not say.
    pub allowed: Answer<bool>,
}
