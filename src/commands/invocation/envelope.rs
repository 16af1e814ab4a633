//! The envelope around every JSON answer.

use serde::Serialize;

use crate::analyse::CommandAnswer;
use crate::model::Time;
use crate::observation::{Host, Observation, Problem};
use crate::report::{Document, Nothing, SCHEMA};

/// An answer in its envelope.
pub(crate) fn document<T: CommandAnswer>(
    command: &str,
    observation: &Observation,
    payload: T,
) -> Document<T> {
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

/// The keys of a [`Document`] before a list that is written as it comes.
#[derive(Serialize)]
pub(crate) struct Head<'a> {
    schema: &'static str,
    command: &'a str,
    version: &'static str,
    taken_at: &'a Time,
    host: &'a Host,
}

/// The keys after it.
#[derive(Serialize)]
pub(crate) struct Tail<'a> {
    /// Whether nothing is missing.
    pub complete: bool,
    /// The problems of the answer.
    pub errors: &'a [Problem],
}

impl<'a> Head<'a> {
    /// The head of an answer from this observation.
    pub(crate) fn new(command: &'a str, observation: &'a Observation) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        Self { schema: SCHEMA, command, version, taken_at: &observation.taken_at, host: &observation.host }
    }
}

/// The envelope of a command that failed.
pub(crate) fn failed(command: &str, problem: &Problem) -> Document<Nothing> {
    let mut observation = blank();
    observation.errors.push(problem.clone());
    document(command, &observation, Nothing {})
}

/// An observation of nothing, taken now: where programs come from a file.
pub(crate) fn blank() -> Observation {
    Observation {
        schema: crate::observation::SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        taken_at: Time::now(),
        ..Observation::default()
    }
}
