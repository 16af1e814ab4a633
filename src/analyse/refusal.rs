//! What decides a refusal that the kernel gave.

use crate::model::{Device, Request, Verdict};
use crate::observation::{Observation, Text};
use crate::policy::TimeLimit;
use crate::report::{DenyingProgram, ProgramProof, Proof};

use super::explain::Explainer;
use super::subject::Subject;

/// Said where what is in force now does not refuse what was refused.
const CHANGED: &str = "what is in force now allows it: it was changed after that";

/// What refuses a request in a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This program, with the instruction that sets what it returns.
    Program(DenyingProgram),
    /// The devices controller of cgroup v1: the programs allow it.
    DevicesV1,
    /// It is not known, for this reason.
    Unknown(String),
}

/// What refuses each of some requests in a cgroup of an observation, by the programs in force
/// there. The kernel did refuse them: where programs allow one, something has changed since.
#[must_use]
pub fn refusals(
    observation: &Observation,
    path: &Text,
    requests: &[(Device, Request)],
    limit: &TimeLimit,
) -> Vec<Refusal> {
    let subject = Subject::Cgroup(path.clone());
    let mut explainer = Explainer::new(observation, &subject, limit);
    let explained = requests.iter().map(|(device, request)| match &mut explainer {
        Ok(explainer) => match explainer.explain(*device, *request) {
            Ok(proof) => of_proof(proof),
            Err(error) => Refusal::Unknown(error.to_string()),
        },
        Err(error) => Refusal::Unknown(error.to_string()),
    });
    explained.collect()
}

fn of_proof(proof: Proof) -> Refusal {
    match proof.verdict {
        Verdict::Unknown => Refusal::Unknown(proof.why.unwrap_or_default()),
        Verdict::Allow => Refusal::Unknown(CHANGED.to_owned()),
        Verdict::Deny => match proof.programs.iter().find(|program| is_open(program)) {
            Some(program) => Refusal::Unknown(program.why.clone().unwrap_or_default()),
            None => denying(&proof).map_or(Refusal::DevicesV1, Refusal::Program),
        },
    }
}

/// Whether it is not known what a program does with the error.
fn is_open(program: &ProgramProof) -> bool {
    program.retval.is_none() && program.returns == Verdict::Unknown
}

/// The program after which the error stays: a later one may clear what an earlier one set.
/// `None` where none is left after the last.
fn denying(proof: &Proof) -> Option<DenyingProgram> {
    let denies = |program: &ProgramProof| match program.retval {
        Some(retval) => retval != 0,
        None => program.returns == Verdict::Deny,
    };
    let first =
        proof.programs.iter().rposition(|program| !denies(program)).map_or(0, |allowing| allowing + 1);
    let program = proof.programs.get(first)?;
    let is_it = |pc| move |step: &&crate::report::Step| step.pc == pc && step.program.is_none();
    Some(DenyingProgram {
        id: program.id,
        name: program.name.clone(),
        attached_at: program.attached_at.clone(),
        instruction: program.decided_at.and_then(|pc| program.steps.iter().rfind(is_it(pc)).cloned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Step;

    fn program(id: u32, returns: Verdict, retval: i32) -> ProgramProof {
        let step = |pc| Step { pc, ..Step::default() };
        let steps = vec![step(1), step(4)];
        ProgramProof {
            id,
            returns,
            retval: Some(retval),
            steps,
            decided_at: Some(4),
            ..ProgramProof::default()
        }
    }

    /// Make sure that a program that could not be followed lets nothing be said of the others,
    /// and the v1 controller is not named in their place.
    #[test]
    fn open() {
        let late = ProgramProof { returns: Verdict::Unknown, retval: None, ..program(2, Verdict::Deny, -1) };
        let late = ProgramProof { why: Some("too late".to_owned()), ..late };
        let programs = vec![program(1, Verdict::Deny, -1), late];
        let proof = Proof { verdict: Verdict::Deny, programs, ..Proof::default() };
        assert_eq!(of_proof(proof), Refusal::Unknown("too late".to_owned()));
    }

    /// Make sure that the first program of those whose error stays is named, not one whose
    /// error a later one cleared, and none where all is cleared.
    #[test]
    fn which() {
        let of = |programs: Vec<ProgramProof>| denying(&Proof { programs, ..Proof::default() });
        let (allow, deny) = (|id| program(id, Verdict::Allow, 0), |id| program(id, Verdict::Deny, -1));
        let still = |id| program(id, Verdict::Allow, -1);
        assert_eq!(of(vec![allow(1), deny(2), still(3)]).unwrap().id, 2);
        assert_eq!(of(vec![deny(1), allow(2), deny(3)]).unwrap().id, 3);
        assert_eq!(of(vec![deny(1), allow(2)]), None);
        assert_eq!(of(Vec::new()), None);
        assert_eq!(of(vec![deny(1)]).unwrap().instruction.unwrap().pc, 4);
    }
}
