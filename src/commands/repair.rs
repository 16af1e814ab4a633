//! `gpumap repair`: what gives lost device access back.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::files::saved;
use super::invocation::{Failure, Invocation};
use super::subject::devices::Devices;
use super::subject::{self, Resolved};
use crate::analyse::Subject;
use crate::cli::device::{self, Asked};
use crate::cli::{Exit, RepairArgs};
use crate::gpu::NameError;
use crate::model::{Device, MAX_MAJOR, MAX_MINOR, ProblemCode, RepairState, Request, RequestSet, Verdict};
use crate::observation::{Observation, Text};
use crate::observe::{self, CgroupTarget};
use crate::policy::{Numbers, Rule};
use crate::render;
use crate::repair::{self, Like, RepairRequest};

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &RepairArgs) -> Result<Exit, Failure> {
    invocation.wanted_facts.units = true;
    let (observation, path) = resolve(invocation, args)?;
    let like = match &args.like {
        Some(file) => {
            Some(Like { observation: saved::load(invocation, file)?, name: super::files::name(file) })
        }
        None => None,
    };
    let devices = Devices::of(invocation, &observation);
    let request = RepairRequest {
        like,
        allow: rules(&args.allow, &devices)?,
        deny: rules(&args.deny, &devices)?,
        prevent: args.prevent,
    };
    let payload = repair::plan(&observation, &path, &request)?;
    let state = payload.repair.as_ref().map(|repair| repair.state);
    let exit = invocation.answer(&observation, payload, render::repair)?;
    Ok(exit.worst(match state {
        Some(RepairState::NothingMissing) => Exit::Yes,
        Some(RepairState::Missing) => Exit::No,
        _ => Exit::Incomplete,
    }))
}

/// The cgroup, with everything below the unit that it is in.
fn resolve(invocation: &mut Invocation<'_>, args: &RepairArgs) -> Result<(Observation, Text), Failure> {
    let is_live = invocation.global.from.is_none();
    let resolved = match saved::from_option(invocation)? {
        Some(observation) => subject::in_saved(observation, args.target())?,
        None => subject::live(invocation, args.target())?,
    };
    let Resolved { observation, subject: Subject::Cgroup(path) } = resolved else {
        return Err(Failure::new(ProblemCode::Usage, "repair", "programs have no owner", "name a cgroup"));
    };
    if !is_live {
        return Ok((observation, path));
    }
    let top = repair::unit_of(&path).unwrap_or_else(|| path.clone());
    let relative = PathBuf::from(std::ffi::OsStr::from_bytes(top.as_bytes()));
    let root = Path::new(&observation.host.cgroup_root);
    let whole = root.join(relative.strip_prefix("/").unwrap_or(&relative));
    let target = CgroupTarget { path: whole, recursive: true };
    Ok((observe::cgroups(&invocation.options(), &[target])?, path))
}

/// Devices as the command line names them.
fn rules(devices: &[OsString], known: &Devices) -> Result<Vec<Rule>, Failure> {
    devices.iter().map(|device| rule(device.as_bytes(), known)).collect()
}

fn rule(text: &[u8], known: &Devices) -> Result<Rule, Failure> {
    let name = || String::from_utf8_lossy(text);
    match device::parse(text).map_err(|why| Failure::device(text, why))? {
        Asked::Node(path) => {
            let device =
                known.node(path).map_err(|why| Failure::new(ProblemCode::NoNode, name(), why, ""))?;
            Ok(one(device))
        }
        Asked::Name(word) => {
            let bad = |why: NameError| {
                Failure::new(ProblemCode::BadDevice, format!("'{word}'"), why.to_string(), "")
            };
            known.named(word).map(one).map_err(bad)
        }
        Asked::Numbers(pattern) => {
            let numbers = |number: Option<u32>, max| Numbers {
                first: number.unwrap_or(0),
                last: number.unwrap_or(max),
                mask: None,
            };
            Ok(Rule {
                verdict: Verdict::Allow,
                kind: pattern.kind,
                major: numbers(pattern.major, MAX_MAJOR),
                minor: numbers(pattern.minor, MAX_MINOR),
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
