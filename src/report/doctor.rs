//! Answers of `gpumap doctor`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::CheckState;

/// One thing that decides what gpumap can know on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DoctorCheck {
    /// Stable id, such as `rights.capabilities`; gpumap-doctor(1) explains it.
    pub id: String,
    /// How it is.
    pub state: CheckState,
    /// What was found, one or two sentences.
    pub found: String,
    /// What to do about it; left out where there is nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}
