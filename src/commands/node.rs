//! `gpumap node`: the node's GPUs and whose they are.

use std::path::PathBuf;

use super::files::{activity_state, saved};
use super::invocation::{Failure, Invocation};
use super::subject::allocation;
use crate::cli::{Exit, NodeArgs};
use crate::model::ProblemCode;
use crate::observation::Observation;
use crate::observe::{self, CgroupTarget};
use crate::report::Payload;
use crate::{analyse, fleet, render};

/// Runs the command. A saved observation answers for all that it was taken
/// for.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &NodeArgs) -> Result<Exit, Failure> {
    if args.compact && !invocation.global.json {
        let why = "there is no table of it";
        return Err(Failure::new(ProblemCode::Usage, "--compact", why, "add --json"));
    }
    allocation::request(invocation, &args.allocation.slurm)?;
    let mut observation = match saved::from_option(invocation)? {
        Some(mut observation) => {
            allocation::add(invocation, &args.allocation.slurm, &mut observation)?;
            observation
        }
        None => {
            let all = CgroupTarget { path: PathBuf::from("/"), recursive: true };
            observe::cgroups(&invocation.options(), &[all])?
        }
    };
    activity_state::add(invocation, args.state.as_deref(), &mut observation)?;
    let payload = analyse::node(&observation, &allocation::granted(&args.allocation), &invocation.decoding)?;
    if args.compact {
        return compact(invocation, observation, &payload);
    }
    invocation.answer(&observation, payload, render::node)
}

/// Prints the compact form. It is as complete as the whole answer.
fn compact(
    invocation: &mut Invocation<'_>,
    mut observation: Observation,
    payload: &Payload,
) -> Result<Exit, Failure> {
    let node = fleet::compact(&observation, payload);
    observation.errors = fleet::first_problems(&observation.errors);
    let is_unknown = payload.has_unknown();
    let payload = Payload { compact: Some(Box::new(node)), ..Payload::default() };
    invocation.answer_about(&observation, payload, is_unknown, render::node)
}
