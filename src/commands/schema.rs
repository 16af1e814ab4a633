//! `gpumap schema`: prints a JSON schema.
//!
//! The schemas are files of `man/`, which a test makes from the types (`tests/docs/manual.rs`):
//! the code that makes them is a megabyte, and no node needs it.

use std::io::Write as _;

use super::invocation::{Failure, Invocation};
use crate::cli::{Exit, SchemaArgs, SchemaOf};

/// Runs the command. The schema is pretty-printed: it is read by people and
/// compared by line.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &SchemaArgs) -> Result<Exit, Failure> {
    let schema = match args.of {
        SchemaOf::Document => include_str!("../../man/gpumap-1.schema.json"),
        SchemaOf::Events => include_str!("../../man/gpumap-1.events.schema.json"),
        SchemaOf::Observation => include_str!("../../man/gpumap.observation-1.schema.json"),
    };
    invocation.out.write_all(schema.as_bytes())?;
    Ok(Exit::Yes)
}
