//! `gpumap diff`: compares two policies, or two moments of a node.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::files::{self, saved};
use super::invocation::{Failure, Invocation, cgroup_paths, envelope};
use super::subject::programs::{Gathered, gather};
use super::subject::{self, Resolved};
use crate::analyse::Subject;
use crate::cli::{self, DiffArgs, Exit, ProgramSource, Side, Sides};
use crate::model::{CgroupPath, CgroupPathBuf, InOrder as _, ProblemCode};
use crate::observation::{Observation, Scope, Text};
use crate::observe::{self, CgroupTarget};
use crate::report::{Diff, DiffAnswer};
use crate::{analyse, render};

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &DiffArgs) -> Result<Exit, Failure> {
    let Sides { a, b } = &args.sides;
    let names = (a.name(), b.name());
    if let Some((a, b)) = observations(invocation, a, b)? {
        return moments(invocation, (a, &names.0), (b, &names.1));
    }
    let from = saved::from_option(invocation)?;
    if let Some((a, b)) = subtrees(invocation, (a, b), from.as_ref())? {
        return moments(invocation, (a, &names.0), (b, &names.1));
    }
    let a = operand(invocation, a, from.as_ref())?;
    let b = operand(invocation, b, from.as_ref())?;
    let mut payload = analyse::diff(
        (&a.observation, &a.subject),
        (&b.observation, &b.subject),
        (&names.0, &names.1),
        &invocation.decoding,
    )?;
    (payload.diff.a_cgroup, payload.diff.b_cgroup) = (cgroup(&a), cgroup(&b));
    finish(invocation, &both(a.observation, b.observation), payload)
}

fn cgroup(source: &Resolved) -> Option<String> {
    match &source.subject {
        Subject::Cgroup(path) => Some(path.lossy().into_owned()),
        Subject::Programs(_) => None,
    }
}

fn finish(
    invocation: &mut Invocation<'_>,
    observation: &Observation,
    payload: DiffAnswer,
) -> Result<Exit, Failure> {
    let diff = &payload.diff;
    let differ = !diff.equal || diff.node.as_ref().is_some_and(|node| !node.equal);
    let complete = invocation.answer(observation, payload, render::diff)?;
    Ok(complete.worst(if differ { Exit::No } else { Exit::Yes }))
}

/// The observation of a side that is a whole file which holds one.
fn whole_file(invocation: &mut Invocation<'_>, side: &Side) -> Result<Option<Observation>, Failure> {
    let Side::Word(text) = side else { return Ok(None) };
    let path = Path::new(text);
    let is_id = matches!(ProgramSource::from(text.clone()), ProgramSource::Id(_));
    if is_id || !path.is_file() {
        return Ok(None);
    }
    let bytes = files::read(invocation, path)?;
    if !saved::is_gpumap_json(&bytes) {
        return Ok(None);
    }
    saved::parse(&bytes, &files::name(path)).map(Some)
}

/// Both sides, if each is a whole file that holds an observation.
fn observations(
    invocation: &mut Invocation<'_>,
    a: &Side,
    b: &Side,
) -> Result<Option<(Observation, Observation)>, Failure> {
    let Some(a) = whole_file(invocation, a)? else { return Ok(None) };
    Ok(whole_file(invocation, b)?.map(|b| (a, b)))
}

/// Compares a saved subtree with a live cgroup: both sides are the whole subtree.
fn subtrees(
    invocation: &mut Invocation<'_>,
    (a, b): (&Side, &Side),
    from: Option<&Observation>,
) -> Result<Option<(Observation, Observation)>, Failure> {
    if let Some(before) = whole_file(invocation, a)? {
        return beside(invocation, before, b, from);
    }
    let Some(after) = whole_file(invocation, b)? else { return Ok(None) };
    Ok(beside(invocation, after, a, from)?.map(|(file, other)| (other, file)))
}

/// The part of a file's subtree that a cgroup names, and the same as it is now
/// or in `from`; `None` unless both have it whole.
fn beside(
    invocation: &mut Invocation<'_>,
    mut file: Observation,
    side: &Side,
    from: Option<&Observation>,
) -> Result<Option<(Observation, Observation)>, Failure> {
    let path = match side {
        Side::Word(text) if matches!(ProgramSource::from(text.clone()), ProgramSource::Id(_)) => {
            return Ok(None);
        }
        Side::Word(text) if text == "-" || Path::new(text).is_file() || split(text).is_some() => {
            return Ok(None);
        }
        Side::Word(text) => CgroupPathBuf::pasted(text).to_owned(),
        Side::Cgroup(path) => path.clone(),
        Side::Pid(_) | Side::Job(_) => return Ok(None),
    };
    let is_whole = |it: &Observation, path: &Text| {
        it.scope.iter().any(|scope| {
            scope.recursive && CgroupPath::new(path).is_at_or_below(CgroupPath::new(&scope.path))
        })
    };
    let (path, mut other) = match from {
        Some(from) => (saved::find(from, &path)?, from.clone()),
        None => {
            let path = Text::from(cgroup_paths::live(invocation, &path).map_err(neither)?);
            if !is_whole(&file, &path) {
                return Ok(None);
            }
            invocation.wanted_facts.detail = true;
            let target = CgroupTarget::observed(&path, true);
            (path, observe::cgroups(&invocation.options(), &[target])?)
        }
    };
    if !is_whole(&file, &path) || !is_whole(&other, &path) {
        return Ok(None);
    }
    let scope = vec![Scope { path, recursive: true }];
    file.scope.clone_from(&scope);
    other.scope = scope;
    Ok(Some((file, other)))
}

