//! `gpumap prog`: one program with its rules and its disassembly.

use std::slice;

use super::invocation::{Failure, Invocation};
use super::subject::programs;
use crate::cli::{Exit, ProgArgs};
use crate::{analyse, render};

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &ProgArgs) -> Result<Exit, Failure> {
    let gathered = programs::gather(invocation, slice::from_ref(&args.program), args.maps.as_deref())?;
    let payload = analyse::programs(&gathered.observation, &gathered.ids)?;
    invocation.answer(&gathered.observation, payload, render::prog)
}
