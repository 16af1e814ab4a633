//! `gpumap audit`: audits GPU isolation, against a baseline and with a report if asked.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::files::{self, activity_state, denials_state, saved};
use super::invocation::{Failure, Invocation, cgroup_paths, envelope};
use super::page::{self, Examined};
use super::subject::{allocation, job};
use crate::analyse::{CallerAllocation, CommandAnswer};
use crate::audit::{self, AuditScope, Baseline, Config};
use crate::cli::{AuditArgs, Exit};
use crate::model::ProblemCode;
use crate::observation::{Observation, Text};
use crate::observe::{self, CgroupTarget};
use crate::render::{self, Nagios};
use crate::report::{AuditAnswer, AuditOptions, KindsAnswer};

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &AuditArgs) -> Result<Exit, Failure> {
    if args.list || args.explain.is_some() {
        return document(invocation, args.explain.as_deref());
    }
    if args.nagios && invocation.global.json {
        return Err(Failure::new(
            ProblemCode::Usage,
            "--nagios",
            "does not go with --json",
            "choose one of the two",
        ));
    }
    if args.verify && invocation.global.from.is_some() {
        let why = "the kernel cannot be asked about a saved node";
        return Err(Failure::new(ProblemCode::Usage, "--verify", why, "leave it out"));
    }
    let examined = examine(invocation, args)?;
    let Examined { observation, payload, .. } = &examined;
    if let Some(path) = &args.report {
        let saved = report(invocation, path, observation, payload);
        keep_finding(invocation, saved, payload)?;
    }
    if let Some(path) = &args.html {
        let written = page::write(invocation, &examined, path).map(|_file| ());
        keep_finding(invocation, written, payload)?;
    }
    let exit = answer(invocation, args, observation, payload.clone())?;
    invocation.out.flush()?;
    Ok(if args.fails_open() { Exit::Yes } else { exit })
}

/// Observes the node and looks for findings.
pub(super) fn examine(invocation: &mut Invocation<'_>, args: &AuditArgs) -> Result<Examined, Failure> {
    allocation::request(invocation, &args.allocation.slurm)?;
    invocation.wanted_facts.units = true;
    let mut subject = subject(invocation, args)?;
    let mut payload = judge(invocation, args, &mut subject)?;
    remember(&mut payload, subject.options);
    if let Some(path) = &args.baseline {
        audit::compare(&mut payload, &baseline(invocation, path)?);
    }
    audit::judge(&mut payload, args.limit());
    let AuditSubject { observation, granted, scope, .. } = subject;
    Ok(Examined { observation, granted, paths: scope.paths, payload })
}

/// A report that cannot be written must not hide a finding that is bad enough:
/// then it is only said.
fn keep_finding(
    invocation: &mut Invocation<'_>,
    saved: Result<(), Failure>,
    payload: &AuditAnswer,
) -> Result<(), Failure> {
    match saved {
        Err(Failure::Problem(problem)) if payload.audit.failed => invocation.problems(&[*problem]),
        saved => saved,
    }
}

/// The subject of an audit.
struct AuditSubject {
    observation: Observation,
    granted: CallerAllocation,
    config: Config,
    scope: AuditScope,
    options: AuditOptions,
}

fn subject(invocation: &mut Invocation<'_>, args: &AuditArgs) -> Result<AuditSubject, Failure> {
    let (mut observation, former) = observe(invocation)?;
    if invocation.global.from.is_some() {
        saved::take_gres_conf(invocation, &mut observation)?;
    }
    activity_state::add(invocation, args.state.as_deref(), &mut observation)?;
    denials_state::add(invocation, args.denials.as_deref(), &mut observation)?;
    let (config, file) = files::config(invocation, args.config.as_deref(), former.config)?;
    if !config.owners.is_empty() {
        observation.owner_patterns.clone_from(&config.owners);
    }
    let granted = CallerAllocation { list: args.allocation.allocated.clone().or(former.allocated) };
    let job = if args.allocation.slurm.from_env { Some(job::one(invocation, None, true)?) } else { None };
    let former_job = former.job.as_deref().map(job::own).transpose()?;
    let paths = match args.paths.as_slice() {
        [] => former.paths.iter().map(PathBuf::from).collect(),
        paths => paths.to_vec(),
    };
    let scope = AuditScope {
        paths: paths
            .iter()
            .map(|path| find(invocation, &observation, path))
            .collect::<Result<_, Failure>>()?,
        job: job.or(former_job),
    };
    let options = AuditOptions {
        allocated: granted.list.clone(),
        paths: scope.paths.iter().map(|path: &Text| path.lossy().into_owned()).collect(),
        job: scope.job.as_ref().map(ToString::to_string),
        config: file,
    };
    Ok(AuditSubject { observation, granted, config, scope, options })
}

