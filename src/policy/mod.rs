//! From instructions to an exact policy: the decoder.
//!
//! A policy is the answer to every question the kernel can ask at once: 2
//! types × 4096 majors × 2^20 minors × 5 requests. It is held as a decision
//! diagram, so equal policies are equal values.

pub mod device;

use crate::observation::{Map, Program};
use device::{Device, Request, Verdict};

/// Decodes programs and answers questions about policies. Policies of one
/// decoder can be compared with each other.
#[derive(Debug, Default)]
pub struct Decoder {}

/// What programs read besides their arguments.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The maps, with contents.
    pub maps: &'a [Map],
    /// The id of the cgroup asked about; `None` when a program is looked at on
    /// its own.
    pub cgroup_id: Option<u64>,
    /// How this kernel combines several programs.
    pub combination: Combination,
}

/// How the kernel combines the results of several programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combination {
    /// Before Linux 5.18: allowed if every program returns 1.
    AllMustAllow,
    /// Since Linux 5.18: a return of 0 sets `-EPERM` unless an error is
    /// already set, and a program may change the error with `bpf_set_retval`.
    #[default]
    Retval,
}

/// What one or more programs decide, for every device and request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {}

impl Decoder {
    /// An empty decoder.
    pub fn new() -> Self {
        Self::default()
    }

    /// The policy of `programs` together, in run order. No program allows
    /// everything. Never fails: what cannot be decoded is unknown.
    pub fn policy(&mut self, _programs: &[&Program], _context: &Context<'_>) -> Policy {
        Policy {}
    }

    /// The kernel's answer to one question.
    pub fn verdict(&self, _policy: Policy, _device: Device, _request: Request) -> Verdict {
        Verdict::Unknown
    }
}
