//! Programs and their instructions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{AttachFlag, Writer};

/// One loaded program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    /// Kernel id (0 for a program from a file).
    pub id: u32,
    /// Name that its loader gave it, often empty.
    pub name: String,
    /// Kernel tag.
    pub tag: String,
    /// Software whose programs have this shape. It is a label and no fact.
    pub writer: Option<Writer>,
    /// Number of instructions (8-byte slots); null if they could not be read.
    pub insns: Option<usize>,
    /// Load time, RFC 3339.
    pub loaded_at: String,
    /// Uid that loaded it.
    pub uid: u32,
    /// Ids of its maps.
    pub maps: Vec<u32>,
    /// The cgroups that it is attached to; only `prog` fills it in. Absent where that is
    /// not known, as for a program from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<Vec<Place>>,
    /// Key into `policies`: what this program alone decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The disassembly; only `prog` fills it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disassembly: Option<Vec<Line>>,
}

/// A cgroup that a program is attached to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The cgroup's path.
    pub cgroup: String,
    /// `multi`, `override`, `link`; none is `[]`.
    pub flags: Vec<AttachFlag>,
    /// Whether it is not known if a link holds it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub link_unknown: bool,
}

/// One instruction of a disassembly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// Index of the 8-byte slot.
    pub pc: usize,
    /// As bpftool prints it.
    pub text: String,
    /// What it computes, such as `r4 = major`; empty if that is no more than `text`.
    pub meaning: String,
}
