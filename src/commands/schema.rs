//! `gpumap schema`: prints a JSON schema, generated from the types.

use std::io::Write as _;

use schemars::schema_for;

use super::invocation::{Failure, Invocation};
use crate::cli::{Exit, SchemaArgs, SchemaOf};
use crate::observation::Observation;
use crate::report::{AnyAnswer, Document, Event};

/// Runs the command. The schema is pretty-printed: it is read by people and
/// compared by line.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &SchemaArgs) -> Result<Exit, Failure> {
    let schema = match args.of {
        SchemaOf::Document => schema_for!(Document<AnyAnswer>),
        SchemaOf::Events => schema_for!(Event),
        SchemaOf::Observation => schema_for!(Observation),
    };
    serde_json::to_writer_pretty(&mut *invocation.out, &schema).map_err(std::io::Error::from)?;
    writeln!(invocation.out)?;
    Ok(Exit::Yes)
}
