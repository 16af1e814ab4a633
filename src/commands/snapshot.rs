//! `gpumap snapshot`: an observation, saved whole or not at all.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::{Failure, Session, saved, slurm};
use crate::cli::{Exit, SnapshotArgs};
use crate::observation::Observation;
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
    save(&args.output, &observation).map_err(|error| Failure::file(&args.output, &error))?;
    session.answer(&observation, Payload::default(), |_, _, _| Ok(()))
}

/// Writes beside the file and renames.
fn save(path: &Path, observation: &Observation) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let mut beside = name.to_owned();
    beside.push(format!(".new-{}", std::process::id()));
    let beside = path.with_file_name(beside);
    let written = write(&beside, observation).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // The first error is the one to report.
        let _already_failed = fs::remove_file(&beside);
    }
    written
}

/// Never follows what someone else put there: the file must be new.
fn write(path: &Path, observation: &Observation) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut out = BufWriter::new(file);
    render::json::write(&mut out, observation)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}
