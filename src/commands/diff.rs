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
use crate::report::{Diff, Payload};
use crate::{analyse, render};

/// Runs the command.
pub(super) fn run(session: &mut Session<'_>, args: &DiffArgs) -> Result<Exit, Failure> {
    let names = (args.a.to_string_lossy(), args.b.to_string_lossy());
    if let Some((a, b)) = observations(session, args)? {
        return moments(session, (a, &names.0), (b, &names.1));
    }
    let from = saved::from_option(session)?;
    let a = operand(session, &args.a, from.as_ref())?;
    let b = operand(session, &args.b, from.as_ref())?;
    let payload =
        analyse::diff((&a.observation, &a.subject), (&b.observation, &b.subject), (&names.0, &names.1))?;
    finish(session, &both(a.observation, b.observation), payload)
}

fn finish(session: &mut Session<'_>, observation: &Observation, payload: Payload) -> Result<Exit, Failure> {
    let is_equal = |diff: &Diff| diff.equal && diff.node.as_ref().is_none_or(|node| node.equal);
    let differ = !payload.diff.as_ref().is_some_and(is_equal);
    let complete = session.answer(observation, payload, render::diff)?;
    Ok(complete.worst(if differ { Exit::No } else { Exit::Yes }))
}

/// Both sides, if each is a whole file that holds an observation.
fn observations(
    session: &mut Session<'_>,
    args: &DiffArgs,
) -> Result<Option<(Observation, Observation)>, Failure> {
    let mut read = |text: &OsStr| -> Result<Option<Observation>, Failure> {
        let path = Path::new(text);
        let is_id = matches!(ProgramSource::from(text.to_owned()), ProgramSource::Id(_));
        if is_id || !path.is_file() {
            return Ok(None);
        }
        let bytes = input::read(session, path)?;
        if !saved::is_gpumap_json(&bytes) {
            return Ok(None);
        }
        saved::parse(&bytes, &input::name(path)).map(Some)
    };
    let Some(a) = read(&args.a)? else { return Ok(None) };
    Ok(read(&args.b)?.map(|b| (a, b)))
}

/// Two moments of a node; if both are of one cgroup, its policies too.
fn moments(
    session: &mut Session<'_>,
    (a, a_name): (Observation, &str),
    (b, b_name): (Observation, &str),
) -> Result<Exit, Failure> {
    let node = analyse::node_diff(&a, &b)?;
    let subjects = (saved::only_cgroup(&a, a_name), saved::only_cgroup(&b, b_name));
    let mut payload = match (subjects, &node) {
        ((Ok(from), Ok(to)), _) => {
            let (from, to) = (Subject::Cgroup(from), Subject::Cgroup(to));
            analyse::diff((&a, &from), (&b, &to), (a_name, b_name))?
        }
        (_, Some(node)) => {
            let diff =
                Diff { a: a_name.to_owned(), b: b_name.to_owned(), equal: node.equal, ..Diff::default() };
            let gpus = analyse::node(&b, &analyse::Granted::default())?.gpus;
            Payload { diff: Some(diff), gpus, ..Payload::default() }
        }
        ((Err(failure), _) | (_, Err(failure)), None) => return Err(failure),
    };
    if let Some(diff) = &mut payload.diff {
        diff.node = node;
    }
    finish(session, &both(a, b), payload)
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
