//! Files that a command reads and writes: bounded reading, saved observations,
//! and JSON that is written whole or not at all.

mod read;
pub(crate) mod saved;
mod write;

pub(crate) use read::{name, read};
pub(crate) use write::{failure, save};
