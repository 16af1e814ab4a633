//! `gpumap diff`: two policies, wherever they are.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::programs::{Gathered, gather};
use super::subject::{self, Source};
use super::{Failure, Session, envelope, input, saved};
use crate::analyse::Subject;
use crate::cli::{DiffArgs, Exit, ProgramSource};
use crate::observation::Observation;
use crate::{analyse, render};

/// Runs the command.
pub(super) fn run(session: &mut Session<'_>, args: &DiffArgs) -> Result<Exit, Failure> {
    let from = saved::from_option(session)?;
    let a = operand(session, &args.a, from.as_ref())?;
    let b = operand(session, &args.b, from.as_ref())?;
    let names = (args.a.to_string_lossy(), args.b.to_string_lossy());
    let payload =
        analyse::diff((&a.observation, &a.subject), (&b.observation, &b.subject), (&names.0, &names.1))?;
    let differ = payload.diff.as_ref().is_none_or(|diff| !diff.equal);
    let complete = session.answer(&both(a.observation, b.observation), payload, render::diff)?;
    Ok(complete.worst(if differ { Exit::No } else { Exit::Yes }))
}

/// What an operand means: an id, a file, a cgroup in a file, a cgroup.
fn operand(
    session: &mut Session<'_>,
    text: &OsString,
    from: Option<&Observation>,
) -> Result<Source, Failure> {
    if let ProgramSource::Id(id) = ProgramSource::from(text.clone()) {
        return program(session, id, from);
    }
    if let Some((file, cgroup)) = split(text) {
        let observation = saved::load(session, file)?;
        let subject = Subject::Cgroup(saved::find(&observation, cgroup)?);
        return Ok(Source { observation, subject });
    }
    let path = Path::new(text);
    match from {
        _ if text == "-" || path.is_file() => file(session, path),
        Some(observation) => {
            let subject = Subject::Cgroup(saved::find(observation, path)?);
            Ok(Source { observation: observation.clone(), subject })
        }
        None => subject::cgroup(session, path),
    }
}

fn program(session: &mut Session<'_>, id: u32, from: Option<&Observation>) -> Result<Source, Failure> {
    let subject = Subject::Programs(vec![id]);
    match from {
        Some(observation) => Ok(Source { observation: observation.clone(), subject }),
        None => {
            let observation = gather(session, &[ProgramSource::Id(id)], None)?.observation;
            Ok(Source { observation, subject })
        }
    }
}

/// A saved observation stands for the one cgroup it was taken for, a program
/// file for its programs in order.
fn file(session: &mut Session<'_>, path: &Path) -> Result<Source, Failure> {
    let (bytes, name) = (input::read(session, path)?, input::name(path));
    if saved::is_gpumap_json(&bytes) {
        let observation = saved::parse(&bytes, &name)?;
        let subject = Subject::Cgroup(saved::only_cgroup(&observation, &name)?);
        return Ok(Source { observation, subject });
    }
    let mut gathered = Gathered { observation: envelope::blank(), ids: Vec::new() };
    gathered.add_bytes(&bytes, &name)?;
    Ok(Source { observation: gathered.observation, subject: Subject::Programs(gathered.ids) })
}

/// Splits `FILE:/CGROUP` where FILE exists; cgroup names may hold colons too.
fn split(text: &OsStr) -> Option<(&Path, &Path)> {
    let bytes = text.as_bytes();
    let colons = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b":/"));
    let mut pairs =
        colons.map(|at| (Path::new(OsStr::from_bytes(&bytes[..at])), OsStr::from_bytes(&bytes[at + 1..])));
    pairs.find(|(file, _)| file.is_file()).map(|(file, cgroup)| (file, Path::new(cgroup)))
}

/// The envelope speaks of the first node and of both sides' problems.
fn both(mut a: Observation, b: Observation) -> Observation {
    a.errors.extend(b.errors);
    a.errors.sort();
    a.errors.dedup();
    a
}
