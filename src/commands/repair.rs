//! `gpumap repair`: what gives lost device access back, and giving it back.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::files::{self, saved};
use super::invocation::{Failure, Invocation, cgroup_paths, envelope};
use super::subject::devices::Devices;
use super::subject::{self, Resolved};
use crate::analyse::{CallerAllocation, Subject};
use crate::audit::{self, Config};
use crate::cli::device::{self, DeviceArgument};
use crate::cli::{Exit, RepairArgs};
use crate::gpu::NameError;
use crate::model::{
    Device, JournalState, Numbers, ProblemCode, RepairState, Request, RequestSet, Rule, Span, Verdict,
};
use crate::observation::{Observation, Problem, Text};
use crate::observe::{self, CgroupTarget};
use crate::owner::Directory;
use crate::render;
use crate::repair::apply::{self, Undone};
use crate::repair::{self, Like, RepairRequest};
use crate::report::{JournalsAnswer, RepairAnswer, RepairJournal, RepairsAnswer};

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &RepairArgs) -> Result<Exit, Failure> {
    let changes = args.apply || args.list || args.undo.is_some();
    if changes && invocation.global.from.is_some() {
        let why = "a saved observation is no node that could be changed or asked";
        return Err(Failure::new(ProblemCode::Usage, "--from", why, "leave --from out"));
    }
    if args.list {
        return list(invocation);
    }
    if let Some(journal) = &args.undo {
        return undo(invocation, journal);
    }
    if args.is_about_all() {
        return plan_all(invocation, args);
    }
    want_facts(invocation);
    let (observation, path) = resolve(invocation, args)?;
    let request = request(invocation, args, &observation)?;
    let (payload, change) = repair::prepare(&observation, &path, &request, &invocation.decoding)?;
    if !args.apply {
        return answer(invocation, &observation, payload);
    }
    let is_whole = payload.repair.state == RepairState::NothingMissing;
    let Some(change) = change else {
        let exit = answer(invocation, &observation, payload)?;
        if !is_whole {
            writeln!(invocation.err, "gpumap: nothing was changed: --apply has no replacement to make here")?;
        }
        return Ok(exit);
    };
    let options = unhurried(invocation);
    let applied = apply::apply(&options, &observation, &change)?;
    // What is missing now is asked anew, of the kernel as it is now.
    let (observation, _) = observe_all(invocation, args, path.clone())?;
    let (mut payload, _) = repair::prepare(&observation, &path, &request, &invocation.decoding)?;
    payload.repair.applied = Some(applied);
    answer(invocation, &observation, payload)
}

/// A change is proved to its end, whatever --timeout says.
fn unhurried(invocation: &Invocation<'_>) -> observe::Options {
    observe::Options { deadline: None, ..invocation.options() }
}

/// What the command line asks for, with its files read and its devices looked up.
fn request(
    invocation: &mut Invocation<'_>,
    args: &RepairArgs,
    observation: &Observation,
) -> Result<RepairRequest, Failure> {
    let like = match &args.like {
        Some(file) => Some(Like { observation: saved::load(invocation, file)?, name: files::name(file) }),
        None => None,
    };
    let devices = Devices::of(invocation, observation);
    let at = args.at.as_ref().map(|at| around(invocation, observation, at)).transpose()?;
    Ok(RepairRequest {
        like,
        allow: rules(&args.allow, &devices)?,
        allocated: args.allocated.clone(),
        deny: rules(&args.deny, &devices)?,
        prevent: args.prevent,
        direct: args.direct,
        at,
        words: words(args, invocation.global.gres_conf.as_deref()),
    })
}

/// Plans for everybody of whom an audit finds that access was lost.
fn plan_all(invocation: &mut Invocation<'_>, args: &RepairArgs) -> Result<Exit, Failure> {
    if args.needs_a_name() {
        let needs = "name a cgroup, a container, --pid or --job; without one gpumap only plans";
        return Err(Failure::new(ProblemCode::Usage, "repair", "nobody was named", needs));
    }
    invocation.wanted_facts.detail = true;
    want_facts(invocation);
    let observation = whole(invocation)?;
    let granted = CallerAllocation::default();
    let (found, _) = audit::audit_and_node(&observation, &granted, &Config::default(), &invocation.decoding)?;
    let lost = found.findings.iter().filter(|one| one.id == audit::ACCESS_LOST);
    let paths: BTreeSet<&str> = lost.filter_map(|one| one.cgroup.as_deref()).collect();
    let mut repairs = Vec::new();
    for cgroup in observation.cgroups.iter().filter(|cgroup| paths.contains(&*cgroup.path.lossy())) {
        let request = RepairRequest::default();
        let (plan, _) = repair::prepare(&observation, &cgroup.path, &request, &invocation.decoding)?;
        repairs.push(plan.repair);
    }
    let state = repairs.iter().map(|repair| exit(repair.state)).fold(Exit::Yes, Exit::worst);
    let answer = RepairsAnswer { gpus: found.gpus, repairs };
    Ok(invocation.answer(&observation, answer, render::repairs)?.worst(state))
}

