//! The envelope of every answer, and the parts that an answer may have.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::activity::Activity;
use super::audit::{Audit, Finding, FindingKind};
use super::cgroup::{Cgroup, Policy};
use super::compact::CompactNode;
use super::diff::Diff;
use super::fleet::Fleet;
use super::free::Free;
use super::gpu::Gpu;
use super::matrix::Matrix;
use super::page_file::PageFile;
use super::process::{Leftover, Process};
use super::program::{Check, Program, Proof};
use super::repair::{Repair, RepairJournal};
use super::sets::OwnerSets;
use super::vgpu::{MappedRegion, Region};
use crate::model::{CheckState, NoteCode, Time};
use crate::observation::{Host, Observation, Problem};

/// The schema name of every document.
pub const SCHEMA: &str = "gpumap/1";

/// The envelope around every command's answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
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
    pub payload: Payload,
}

/// The parts of an answer; a command fills in what its name promises and
/// leaves the others out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Payload {
    /// Requested cgroups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroups: Option<Vec<Cgroup>>,
    /// Programs by id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<BTreeMap<u32, Program>>,
    /// Policies by id; equal ids are equal policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<BTreeMap<String, Policy>>,
    /// The node's GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Vec<Gpu>>,
    /// Whether the node may have GPUs that are not among them: not all that tells of GPUs
    /// could be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gpus_unread: bool,
    /// Jobs, steps, tasks, pods, containers, units: what each was allocated,
    /// may open, asks for and holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owners: Option<Vec<OwnerSets>>,
    /// Answers of `audit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub findings: Option<Vec<Finding>>,
    /// The data of `audit` besides its findings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
    /// The documentation of findings, as `audit --list` and `--explain` give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<FindingKind>>,
    /// The facts that the answer rests on; only `audit --report` fills it in, and
    /// --from reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation: Option<Box<Observation>>,
    /// The job that `leftovers` was asked about: its number or SLUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Answers of `leftovers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftovers: Option<Vec<Leftover>>,
    /// The answer of `free`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<Box<Free>>,
    /// What processes do with their GPUs, where a gpumap counts their calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Box<Activity>>,
    /// Limits of every command, which do not make the answer incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<Vec<Note>>,
    /// Answers of `check`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Vec<Check>>,
    /// The argument of `explain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// The file that `vgpu --region` reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
    /// The answer of `repair`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// The journals of programs that `repair --apply` put in the place of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journals: Option<Vec<RepairJournal>>,
    /// Answers of `doctor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doctor: Option<Vec<DoctorCheck>>,
    /// Answers of `vgpu`: the processes that have or were meant to have limits
    /// of HAMi-core or SoftMig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<Process>>,
    /// The shared regions that they map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<Vec<MappedRegion>>,
    /// The answer of `diff`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<Diff>,
    /// The answer of `node --compact`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact: Option<Box<CompactNode>>,
    /// The answer of `top --once`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Box<Matrix>>,
    /// The answer of `fleet`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<Box<Fleet>>,
    /// The answer of `report`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<Box<PageFile>>,
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
