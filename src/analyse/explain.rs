//! The answer of `gpumap explain`.

use std::collections::BTreeMap;

use super::attachment::Tree;
use super::policies::Policies;
use super::subject::{self, AnalyseError, Subject};
use crate::bytecode::{Insn, disasm};
use crate::model::{Device, Request, Verdict};
use crate::observation::{Map, Observation, Program, Text};
use crate::policy::{self, Combination, Context, Decoder, Followed, FollowedStep, Policy, TimeLimit};
use crate::report::{Effective, ProgramProof, Proof, Step};

/// The answer of `gpumap explain`: why `request` on `device` is allowed or denied.
pub fn explain(
    observation: &Observation,
    subject: &Subject,
    device: Device,
    request: Request,
    limit: &TimeLimit,
) -> Result<Proof, AnalyseError> {
    Explainer::new(observation, subject, limit)?.explain(device, request)
}

/// Explains verdicts of one subject, whose programs are decoded once.
pub(super) struct Explainer<'a> {
    observation: &'a Observation,
    subject: &'a Subject,
    decoder: Decoder,
    policies: Policies<'a>,
    target: String,
    places: Vec<Effective>,
    programs: Vec<&'a Program>,
    cgroup_id: Option<u64>,
    /// The policy for single questions, where its programs may be too complex as a whole.
    undrawn: Option<Policy>,
}

impl<'a> Explainer<'a> {
    pub(super) fn new(
        observation: &'a Observation,
        subject: &'a Subject,
        limit: &TimeLimit,
    ) -> Result<Self, AnalyseError> {
        let mut decoder = Decoder::within(limit);
        let policies = Policies::new(observation);
        let (target, places, cgroup_id) = places(observation, subject)?;
        let programs = places.iter().filter_map(|place| subject::program(observation, place.id).ok());
        let programs = programs.collect();
        let undrawn = policies.undrawn(subject, &mut decoder);
        Ok(Self { observation, subject, decoder, policies, target, places, programs, cgroup_id, undrawn })
    }

    /// Why `request` on `device` is allowed or denied.
    pub(super) fn explain(&mut self, device: Device, request: Request) -> Result<Proof, AnalyseError> {
        let context = self.policies.context(self.cgroup_id);
        let decoder = &mut self.decoder;
        let proof = decoder.prove(&self.programs, &context, device, request);
        let policy = match self.undrawn {
            Some(policy) if decoder.verdict(policy, device, request) != Verdict::Unknown => policy,
            _ => self.policies.of_subject(self.subject, decoder)?,
        };
        let asks_about_whiteouts = policy::asks_about_whiteouts(&self.observation.host.kernel);
        let is_asked = !device.is_never_asked(request, asks_about_whiteouts);
        let verdict = match is_asked {
            true => decoder.verdict(policy, device, request),
            false => Verdict::Allow,
        };
        let why = (verdict == Verdict::Unknown).then(|| decoder.why(policy, device, request).join("; "));
        let parts = self.programs.iter().zip(&proof.programs);
        let proofs = parts
            .map(|(program, followed)| {
                let place = self.places.iter().find(|place| place.id == program.id);
                program_proof(program, followed, place, context.maps)
            })
            .collect();
        let in_force = has_programs(self.observation, self.subject).then_some(self.places.len());
        Ok(Proof {
            target: self.target.clone(),
            device: format!("{device} {}", request.letters()),
            programs: proofs,
            rule: match is_asked {
                true => rule(proof.programs.len(), context.combination, in_force),
                false => NEVER_ASKED.to_owned(),
            },
            devices_v1: devices_v1(self.observation, self.subject, proof.verdict, verdict),
            verdict,
            why,
        })
    }
}

/// The path that is asked about, its programs in run order, and its id.
fn places(
    observation: &Observation,
    subject: &Subject,
) -> Result<(String, Vec<Effective>, Option<u64>), AnalyseError> {
    match subject {
        Subject::Cgroup(path) => {
            let cgroup = subject::cgroup(observation, path)?;
            let effective = Tree::new(&observation.cgroups).effective(cgroup);
            Ok((path.lossy().into_owned(), effective, Some(cgroup.id)))
        }
        Subject::Programs(ids) => {
            for id in ids {
                subject::program(observation, *id)?;
            }
            let names: Vec<String> = ids.iter().map(|id| format!("program {id}")).collect();
            let places = ids.iter().map(|id| Effective { id: *id, ..Effective::default() });
            Ok((names.join(", "), places.collect(), None))
        }
    }
}