/// The exit status of a plan.
fn exit(state: RepairState) -> Exit {
    match state {
        RepairState::NothingMissing => Exit::Yes,
        RepairState::Missing => Exit::No,
        RepairState::Unknown => Exit::Incomplete,
    }
}

/// The node as it is, or as it was saved.
fn whole(invocation: &mut Invocation<'_>) -> Result<Observation, Failure> {
    match saved::from_option(invocation)? {
        Some(observation) => Ok(observation),
        None => Ok(observe::cgroups(&invocation.options(), &[CgroupTarget::all()])?),
    }
}

/// Asks for the facts that say what should be allowed.
fn want_facts(invocation: &mut Invocation<'_>) {
    invocation.wanted_facts.units = true;
    invocation.wanted_facts.containers = true;
    invocation.wanted_facts.slurm = true;
}

/// Prints a plan.
fn answer(
    invocation: &mut Invocation<'_>,
    observation: &Observation,
    payload: RepairAnswer,
) -> Result<Exit, Failure> {
    let state = payload.repair.state;
    let exit = invocation.answer(observation, payload, render::repair)?;
    Ok(exit.worst(self::exit(state)))
}

/// The cgroup of `--at`.
fn around(invocation: &Invocation<'_>, observation: &Observation, at: &Path) -> Result<Text, Failure> {
    if invocation.global.from.is_some() {
        return saved::find(observation, at);
    }
    Ok(cgroup_paths::live(invocation, at)?.into())
}

/// The words of the command line that say what should be allowed, to be printed in a
/// line that does the same; those that are no text are left out, and the line is then
/// refused by itself.
fn words(args: &RepairArgs, gres_conf: Option<&Path>) -> Vec<String> {
    let mut words = Vec::new();
    let mut add = |option: &str, value: &std::ffi::OsStr| {
        words.extend([option.to_owned(), value.to_string_lossy().into_owned()]);
    };
    args.like.iter().for_each(|file| add("--like", file.as_os_str()));
    args.allow.iter().for_each(|device| add("--allow", device));
    args.allocated.iter().for_each(|list| add("--allocated", list.as_ref()));
    gres_conf.iter().for_each(|file| add("--gres-conf", file.as_os_str()));
    args.deny.iter().for_each(|device| add("--deny", device));
    args.at.iter().for_each(|at| add("--at", at.as_os_str()));
    words
}

/// What was replaced, and what became of it.
fn list(invocation: &mut Invocation<'_>) -> Result<Exit, Failure> {
    let (journals, unread) = apply::list(&unhurried(invocation))?;
    let mut observation = envelope::blank();
    observation.errors = unread
        .into_iter()
        .map(|why| Problem {
            code: ProblemCode::File,
            what: "a journal".to_owned(),
            why,
            ..Problem::default()
        })
        .collect();
    invocation.answer(&observation, JournalsAnswer { journals }, render::journals)
}

/// Takes a change back.
fn undo(invocation: &mut Invocation<'_>, name: &Path) -> Result<Exit, Failure> {
    let (journal, undone) = apply::undo(&unhurried(invocation), name)?;
    let (state, because) = match undone {
        Undone::Back(count) => (
            JournalState::NotInForce,
            format!(
                "program {} is back in its place; {count} cgroups were compared and are as planned",
                journal.replacement.program
            ),
        ),
        Undone::TakenAway(count) => (
            JournalState::NotInForce,
            format!("gpumap's program was taken away; {count} cgroups were compared and decide as before"),
        ),
        Undone::Nothing(why) => (JournalState::NotInForce, format!("nothing to undo: {why}")),
    };
    let journal = RepairJournal { state: Some(state), because: Some(because), ..journal };
    invocation.answer(&envelope::blank(), JournalsAnswer { journals: vec![journal] }, render::journals)
}

