//! Instructions, their text, and the files they come in.

mod insn;
mod operation;

pub use insn::Insn;
pub use operation::{Arithmetic, AtomicKind, Comparison, Operand, Operation};
