//! `gpumap snapshot`: an observation, saved whole or not at all.

use std::io::Write as _;
use std::path::PathBuf;

use super::{Failure, Session, file, saved, slurm};
use crate::cli::{Exit, SnapshotArgs};
use crate::render;
use crate::report::Payload;

/// Runs the command.
pub(super) fn run(session: &mut Session<'_>, args: &SnapshotArgs) -> Result<Exit, Failure> {
    slurm::look(session, &args.slurm)?;
    session.look.units = true;
    let all = [PathBuf::from("/")];
    let is_all = args.paths.is_empty();
    let paths = if is_all && session.global.from.is_none() { &all } else { args.paths.as_slice() };
    let mut observation = saved::observe(session, paths, args.recursive || is_all)?;
    if session.global.from.is_some() {
        slurm::add(session, &args.slurm, &mut observation)?;
    }
    if args.output.as_os_str() == "-" {
        render::json::write(session.out, &observation)?;
        session.out.flush()?;
        session.problems(&observation.errors)?;
        return Ok(if observation.errors.is_empty() { Exit::Yes } else { Exit::Incomplete });
    }
    file::save(&args.output, &observation)?;
    session.answer(&observation, Payload::default(), |_, _, _| Ok(()))
}
