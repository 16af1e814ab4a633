//! Instructions, their text, and the files they come in.

mod insn;

pub use insn::Insn;
