//! The envelope around every JSON answer.

use crate::observation::{Observation, Problem};
use crate::report::{Document, Payload, Policy, SCHEMA};

const UNKNOWN: &str = "unknown";

/// An answer in its envelope.
pub(super) fn document(command: &str, observation: &Observation, payload: Payload) -> Document {
    Document {
        schema: SCHEMA.to_owned(),
        command: command.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        taken_at: observation.taken_at.clone(),
        host: observation.host.clone(),
        complete: observation.errors.is_empty() && !has_unknown(&payload),
        errors: observation.errors.clone(),
        payload,
    }
}

/// The envelope of a command that failed.
pub(super) fn failed(command: &str, problem: &Problem) -> Document {
    let mut observation = blank();
    observation.errors.push(problem.clone());
    document(command, &observation, Payload::default())
}

/// An observation of nothing, taken now: where programs come from a file.
pub(super) fn blank() -> Observation {
    Observation {
        schema: crate::observation::SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        taken_at: jiff::Timestamp::now().to_string(),
        ..Observation::default()
    }
}

fn has_unknown(payload: &Payload) -> bool {
    let cgroups = payload.cgroups.iter().flatten().flat_map(|cgroup| &cgroup.gpus);
    let checks = payload.checks.iter().flatten();
    let changes = payload.diff.iter().flat_map(|diff| &diff.changes);
    payload.policies.iter().flatten().any(|(_, policy)| is_unknown(policy))
        || cgroups.map(|gpu| &gpu.verdict).any(|verdict| verdict == UNKNOWN)
        || checks.map(|check| &check.verdict).any(|verdict| verdict == UNKNOWN)
        || payload.proof.iter().any(|proof| proof.verdict == UNKNOWN)
        || changes.flat_map(|change| [&change.from, &change.to]).any(|verdict| verdict == UNKNOWN)
}

fn is_unknown(policy: &Policy) -> bool {
    policy.default == UNKNOWN || !policy.unknown.is_empty()
}
