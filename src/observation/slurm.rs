//! What Slurm's files and hooks say about allocations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Environment, Text};

/// Slurm's files and hook environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Slurm {
    /// The node's `gres.conf`, which decides what Slurm's GPU numbers mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gres_conf: Option<ConfigFile>,
    /// When that file was last changed, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gres_conf_modified_at: Option<String>,
    /// The environment of gpumap itself, if it runs in a Prolog or Epilog
    /// (`--from-env`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<Environment>,
}

/// A configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigFile {
    /// Where it was found.
    pub path: String,
    /// What it says.
    pub text: Text,
}

impl Slurm {
    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
