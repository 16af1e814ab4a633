//! Instructions, their text, and the files they come in.
//!
//! STUB of the branch h-cli from here on, replaced whole by the bytecode
//! branch: the signatures that `commands` is written against.

mod insn;

pub use insn::Insn;

use crate::observation::{Map, Program};

/// A program read from a file.
#[derive(Debug)]
pub struct SavedProgram {}

/// Why a file is no program.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The stub's only answer.
    #[error("this build reads no programs")]
    Stub,
}

/// Reads raw instructions, bpftool text or bpftool JSON.
pub fn read(_bytes: &[u8]) -> Result<Vec<SavedProgram>, ReadError> {
    Err(ReadError::Stub)
}

/// Reads map contents.
pub fn maps(_text: &str) -> Result<Vec<Map>, ReadError> {
    Err(ReadError::Stub)
}

impl SavedProgram {
    /// The facts about it; a file without a program id gets `fallback_id`.
    pub fn into_program(self, fallback_id: u32) -> Program {
        Program { id: fallback_id, ..Program::default() }
    }
}
