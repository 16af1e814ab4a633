//! `gpumap node`: the node's GPUs and whose they are.

use std::path::PathBuf;

use super::files::{activity_state, saved};
use super::invocation::{Failure, Invocation};
use super::subject::allocation;
use crate::cli::{Exit, NodeArgs};
use crate::observe::{self, CgroupTarget};
use crate::{analyse, render};

/// Runs the command. A saved observation answers for all that it was taken
/// for.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &NodeArgs) -> Result<Exit, Failure> {
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
    let payload = analyse::node(&observation, &allocation::granted(&args.allocation))?;
    invocation.answer(&observation, payload, render::node)
}