/// Whether the programs in force are known at all.
fn has_programs(observation: &Observation, subject: &Subject) -> bool {
    match subject {
        Subject::Cgroup(path) => {
            subject::cgroup(observation, path).is_ok_and(|cgroup| cgroup.effective.known().is_some())
        }
        Subject::Programs(_) => true,
    }
}

/// The ways of one question through the programs in force, and their common result.
#[derive(Debug)]
pub(super) struct Ways {
    pub(super) programs: Vec<ProgramProof>,
    pub(super) verdict: Verdict,
}

/// Follows a question through programs with their places, in run order.
pub(super) fn ways(
    decoder: &mut Decoder,
    context: &Context<'_>,
    (places, programs): (&[Effective], &[&Program]),
    (device, request): (Device, Request),
) -> Ways {
    let proof = decoder.prove(programs, context, device, request);
    let parts = programs.iter().zip(&proof.programs).zip(places);
    let ways =
        parts.map(|((program, followed), place)| program_proof(program, followed, Some(place), context.maps));
    Ways { programs: ways.collect(), verdict: proof.verdict }
}

fn program_proof(
    program: &Program,
    followed: &Followed,
    place: Option<&Effective>,
    maps: &[Map],
) -> ProgramProof {
    let insns = |program: &Program| program.xlated.known().and_then(|xlated| Insn::parse_all(&xlated.0));
    let called = maps.iter().flat_map(|map| &map.programs).chain([program]);
    let listings: BTreeMap<u32, (&Program, Vec<Insn>)> =
        called.map(|program| (program.id, (program, insns(program).unwrap_or_default()))).collect();
    let step = |step: &FollowedStep| Step {
        pc: step.slot,
        program: step.program,
        text: listings
            .get(&step.program.unwrap_or(program.id))
            .map(|(program, insns)| disasm::text(insns, step.slot, &program.calls))
            .unwrap_or_default(),
        meaning: step.meaning.clone(),
    };
    ProgramProof {
        id: program.id,
        attached_at: place.map(|place| place.attached_at.clone()).unwrap_or_default(),
        flags: place.map(|place| place.flags.clone()).unwrap_or_default(),
        name: program.name.lossy().into_owned(),
        steps: followed.steps.iter().map(step).collect(),
        decided_at: followed.decided_at,
        returns: followed.returned.into(),
        retval: followed.retval,
        why: followed.why.clone(),
    }
}

/// The reason for a device about which the kernel asks no program.
const NEVER_ASKED: &str =
    "The kernel never asks about c 0:0 (a whiteout of overlayfs): it is allowed whatever the programs say.";

/// The kernel's rule for combining results, as it applies here.
/// `in_force` is the number of programs in force, `None` if that could not be asked.
pub(super) fn rule(programs: usize, combination: Combination, in_force: Option<usize>) -> String {
    let Some(in_force) = in_force else {
        return "Which device programs are in force could not be asked.".to_owned();
    };
    if programs < in_force {
        let missing = in_force - programs;
        return format!("{missing} of {in_force} programs in force could not be read.");
    }
    let rule = match (programs, combination) {
        (0, _) => "No device program is in force, so the kernel allows every device.",
        (1, _) => "One program is in force: what it returns is the answer.",
        (_, Combination::AllMustAllow) => {
            "Every program runs, and the request is allowed only if all return 1."
        }
        (_, Combination::Retval) => {
            "Every program runs; a 0 from any of them sets the error EPERM, \
             which stands unless a later program clears it with bpf_set_retval."
        }
    };
    rule.to_owned()
}

/// The part of the v1 controller in the answer, if it restricts devices here.
fn devices_v1(
    observation: &Observation,
    subject: &Subject,
    programs: Verdict,
    all: Verdict,
) -> Option<String> {
    let Subject::Cgroup(path) = subject else { return None };
    v1_sentence(observation, path, programs, all)
}

/// The same for a cgroup: `programs` is the verdict of its programs, `all` that of both.
pub(super) fn v1_sentence(
    observation: &Observation,
    path: &Text,
    programs: Verdict,
    all: Verdict,
) -> Option<String> {
    observation.devices_v1.as_ref()?;
    if !observation.processes.iter().any(|process| process.cgroup == *path) {
        let silent = "The v1 devices controller is mounted too, but no process inside says which of its groups counts.";
        return Some(silent.to_owned());
    }
    Some(match (programs, all) {
        (_, Verdict::Unknown) => {
            "The v1 devices controller is mounted too, and its part is not known.".to_owned()
        }
        (Verdict::Allow, Verdict::Deny) => {
            "The v1 devices controller denies it, and both must allow.".to_owned()
        }
        _ => "The v1 devices controller does not change the answer.".to_owned(),
    })
}