/// The cgroup, with everything below the unit that it is in.
fn resolve(invocation: &mut Invocation<'_>, args: &RepairArgs) -> Result<(Observation, Text), Failure> {
    let is_live = invocation.global.from.is_none();
    if let Some(word) = args.container() {
        return container(invocation, word);
    }
    let resolved = match saved::from_option(invocation)? {
        Some(observation) => subject::in_saved(observation, args.target())?,
        None => subject::live(invocation, args.target())?,
    };
    let Resolved { observation, subject: Subject::Cgroup(path) } = resolved else {
        return Err(Failure::new(ProblemCode::Usage, "repair", "programs have no owner", "name a cgroup"));
    };
    if is_live { observe_all(invocation, args, path) } else { Ok((observation, path)) }
}

/// The node, and the cgroup of the container that a word names.
fn container(invocation: &mut Invocation<'_>, word: &str) -> Result<(Observation, Text), Failure> {
    let observation = whole(invocation)?;
    let found = Directory::new(&observation).containers(word);
    match found.as_slice() {
        [path] => Ok((observation, path.clone())),
        [] => {
            let needs =
                "name a cgroup's path, a job's number, or a container's id; gpumap lists what is here";
            Err(Failure::new(
                ProblemCode::NoCgroup,
                format!("'{word}'"),
                "no container here is called so",
                needs,
            ))
        }
        several => {
            let paths: Vec<_> = several.iter().map(|path| path.lossy()).collect();
            let needs = format!("name one with --cgroup: {}", paths.join(", "));
            Err(Failure::new(
                ProblemCode::WhichCgroup,
                format!("'{word}'"),
                "it may mean several containers",
                &needs,
            ))
        }
    }
}

/// Everything that a plan for a cgroup looks at: all below its unit, or, where devices
/// are given that may be others', the whole node.
fn observe_all(
    invocation: &Invocation<'_>,
    args: &RepairArgs,
    path: Text,
) -> Result<(Observation, Text), Failure> {
    let needs_all = args.direct || args.apply || args.at.is_some();
    let needs_all = needs_all || !args.allow.is_empty() || args.allocated.is_some();
    let top = if needs_all { "/".into() } else { repair::unit_of(&path).unwrap_or_else(|| path.clone()) };
    let target = CgroupTarget::observed(&top, true);
    Ok((observe::cgroups(&invocation.options(), &[target])?, path))
}

/// Devices as the command line names them.
fn rules(devices: &[OsString], known: &Devices) -> Result<Vec<Rule>, Failure> {
    devices.iter().map(|device| rule(device.as_bytes(), known)).collect()
}

fn rule(text: &[u8], known: &Devices) -> Result<Rule, Failure> {
    let name = || String::from_utf8_lossy(text);
    match device::parse(text).map_err(|why| Failure::device(text, why))? {
        DeviceArgument::Node(path) => {
            let device =
                known.node(path).map_err(|why| Failure::new(ProblemCode::NoNode, name(), why, ""))?;
            Ok(one(device))
        }
        DeviceArgument::Name(word) => {
            let bad = |why: NameError| {
                Failure::new(ProblemCode::BadDevice, format!("'{word}'"), why.to_string(), "")
            };
            known.named(word).map(one).map_err(bad)
        }
        DeviceArgument::Numbers(pattern) => {
            let numbers = |span: Span| Numbers { first: span.first, last: span.last, mask: None };
            Ok(Rule {
                verdict: Verdict::Allow,
                kind: pattern.kind,
                major: numbers(pattern.major),
                minor: numbers(pattern.minor),
                requests: with_parts(pattern.requests),
            })
        }
    }
}

/// Opening one device in every way.
fn one(device: Device) -> Rule {
    let number = |number| Numbers { first: number, last: number, mask: None };
    Rule {
        verdict: Verdict::Allow,
        kind: Some(device.kind),
        major: number(device.major),
        minor: number(device.minor),
        requests: with_parts(Request::ReadWrite.into()),
    }
}

/// Requests as an allow list has them: with `rw` reading and writing alone, and with
/// each request the existence test.
fn with_parts(requests: RequestSet) -> RequestSet {
    let requests = requests.with(Request::Exists);
    if requests.contains(Request::ReadWrite) {
        requests.with(Request::Read).with(Request::Write)
    } else {
        requests
    }
}
