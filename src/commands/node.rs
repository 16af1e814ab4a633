//! `gpumap node`: the node's GPUs and whose they are.

use std::path::PathBuf;

use super::{Failure, Session, saved, slurm};
use crate::cli::{Exit, NodeArgs};
use crate::observe::{self, Target};
use crate::{analyse, render};

/// Runs the command. A saved observation answers for all that it was taken
/// for.
pub(super) fn run(session: &mut Session<'_>, args: &NodeArgs) -> Result<Exit, Failure> {
    slurm::look(session, &args.allocation.slurm)?;
    let observation = match saved::from_option(session)? {
        Some(mut observation) => {
            slurm::add(session, &args.allocation.slurm, &mut observation)?;
            observation
        }
        None => {
            let all = Target { path: PathBuf::from("/"), recursive: true };
            observe::cgroups(&session.options(), &[all])?
        }
    };
    let payload = analyse::node(&observation, &slurm::granted(&args.allocation))?;
    session.answer(&observation, payload, render::node)
}
