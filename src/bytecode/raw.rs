//! Raw instructions, as `bpftool prog dump xlated id N file F` saves them.

use super::saved::SavedProgram;
use super::{Insn, ReadError};

/// Reads raw slots. Fails with the reason if they cannot be a program.
pub(super) fn read(bytes: &[u8]) -> Result<SavedProgram, ReadError> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Err(ReadError::Zeros(bytes.len()));
    }
    let insns = Insn::parse_all(bytes).ok_or(ReadError::Length(bytes.len()))?;
    SavedProgram { insns, ..SavedProgram::default() }.finish()
}