/// Looks for findings; with `--verify` the kernel is asked in the cgroups whose programs
/// differ.
fn judge(
    invocation: &Invocation<'_>,
    args: &AuditArgs,
    subject: &mut AuditSubject,
) -> Result<AuditAnswer, Failure> {
    let AuditSubject { observation, granted, config, scope, .. } = subject;
    let (mut verified, mut problems) = (Vec::new(), Vec::new());
    let payload = audit::audit_asking(observation, granted, config, scope, &invocation.decoding, |wanted| {
        if args.verify {
            let node = |(path, major, minor)| observe::verify::Node { path, major, minor };
            let nodes: Vec<_> = wanted.nodes.into_iter().map(node).collect();
            (verified, problems) =
                observe::verify::ask(&invocation.options(), observation, &wanted.cgroups, &nodes);
        }
        verified.clone()
    })?;
    observation.verified.append(&mut verified);
    observation.errors.append(&mut problems);
    Ok(payload)
}

fn find(invocation: &Invocation<'_>, observation: &Observation, path: &Path) -> Result<Text, Failure> {
    if invocation.global.from.is_some() {
        return saved::find(observation, path);
    }
    let path = Text::from(cgroup_paths::live(invocation, path)?);
    if observation.cgroups.iter().any(|cgroup| cgroup.path == path) {
        return Ok(path);
    }
    Err(Failure::new(ProblemCode::NoCgroup, path.lossy(), "no such cgroup", ""))
}

/// The whole node, or a saved one, with the options that its report was made with.
fn observe(invocation: &mut Invocation<'_>) -> Result<(Observation, AuditOptions), Failure> {
    let Some(path) = invocation.global.from.clone() else {
        return Ok((
            observe::cgroups(&invocation.options(), &[CgroupTarget::all()])?,
            AuditOptions::default(),
        ));
    };
    let bytes = files::read_unpacked(invocation, &path)?;
    let name = files::name(&path);
    if saved::is_report(&bytes) {
        return saved::report(&bytes, &name);
    }
    Ok((saved::parse(&bytes, &name)?, AuditOptions::default()))
}

/// Prints the findings. A finding that fails the audit decides the exit code, even
/// if something could not be seen; "no finding" does so only if everything was seen.
fn answer(
    invocation: &mut Invocation<'_>,
    args: &AuditArgs,
    observation: &Observation,
    payload: AuditAnswer,
) -> Result<Exit, Failure> {
    let complete = observation.errors.is_empty() && !payload.has_unknown();
    if args.nagios {
        let state = Nagios::of(&payload, complete);
        render::nagios(invocation.out, state, &payload, &observation.errors)?;
        return Ok(exit(state));
    }
    let failed = payload.audit.failed;
    let seen = invocation
        .answer(observation, payload, |out, style, payload| render::audit(out, style, payload, complete))?;
    Ok(if failed { Exit::No } else { seen })
}

/// Nagios counts differently: 1 is a warning, 2 critical, 3 unknown.
fn exit(state: Nagios) -> Exit {
    match state {
        Nagios::Ok => Exit::Yes,
        Nagios::Warning => Exit::No,
        Nagios::Critical => Exit::Failed,
        Nagios::Unknown => Exit::Incomplete,
    }
}

/// Ends an invocation without an answer, in the form that the caller expects: a
/// failure of gpumap says nothing about the node.
pub(super) fn fail(invocation: &mut Invocation<'_>, args: &AuditArgs, failure: &Failure) -> Exit {
    if args.nagios {
        let _nobody_left = render::nagios_unknown(invocation.out, &failure.to_string());
        let _nobody_left = invocation.out.flush();
        return Exit::Incomplete;
    }
    let exit = invocation.fail(failure);
    if args.fails_open() { Exit::Yes } else { exit }
}

/// Prints the documentation of one finding or the list of all.
fn document(invocation: &mut Invocation<'_>, id: Option<&str>) -> Result<Exit, Failure> {
    let kinds: Vec<&audit::Kind> = match id {
        None => audit::kinds().collect(),
        Some(id) => match audit::kind(id) {
            Some(kind) => vec![kind],
            None => {
                let needs = "gpumap audit --list lists all";
                return Err(Failure::new(ProblemCode::NoFinding, "--explain", audit::no_such_id(id), needs));
            }
        },
    };
    let answer = KindsAnswer { kinds: kinds.into_iter().map(audit::Kind::document).collect() };
    let view = if id.is_some() { render::finding_pages } else { render::finding_list };
    invocation.answer(&envelope::blank(), answer, view)
}

/// A former audit.
fn baseline(invocation: &mut Invocation<'_>, path: &Path) -> Result<Baseline, Failure> {
    let bytes = files::read(invocation, path)?;
    let needs = "save one with gpumap audit --report FILE";
    Baseline::read(&bytes)
        .map_err(|why| Failure::new(ProblemCode::BadBaseline, files::name(path), why, needs))
}

/// Saves the answer with the observation it rests on.
fn report(
    invocation: &Invocation<'_>,
    path: &Path,
    observation: &Observation,
    payload: &AuditAnswer,
) -> Result<(), Failure> {
    let payload = AuditAnswer { observation: Some(Box::new(observation.clone())), ..payload.clone() };
    let document = envelope::document(invocation.command, observation, payload);
    files::save(path, &document)
}

/// Keeps the options and files that are needed to make the audit again.
fn remember(payload: &mut AuditAnswer, options: AuditOptions) {
    payload.audit.options = options;
}
