//! Programs and their instructions, and answers to single questions about them: a verdict,
//! and the argument for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{AttachFlag, Time, Verdict, Verdicts, Writer};

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
    pub loaded_at: Time,
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

/// One answer of `check`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// The device as asked.
    pub device: String,
    /// `mixed` where a wildcard's answers differ.
    pub verdict: Verdicts,
    /// Why it is unknown, or which requests and numbers differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The argument for one verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// The cgroup or program asked about.
    pub target: String,
    /// The device and request, `c 195:3 rw`.
    pub device: String,
    /// The programs in run order with the path each takes.
    pub programs: Vec<ProgramProof>,
    /// How the kernel combines them, one sentence.
    pub rule: String,
    /// The v1 devices controller's part, if it is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices_v1: Option<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// One program's part in a proof.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramProof {
    /// The program.
    pub id: u32,
    /// Where it is attached.
    pub attached_at: String,
    /// With which flags.
    pub flags: Vec<AttachFlag>,
    /// Its name.
    pub name: String,
    /// The instructions executed, in order.
    pub steps: Vec<Step>,
    /// Slot of the instruction that set the returned value, or that went on in another
    /// program which did (a tail call).
    pub decided_at: Option<usize>,
    /// What it returns: `allow` (1), `deny` (0) or `unknown`.
    pub returns: Verdict,
    /// The error in force after it, as a negative errno; 0 is none.
    pub retval: Option<i32>,
    /// Why the program could not be followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// One executed instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Index of the 8-byte slot.
    pub pc: usize,
    /// The program that it is an instruction of, if that is another one (a tail call).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<u32>,
    /// As bpftool prints it.
    pub text: String,
    /// What it computes or decides here, such as `r4 = major = 195`.
    pub meaning: String,
}
