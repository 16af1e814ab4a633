//! `gpumap prog`: one program with its rules and its disassembly.

mod compile;

use super::invocation::{Failure, Invocation};
use super::subject::programs;
use crate::cli::{Exit, ProgArgs};
use crate::{analyse, render};

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &ProgArgs) -> Result<Exit, Failure> {
    if let Some(rules) = &args.compile {
        return compile::run(invocation, rules, args.output.as_deref());
    }
    let sources = args.program.as_slice();
    let gathered = programs::gather(invocation, sources, args.maps.as_deref())?;
    let payload = analyse::programs(&gathered.observation, &gathered.ids, &invocation.decoding)?;
    invocation.answer(&gathered.observation, payload, render::prog)
}
