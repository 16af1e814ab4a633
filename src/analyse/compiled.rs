//! Compiles rules into a program, and proves that the program decides as the rules say.

use crate::observation::{Answer, HexBytes, Program};
use crate::policy::{CompileError, Context, Decoder, Policy};

/// Why rules have no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProgram {
    /// The compiler refuses.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The program was compiled, but the decoder cannot follow it.
    #[error(
        "a program of {0} instructions decides so, and gpumap cannot read it again: nothing proves it ({1})"
    )]
    Unproved(usize, String),
}

/// Compiles a policy into a program, and decodes the program as that policy again.
///
/// # Errors
///
/// The policy has no program, or none that gpumap can decode.
pub fn compiled(decoder: &mut Decoder, policy: Policy) -> Result<Program, NoProgram> {
    let insns = decoder.compile(policy)?;
    let bytes: Vec<u8> = insns.iter().flat_map(|insn| insn.bytes()).collect();
    let program = Program { xlated: Answer::Known(HexBytes(bytes)), ..Program::default() };
    let context = Context::default();
    // Another decoder reads it: this one's diagram is full of the way to the
    // policy, and it shall not answer from memory.
    let mut reader = Decoder::of_one_program(decoder.limit());
    let again = reader.policy(&[&program], &context);
    if reader.is_known(again) && reader.id(again) == decoder.id(policy) {
        Ok(program)
    } else {
        Err(NoProgram::Unproved(insns.len(), reader.reasons(again).join("; ")))
    }
}
