//! What people call a job.

use crate::report::Owner;

/// A job's number or SLUID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobName {
    /// Slurm's (or ParaStation's, or CraneSched's) job number.
    Number(u64),
    /// A SLUID, upper-case but for its leading `s`.
    Sluid(String),
}

impl JobName {
    /// Reads `4711` or `sEKNKTV3WPV500`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self::Number)
    }

    /// Whether an owner, or one around it, is this job.
    pub fn is(&self, owner: &Owner) -> bool {
        let here = match self {
            Self::Number(number) => owner.job_id == Some(*number),
            Self::Sluid(sluid) => owner.sluid.as_ref() == Some(sluid),
        };
        here || owner.outer.as_deref().is_some_and(|outer| self.is(outer))
    }
}
