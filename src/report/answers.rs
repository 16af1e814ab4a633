//! What each command answers, as the keys of its document beside the envelope. Commands
//! about cgroups, owners and the whole node share [`NodeAnswer`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::activity::Activity;
use super::audit::{Audit, Finding, FindingKind};
use super::cgroup::{Cgroup, Policy};
use super::compact::CompactNode;
use super::diff::Diff;
use super::document::{DoctorCheck, Note};
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
use crate::observation::Observation;

/// The answer about cgroups and their owners: of `cgroup`, `pid`, `job` and `node`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeAnswer {
    /// Requested cgroups.
    pub cgroups: Vec<Cgroup>,
    /// Programs by id.
    pub programs: BTreeMap<u32, Program>,
    /// Policies by id; equal ids are equal policies.
    pub policies: BTreeMap<String, Policy>,
    /// The node's GPUs.
    pub gpus: Vec<Gpu>,
    /// Whether the node may have GPUs that are not among them: not all that tells of GPUs
    /// could be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gpus_unread: bool,
    /// Jobs, steps, tasks, pods, containers, units: what each was allocated,
    /// may open, asks for and holds. `cgroup` leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owners: Option<Vec<OwnerSets>>,
    /// What processes do with their GPUs, where a gpumap counts their calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Box<Activity>>,
    /// What the kernel lets this gpumap open, where it may not read the programs in force on its
    /// own cgroup, which the answer is about (a user in a job, or in a container): it was asked
    /// by access(2), as by `check --self`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_access: Option<Vec<Check>>,
}

/// The answer of `job` without a job: those that are here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobsAnswer {
    /// The node's GPUs.
    pub gpus: Vec<Gpu>,
    /// As in [`NodeAnswer::gpus_unread`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gpus_unread: bool,
    /// The jobs, with their steps.
    pub owners: Vec<OwnerSets>,
    /// What processes do with their GPUs, where a gpumap counts their calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Box<Activity>>,
}

/// The answer of `audit`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditAnswer {
    /// The node's GPUs.
    pub gpus: Vec<Gpu>,
    /// Answers of `audit`.
    pub findings: Vec<Finding>,
    /// The data of `audit` besides its findings.
    pub audit: Audit,
    /// The facts that the answer rests on; only `audit --report` fills it in, and
    /// --from reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation: Option<Box<Observation>>,
}

/// The answer of `prog`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramsAnswer {
    /// Programs by id.
    pub programs: BTreeMap<u32, Program>,
    /// What each alone decides, by id.
    pub policies: BTreeMap<String, Policy>,
    /// What rules leave open of which one is made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

/// The answer of `audit --list` and `--explain`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KindsAnswer {
    /// The documentation of findings, as `audit --list` and `--explain` give it.
    pub kinds: Vec<FindingKind>,
}

/// The answer of `leftovers`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeftoversAnswer {
    /// The node's GPUs.
    pub gpus: Vec<Gpu>,
    /// The job that `leftovers` was asked about: its number or SLUID.
    pub job: String,
    /// The same as a number, as `owner.job_id` has it; left out for a SLUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<u64>,
    /// Answers of `leftovers`.
    pub leftovers: Vec<Leftover>,
    /// Who else holds the GPUs that the job was allocated, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<Box<Free>>,
    /// Limits of every command, which do not make the answer incomplete.
    pub notes: Vec<Note>,
}

/// The answer of `free`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FreeAnswer {
    /// The node's GPUs.
    pub gpus: Vec<Gpu>,
    /// The answer of `free`.
    pub free: Free,
}

/// The answer of `activity`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ActivityAnswer {
    /// The node's GPUs.
    pub gpus: Vec<Gpu>,
    /// What processes do with their GPUs, where a gpumap counts their calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Box<Activity>>,
}

/// The answer of `explain`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainAnswer {
    /// The argument of `explain`.
    pub proof: Proof,
}

/// The answer of `vgpu --region`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegionAnswer {
    /// The file that `vgpu --region` reads.
    pub region: Region,
}

/// The answer of `vgpu`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VgpuAnswer {
    /// The node's GPUs.
    pub gpus: Vec<Gpu>,
    /// Answers of `vgpu`: the processes that have or were meant to have limits
    /// of HAMi-core or SoftMig.
    pub processes: Vec<Process>,
    /// The shared regions that they map.
    pub regions: Vec<MappedRegion>,
}

/// The answer of `repair`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RepairAnswer {
    /// The node's GPUs.
    pub gpus: Vec<Gpu>,
    /// The answer of `repair`.
    pub repair: Repair,
}

/// The answer of `repair` where nobody was named.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RepairsAnswer {
    /// The node's GPUs.
    pub gpus: Vec<Gpu>,
    /// A plan for each owner that lost access.
    pub repairs: Vec<Repair>,
}

/// The answer of `repair --list` and `--undo`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JournalsAnswer {
    /// The journals of programs that `repair --apply` put in the place of others.
    pub journals: Vec<RepairJournal>,
}

/// The answer of `doctor`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DoctorAnswer {
    /// Answers of `doctor`.
    pub doctor: Vec<DoctorCheck>,
}

/// The answer of `diff`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiffAnswer {
    /// The node's GPUs.
    pub gpus: Vec<Gpu>,
    /// The answer of `diff`.
    pub diff: Diff,
}

/// The answer of `node --compact`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompactAnswer {
    /// The answer of `node --compact`.
    pub compact: CompactNode,
    /// Findings of an audit of the same facts, with `--audit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub findings: Option<Vec<Finding>>,
    /// How that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
}

/// The answer of `top --once`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixAnswer {
    /// The node's GPUs.
    pub gpus: Vec<Gpu>,
    /// As in [`NodeAnswer::gpus_unread`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gpus_unread: bool,
    /// The findings of an audit.
    pub findings: Vec<Finding>,
    /// The answer of `top --once`.
    pub matrix: Matrix,
}

/// The answer of `fleet`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetAnswer {
    /// The answer of `fleet`.
    pub fleet: Fleet,
}

/// The answer of `report`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PageAnswer {
    /// The answer of `report`.
    pub page: PageFile,
}

/// The answer of a command that says nothing but whether it could.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nothing {}
