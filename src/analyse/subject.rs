//! The subject of a question about a policy, found in an observation, and why there is
//! no answer if it is not there.

use crate::observation::{Cgroup, Observation, Program, Text};

/// The subject of a question about a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The programs in force on one cgroup of the observation, by path
    /// relative to the cgroup root with a leading `/`.
    Cgroup(Text),
    /// Programs of the observation by id, run in this order.
    Programs(Vec<u32>),
}

/// The cgroup with this path.
pub(super) fn cgroup<'a>(observation: &'a Observation, path: &Text) -> Result<&'a Cgroup, AnalyseError> {
    let found = observation.cgroups.iter().find(|cgroup| cgroup.path == *path);
    found.ok_or_else(|| AnalyseError::NoCgroup(path.clone()))
}

/// The program with this id.
pub(super) fn program(observation: &Observation, id: u32) -> Result<&Program, AnalyseError> {
    observation.programs.iter().find(|program| program.id == id).ok_or(AnalyseError::NoProgram(id))
}

/// Why analysis cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum AnalyseError {
    /// The observation does not hold the cgroup.
    #[error("the observation has no cgroup {0:?}")]
    NoCgroup(Text),
    /// The observation does not hold the program.
    #[error("the observation has no program {0}")]
    NoProgram(u32),
    /// `--allocated` names no GPU of this node.
    #[error("--allocated: {0}")]
    Allocated(String),
}
