//! The envelope around every JSON answer.

use crate::observation::{Observation, Problem};
use crate::report::{Document, Payload, SCHEMA};

/// An answer in its envelope.
pub(super) fn document(command: &str, observation: &Observation, payload: Payload) -> Document {
    Document {
        schema: SCHEMA.to_owned(),
        command: command.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        taken_at: observation.taken_at.clone(),
        host: observation.host.clone(),
        complete: observation.errors.is_empty() && !payload.has_unknown(),
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