/// Two moments of a node; if both are of one cgroup, its policies too.
fn moments(
    invocation: &mut Invocation<'_>,
    (a, a_name): (Observation, &str),
    (b, b_name): (Observation, &str),
) -> Result<Exit, Failure> {
    let node = analyse::node_diff(&a, &b, &invocation.decoding)?;
    let subjects = (saved::only_cgroup(&a, a_name), saved::only_cgroup(&b, b_name));
    let mut payload = match (subjects, &node) {
        ((Ok(from), Ok(to)), _) => {
            let alone = |path: &Text| Some(path.lossy().into_owned());
            let paths = (alone(&from), alone(&to));
            let (from, to) = (Subject::Cgroup(from), Subject::Cgroup(to));
            let mut payload = analyse::diff((&a, &from), (&b, &to), (a_name, b_name), &invocation.decoding)?;
            (payload.diff.a_cgroup, payload.diff.b_cgroup) = paths;
            payload
        }
        (_, Some(node)) => {
            let diff =
                Diff { a: a_name.to_owned(), b: b_name.to_owned(), equal: node.equal, ..Diff::default() };
            let gpus = analyse::node(&b, &analyse::CallerAllocation::default(), &invocation.decoding)?.gpus;
            DiffAnswer { gpus, diff }
        }
        ((Err(failure), _) | (_, Err(failure)), None) => return Err(failure),
    };
    let diff = &mut payload.diff;
    diff.unknown |= !a.errors.is_empty() || !b.errors.is_empty();
    diff.equal &= !diff.unknown;
    diff.node = node;
    finish(invocation, &both(a, b), payload)
}

/// Resolves an operand: a program id, a file, a cgroup in a file, or a cgroup.
fn operand(
    invocation: &mut Invocation<'_>,
    side: &Side,
    from: Option<&Observation>,
) -> Result<Resolved, Failure> {
    let target = match side {
        Side::Word(text) => return word(invocation, text, from),
        Side::Cgroup(path) => cli::PolicyTarget::Cgroup(path),
        Side::Pid(pid) => cli::PolicyTarget::Pid(*pid),
        Side::Job(id) => cli::PolicyTarget::Job(id),
    };
    match from {
        Some(observation) => subject::in_saved(observation.clone(), target),
        None => subject::live(invocation, target),
    }
}

fn word(
    invocation: &mut Invocation<'_>,
    text: &OsString,
    from: Option<&Observation>,
) -> Result<Resolved, Failure> {
    if let ProgramSource::Id(id) = ProgramSource::from(text.clone()) {
        return program(invocation, id, from);
    }
    if let Some((file, cgroup)) = split(text) {
        let observation = saved::load(invocation, file)?;
        let subject = Subject::Cgroup(saved::find(&observation, cgroup)?);
        return Ok(Resolved { observation, subject });
    }
    let path = Path::new(text);
    match from {
        _ if text == "-" || path.is_file() => file(invocation, path),
        Some(observation) => {
            let subject = Subject::Cgroup(saved::find(observation, CgroupPathBuf::pasted(text))?);
            Ok(Resolved { observation: observation.clone(), subject })
        }
        None => subject::cgroup(invocation, CgroupPathBuf::pasted(text)).map_err(neither),
    }
}

/// A word that is no cgroup is no file either: the user may have mistyped both.
fn neither(failure: Failure) -> Failure {
    match failure {
        Failure::Problem(problem) if problem.code == ProblemCode::NoCgroup => {
            let why = format!("no such file, and {}", problem.why);
            Failure::new(ProblemCode::NoCgroup, problem.what, why, &problem.needs)
        }
        failure => failure,
    }
}

fn program(
    invocation: &mut Invocation<'_>,
    id: u32,
    from: Option<&Observation>,
) -> Result<Resolved, Failure> {
    let subject = Subject::Programs(vec![id]);
    match from {
        Some(observation) => Ok(Resolved { observation: observation.clone(), subject }),
        None => {
            let observation = gather(invocation, &[ProgramSource::Id(id)], None)?.observation;
            Ok(Resolved { observation, subject })
        }
    }
}

/// A saved observation means the one cgroup it was taken for, a program file its
/// programs in order.
fn file(invocation: &mut Invocation<'_>, path: &Path) -> Result<Resolved, Failure> {
    let (bytes, name) = (files::read(invocation, path)?, files::name(path));
    if saved::is_gpumap_json(&bytes) {
        let observation = saved::parse(&bytes, &name)?;
        let subject = Subject::Cgroup(saved::only_cgroup(&observation, &name)?);
        return Ok(Resolved { observation, subject });
    }
    let mut gathered = Gathered { observation: envelope::blank(), ids: Vec::new() };
    gathered.add_bytes(&bytes, &name)?;
    Ok(Resolved { observation: gathered.observation, subject: Subject::Programs(gathered.ids) })
}

/// Splits `FILE:/CGROUP` where FILE exists; cgroup names may hold colons too.
fn split(text: &OsStr) -> Option<(&Path, &Path)> {
    let bytes = text.as_bytes();
    let colons = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b":/"));
    let mut pairs =
        colons.map(|at| (Path::new(OsStr::from_bytes(&bytes[..at])), OsStr::from_bytes(&bytes[at + 1..])));
    pairs.find(|(file, _)| file.is_file()).map(|(file, cgroup)| (file, Path::new(cgroup)))
}

/// The envelope describes the first node and has the problems of both sides.
fn both(mut a: Observation, b: Observation) -> Observation {
    a.errors.extend(b.errors);
    a.errors.order();
    a.errors.dedup();
    a
}
