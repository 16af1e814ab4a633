//! The envelope of every answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{CheckState, NoteCode, Time};
use crate::observation::{Host, Problem};

/// The schema name of every document.
pub const SCHEMA: &str = "gpumap/1";

/// The envelope around every command's answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Document")]
pub struct Document<T> {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The command that answered.
    pub command: String,
    /// gpumap's version.
    pub version: String,
    /// When the facts were observed, RFC 3339.
    pub taken_at: Time,
    /// The node they were observed on.
    pub host: Host,
    /// Whether nothing is missing. It is false if there is an error, an `unknown`
    /// verdict or policy, an owner whose allowed or held GPUs are not known, or a
    /// process that could not be looked into.
    pub complete: bool,
    /// What is missing and what would help.
    pub errors: Vec<Problem>,
    /// The answer.
    #[serde(flatten)]
    pub payload: T,
}

/// A limit of an answer that nothing could lift.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// What it is about.
    pub code: NoteCode,
    /// The limit, a sentence.
    pub text: String,
}

/// One thing that decides what gpumap can know on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DoctorCheck {
    /// Stable id, such as `rights.capabilities`; gpumap-doctor(1) explains it.
    pub id: String,
    /// How it is.
    pub state: CheckState,
    /// What was found, one or two sentences.
    pub found: String,
    /// What to do about it; left out where there is nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}
