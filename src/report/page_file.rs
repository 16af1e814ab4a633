//! The answer of `report`: the file that it wrote.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageCut {
    /// What: `owners`, `proofs`.
    pub what: String,
    /// How many of them.
    pub count: usize,
    /// Why, and how to see them.
    pub instead: String,
}

/// The answer of `report`: the file that it wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageFile {
    /// Its name; `-` is standard output.
    pub file: String,
    /// Its size in bytes.
    pub bytes: usize,
    /// SHA-256 of the observation in it, hexadecimal.
    pub observation_sha256: String,
    /// How many owners its matrix has.
    pub owners: usize,
    /// How many ways through programs it has.
    pub proofs: usize,
    /// How many findings it has.
    pub findings: usize,
    /// What was left out for its size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<PageCut>,
}
