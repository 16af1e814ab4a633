//! One reading of the counts of calls, with what it takes to compare it with the
//! rest of an observation of another moment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Activity, OwnerTotals};
use crate::model::Time;

/// The counts of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActivityReading {
    /// When they were read, RFC 3339.
    pub at: Time,
    /// How many milliseconds pass between two readings of the gpumap that counts; 0
    /// where there is only one.
    #[serde(default)]
    pub every_ms: u64,
    /// Whether the calls of all processes of the node are counted, and not only
    /// those of the ones that it was asked for.
    #[serde(default)]
    pub whole_node: bool,
    /// The counts.
    pub sums: Activity,
    /// What each owner did until then, owners that are gone among them. Kept by `gpumap
    /// activity --state`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub totals: Vec<OwnerTotals>,
    /// How many owners there were besides whose totals are kept no longer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forgotten_totals: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
