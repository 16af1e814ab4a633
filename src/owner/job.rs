//! A job's number or SLUID, as users write it.

use std::fmt;

use super::slurm;
use crate::model::Owner;

/// A job's number or SLUID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobName {
    /// Slurm's (or ParaStation's, or CraneSched's) job number.
    Number(u64),
    /// A SLUID, upper-case but for its leading `s`.
    Sluid(String),
}

impl JobName {
    /// Reads `4711` or `sEKNKTV3WPV500`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().ok().map(Self::Number);
        }
        let digits = text.strip_prefix(['s', 'S'])?;
        let sluid = format!("s{}", digits.to_ascii_uppercase());
        slurm::submitted_at(sluid.as_bytes()).map(|_| Self::Sluid(sluid))
    }

    /// Its number; `None` for a SLUID.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Sluid(_) => None,
        }
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

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Sluid(sluid) => sluid.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that only numbers and SLUIDs are names of jobs.
    #[test]
    fn names() {
        assert_eq!(JobName::parse("4711"), Some(JobName::Number(4711)));
        let sluid = JobName::Sluid("sEKNKTV3WPV500".to_owned());
        for text in ["sEKNKTV3WPV500", "SEKNKTV3WPV500", "seknktv3wpv500"] {
            assert_eq!(JobName::parse(text), Some(sluid.clone()));
        }
        for bad in ["", "+1", "-1", "1.0", "1_2", "99999999999999999999", "sG000000000000", "s", "ß", " 1"] {
            assert_eq!(JobName::parse(bad), None, "{bad}");
        }
        assert_eq!(sluid.to_string(), "sEKNKTV3WPV500");
    }

    /// Make sure that a container in a job is the job's.
    #[test]
    fn around() {
        let job = Owner { job_id: Some(7), ..Owner::default() };
        let inner = Owner { outer: Some(Box::new(job)), ..Owner::default() };
        assert!(JobName::Number(7).is(&inner) && !JobName::Number(8).is(&inner));
    }
}
