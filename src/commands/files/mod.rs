//! Files that a command reads and writes: bounded reading, saved observations,
//! and files that are written whole or not at all.

mod read;
pub(crate) mod saved;
mod write;

pub(crate) use read::{name, read};
pub(crate) use write::{failure, save, save_bytes};
