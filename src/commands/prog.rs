//! `gpumap prog`: one program with its rules and its disassembly.

use std::slice;

use super::{Failure, Session, programs};
use crate::cli::{Exit, ProgArgs};
use crate::{analyse, render};

/// Runs the command.
pub(super) fn run(session: &mut Session<'_>, args: &ProgArgs) -> Result<Exit, Failure> {
    let gathered = programs::gather(session, slice::from_ref(&args.program), args.maps.as_deref())?;
    let payload = analyse::programs(&gathered.observation, &gathered.ids)?;
    session.answer(&gathered.observation, payload, render::prog)
}
