//! Compiles a policy into a device program: the inverse of the decoder.
//!
//! `tree` turns the diagram of what is allowed into tests of whole fields, `emit`
//! turns the tests into instructions. Decoding the program again gives the same
//! policy.

mod emit;
mod tree;

use super::decoder::Decoder;
use super::types::Policy;
use crate::bytecode::Insn;
use tree::Tree;

/// Most instructions that the kernel loads (`BPF_COMPLEXITY_LIMIT_INSNS`,
/// `linux/bpf_verifier.h`).
const MAX_INSNS: usize = 1_000_000;

/// Why a policy has no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// Some verdicts are unknown, for these reasons.
    #[error("some of its verdicts are unknown: {}", .0.join("; "))]
    Unknown(Vec<String>),
    /// The kernel would refuse a program of this many instructions.
    #[error("it takes {0} instructions, and the kernel loads a million")]
    TooLarge(usize),
    /// It took too long.
    #[error("the time limit (--timeout) ran out before gpumap had compiled it")]
    Late,
}

impl Decoder {
    /// A device program that decides as the policy does: for all devices and
    /// all requests that the kernel makes.
    ///
    /// The program reads each field of the context once and tests nothing
    /// twice on the way to a verdict, which keeps the verifier's work in
    /// proportion to its length. Past 32,767 instructions it may hold jumps
    /// that only Linux 6.6 and later take.
    ///
    /// # Errors
    ///
    /// Any unknown verdict, a program longer than the kernel loads, and no time left.
    pub fn compile(&mut self, policy: Policy) -> Result<Vec<Insn>, CompileError> {
        if !self.is_known(policy) {
            let reasons = self.reasons(policy).into_iter().map(str::to_owned).collect();
            return Err(CompileError::Unknown(reasons));
        }
        let tree = Tree::of(&mut self.diagram, policy.allow);
        if self.limit().is_over() {
            return Err(CompileError::Late);
        }
        let insns = emit::program(&tree);
        if insns.len() > MAX_INSNS { Err(CompileError::TooLarge(insns.len())) } else { Ok(insns) }
    }
}
