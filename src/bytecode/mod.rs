//! Instructions, their text, and the files they come in.
//!
//! [`read()`] takes a program from any file that people save one in: raw bytes,
//! a bpftool listing pasted from a mail, bpftool's JSON. [`maps`] takes map
//! contents. [`disasm`] prints instructions as bpftool does. Everything here is
//! a function of its input; nothing touches the system.

mod assemble;
pub mod btf;
pub mod disasm;
mod error;
mod fields;
mod form;
pub mod helper;
mod insn;
mod json;
mod line;
mod map;
pub mod opcode;
mod operation;
mod read;
mod saved;
pub mod tag;
mod text;
mod verifier_log;

pub use error::{MAX_BYTES, MAX_INSNS, Position, ReadError};
pub use insn::Insn;
pub use map::maps;
pub use operation::{Arithmetic, AtomicKind, Comparison, Operand, Operation};
pub use read::read;
pub use saved::SavedProgram;
