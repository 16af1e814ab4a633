//! Errors that calls return.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::observation::GpuApi;

/// An error that calls of a process returned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallError {
    /// Whose code it is.
    pub api: GpuApi,
    /// The code.
    pub code: u32,
    /// Its name in the driver's header; null for a code that gpumap does not know.
    pub name: Option<String>,
    /// How often, since counting began.
    pub count: u64,
    /// How often in the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<u64>,
    /// Whether every further call of the process fails after it: the process has to
    /// end before it can use the GPU again.
    pub sticky: bool,
}
