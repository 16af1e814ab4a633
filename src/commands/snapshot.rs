//! `gpumap snapshot`: saves an observation, whole or not at all.

use std::io::Write as _;
use std::path::PathBuf;

use super::doctor;
use super::files::{self, saved};
use super::invocation::{Failure, Invocation};
use super::subject::allocation;
use crate::cli::{Exit, SnapshotArgs};
use crate::render;
use crate::report::Nothing;

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &SnapshotArgs) -> Result<Exit, Failure> {
    allocation::request(invocation, &args.slurm)?;
    invocation.wanted_facts.units = true;
    let all = [PathBuf::from("/")];
    let is_all = args.paths.is_empty();
    let paths = if is_all && invocation.global.from.is_none() { &all } else { args.paths.as_slice() };
    let mut observation = saved::observe(invocation, paths, args.recursive || is_all)?;
    if args.setup && invocation.global.from.is_none() {
        observation.setup = Some(Box::new(doctor::setup(invocation)));
    }
    if args.output.as_os_str() == "-" {
        render::json::write(invocation.out, &observation)?;
        invocation.out.flush()?;
        invocation.problems(&observation.errors)?;
        return Ok(if observation.errors.is_empty() { Exit::Yes } else { Exit::Incomplete });
    }
    files::save(&args.output, &observation)?;
    invocation.answer(&observation, Nothing {}, |_, _, _| Ok(()))
}
