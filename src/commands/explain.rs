//! `gpumap explain`: the proof of one verdict.

use std::os::unix::ffi::OsStrExt as _;

use super::invocation::{Failure, Invocation};
use super::subject;
use super::subject::devices::Devices;
use crate::audit;
use crate::cli::device::{self, DeviceArgument, Pattern};
use crate::cli::{Exit, ExplainArgs};
use crate::gpu::NameError;
use crate::model::Verdict;
use crate::model::{Device, ProblemCode, Request};
use crate::report::ExplainAnswer;
use crate::{analyse, render};

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &ExplainArgs) -> Result<Exit, Failure> {
    let text = args.device.as_bytes();
    let asked = device::parse(text).map_err(|why| Failure::device(text, why))?;
    let source = subject::resolve(invocation, &args.target)?;
    let (device, request) = one(&asked, text, &Devices::of(invocation, &source.observation))?;
    let proof =
        analyse::explain(&source.observation, &source.subject, device, request, &invocation.decoding)?;
    let exit = exit(proof.verdict);
    let answer = ExplainAnswer { proof };
    invocation.answer(&source.observation, answer, |out, style, answer| {
        render::explain(out, style, &answer.proof)
    })?;
    Ok(exit)
}

/// A proof is about one device and one request.
fn one(asked: &DeviceArgument<'_>, text: &[u8], devices: &Devices) -> Result<(Device, Request), Failure> {
    let name = || String::from_utf8_lossy(text);
    match asked {
        DeviceArgument::Node(path) => {
            let device =
                devices.node(path).map_err(|why| Failure::new(ProblemCode::NoNode, name(), why, ""))?;
            Ok((device, Request::ReadWrite))
        }
        DeviceArgument::Name(word) => {
            let bad = |why: NameError| {
                let needs = finding(word).unwrap_or_default();
                Failure::new(ProblemCode::BadDevice, format!("'{word}'"), why.to_string(), &needs)
            };
            Ok((devices.named(word).map_err(bad)?, Request::ReadWrite))
        }
        DeviceArgument::Numbers(Pattern { kind, major, minor, requests }) => {
            let device = kind.zip(major.single().zip(minor.single()));
            let device = device.map(|(kind, (major, minor))| Device { kind, major, minor });
            device.zip(requests.single()).ok_or_else(|| several(&name()))
        }
    }
}

/// What to type where a word is the id of a finding.
fn finding(word: &str) -> Option<String> {
    let kind = audit::kind(&word.to_ascii_lowercase())?;
    Some(format!("gpumap audit --explain {} says what this finding means", kind.id))
}

fn several(name: &str) -> Failure {
    let needs = "name one type, one number and one request, such as 'c 195:3 rw'";
    Failure::new(
        ProblemCode::BadDevice,
        format!("'{name}'"),
        "more than one question, and a proof answers one",
        needs,
    )
}

fn exit(verdict: Verdict) -> Exit {
    match verdict {
        Verdict::Allow => Exit::Yes,
        Verdict::Deny => Exit::No,
        Verdict::Unknown => Exit::Incomplete,
    }
}
