//! Why analysis cannot answer.

use crate::observation::Text;

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
