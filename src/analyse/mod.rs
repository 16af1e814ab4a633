//! From facts to answers: pure functions over an observation.

use crate::observation::{Observation, Text};
use crate::policy::device::{Device, Request};
use crate::report::{Check, Payload};

/// Whose policy is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The programs in force on one cgroup of the observation, by path
    /// relative to the cgroup root with a leading `/`.
    Cgroup(Text),
    /// Programs of the observation by id, run in this order.
    Programs(Vec<u32>),
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
}

/// The answer of `gpumap cgroup`: every cgroup in the observation's scope.
pub fn cgroups(_observation: &Observation) -> Result<Payload, AnalyseError> {
    Ok(Payload::default())
}

/// The answer of `gpumap prog`: the given programs with disassembly and rules.
pub fn programs(_observation: &Observation, _ids: &[u32]) -> Result<Payload, AnalyseError> {
    Ok(Payload::default())
}

/// The answer of `gpumap explain`: why `request` on `device` is allowed or denied.
pub fn explain(
    _observation: &Observation,
    _subject: &Subject,
    _device: Device,
    _request: Request,
) -> Result<Payload, AnalyseError> {
    Ok(Payload::default())
}

/// The answer of `gpumap diff`: the two policies may come from different
/// observations. `names` are the sources as the user wrote them.
pub fn diff(
    _a: (&Observation, &Subject),
    _b: (&Observation, &Subject),
    _names: (&str, &str),
) -> Result<Payload, AnalyseError> {
    Ok(Payload::default())
}

/// Answers many questions about one policy; what `gpumap check` streams through.
#[derive(Debug)]
pub struct Checker {}

/// A question of `check`: a device in which type and numbers may be `*`, and
/// one or all requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Character or block; `None` for both.
    pub kind: Option<crate::policy::device::DeviceType>,
    /// Major number; `None` for all.
    pub major: Option<u32>,
    /// Minor number; `None` for all.
    pub minor: Option<u32>,
    /// The requests asked about: one for `r`, all five for `rwm`.
    pub requests: crate::policy::device::RequestSet,
}

/// An answer of `check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckVerdict {
    /// The same for every device and request asked about.
    Uniform(crate::policy::device::Verdict),
    /// Not the same for all of them.
    Mixed,
}

impl Checker {
    /// Decodes the subject's policy once.
    pub fn new(_observation: &Observation, _subject: &Subject) -> Result<Self, AnalyseError> {
        Ok(Self {})
    }

    /// The verdict alone, without allocating: tens of nanoseconds.
    pub fn verdict(&self, _question: &Question) -> CheckVerdict {
        CheckVerdict::Mixed
    }

    /// The verdict with the reason where it is unknown or mixed; `asked` is
    /// the device as the user wrote it.
    pub fn check(&mut self, _question: &Question, _asked: &str) -> Check {
        Check::default()
    }
}
