//! `gpumap prog`: one program with its rules and its disassembly.

mod compile;

use super::invocation::{Failure, Invocation};
use super::subject::programs;
use crate::cli::{Exit, ProgArgs, ProgramSource};
use crate::model::ProblemCode;
use crate::observation::{Observation, Problem};
use crate::{analyse, observe, render};

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &ProgArgs) -> Result<Exit, Failure> {
    if let Some(rules) = &args.compile {
        return compile::run(invocation, rules, args.output.as_deref());
    }
    let sources = args.program.as_slice();
    let mut gathered = programs::gather(invocation, sources, args.maps.as_deref())?;
    if matches!(sources, [ProgramSource::Id(_)]) && invocation.global.from.is_none() {
        add_places(invocation, &mut gathered.observation);
    }
    let payload = analyse::programs(&gathered.observation, &gathered.ids, &invocation.decoding)?;
    invocation.answer(&gathered.observation, payload, render::prog)
}

/// Adds where the program is attached, or why that is not known.
fn add_places(invocation: &Invocation<'_>, observation: &mut Observation) {
    if let Err(error) = observe::add_places(&invocation.options(), observation) {
        let what = "where the program is attached".to_owned();
        let problem =
            Problem { code: ProblemCode::NoCgroup, what, why: error.to_string(), needs: String::new() };
        observation.errors.push(problem);
    }
}
