//! Answers of `gpumap fleet`: what many nodes have in common, where they differ, and the
//! page with what is known of each node.
//!
//! Sets of nodes are host lists as Slurm, ClusterShell and pdsh write them:
//! `gpu[01-10,12]`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::audit::Counts;
use super::page_file::PageCut;
use crate::model::{CellState, FailOn, GrantComparison, GrantedSet, OwnerKind, Severity, Time};

/// One report over many nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fleet {
    /// Which nodes answered, and how.
    pub nodes: FleetNodes,
    /// How many documents were used, those that a newer one of the same node
    /// replaces among them.
    pub documents: usize,
    /// From which severity on a finding makes the exit status 1.
    pub fail_on: FailOn,
    /// Whether a finding is as severe as that.
    pub failed: bool,
    /// Findings by severity, on all nodes together, without those of the baseline.
    pub counts: Counts,
    /// Findings that the configuration of a node accepts. They are not in `findings`.
    pub ignored: usize,
    /// Findings left out because the baseline has them.
    pub known: usize,
    /// Findings of the baseline that are no more on nodes that were audited.
    pub gone: usize,
    /// Findings, those that are alike as one, the most severe first.
    pub findings: Vec<FleetFinding>,
    /// What could not be seen, by code.
    pub problems: Vec<FleetProblem>,
    /// In what the nodes differ, and what they have in common.
    pub drift: Vec<Drift>,
    /// Jobs that run on several nodes.
    pub jobs: FleetJobs,
    /// When the nodes were looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<FleetTimes>,
    /// The fingerprints of the findings of each node, for `--baseline`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fingerprints: BTreeMap<String, Vec<String>>,
}

/// Nodes, and how many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeSet {
    /// How many.
    pub count: usize,
    /// Their names as a host list; empty if there are none.
    pub nodes: String,
    /// The first of them one by one, so that a page can lead to them.
    #[serde(skip)]
    #[schemars(skip)]
    pub first: Vec<String>,
}

/// Which nodes answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetNodes {
    /// Nodes with a document.
    pub answered: NodeSet,
    /// Nodes that were expected and have no document; null if nobody said which are
    /// expected.
    pub missing: Option<NodeSet>,
    /// Nodes that nobody expected.
    #[serde(default, skip_serializing_if = "NodeSet::is_empty")]
    pub unexpected: NodeSet,
    /// Nodes of which something could not be seen.
    pub incomplete: NodeSet,
    /// Nodes without an audit: nothing is known of findings there.
    pub not_audited: NodeSet,
    /// Nodes of which there is an audit alone: nothing is known of jobs there.
    pub only_audited: NodeSet,
    /// Nodes with several documents of one kind, of which only the newest counts.
    #[serde(default, skip_serializing_if = "NodeSet::is_empty")]
    pub repeated: NodeSet,
}

/// Findings that are alike: the same id and severity, and the same words but for
/// numbers and ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetFinding {
    /// Stable id; `gpumap audit --explain ID` documents it.
    pub id: String,
    /// The severity.
    pub severity: Severity,
    /// The kind of owner that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerKind>,
    /// How many there are, on all nodes together.
    pub count: usize,
    /// Where.
    pub on: NodeSet,
    /// What one of them says.
    pub example: String,
    /// The node that says so.
    pub example_on: String,
}

/// Problems of one code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetProblem {
    /// The code, such as `no-right`. `unknown` stands for nodes that name no problem
    /// and are not complete: a verdict, a set or a process is unknown.
    pub code: String,
    /// How many there are, on all nodes together.
    pub count: usize,
    /// Where.
    pub on: NodeSet,
    /// One of them.
    pub example: String,
}

/// One property of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    /// The property: `kernel`, `cgroups`, `driver NAME`, `gpus`, `gres.conf`,
    /// `audit configuration`, `gpumap`, or `programs of KIND` for the device programs
    /// of owners of a kind.
    pub what: String,
    /// Its values, that of most nodes first. With one value all nodes are alike.
    pub values: Vec<DriftValue>,
    /// How many nodes have a value that is not listed, because there are too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: usize,
}

/// The nodes with one value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DriftValue {
    /// The value. A long one is cut, with `…` at its end.
    pub value: String,
    /// Where.
    pub on: NodeSet,
}

/// Jobs on several nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetJobs {
    /// Jobs on all nodes together.
    pub all: usize,
    /// Those that run on several nodes.
    pub several: usize,
    /// Those whose GPUs are not alike on all of their nodes.
    pub differing: Vec<JobDifference>,
}

/// A job whose GPUs differ from node to node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobDifference {
    /// The job, such as `slurm job 4711`.
    pub job: String,
    /// The set: `allowed` (what the kernel lets it open), or `allocated` where Slurm's
    /// hooks told it.
    pub set: GrantedSet,
    /// What it has on how many nodes, the most frequent first.
    pub grants: Vec<JobGrant>,
}

/// The GPUs of a job on some nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobGrant {
    /// Number and models, such as `2 NVIDIA H200`; `none`; or `unknown`.
    pub gpus: String,
    /// How this compares with what most nodes have: `same`, `missing` (none, or
    /// fewer of the same models), `extra` (more of the same models), `different`
    /// (other models), `unknown`.
    pub compared: GrantComparison,
    /// Where.
    pub on: NodeSet,
    /// Their numbers on the first of these nodes, such as `NVML 0-1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub numbers: String,
}

/// When the nodes were looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetTimes {
    /// The earliest, RFC 3339.
    pub first: Time,
    /// The latest.
    pub last: Time,
    /// The one in the middle.
    pub middle: Time,
    /// Nodes that are more than ten minutes away from it: their clocks are wrong, or
    /// what they say is of another time.
    pub apart: NodeSet,
}

impl Fleet {
    /// Whether a node is missing, or something of a node could not be seen.
    pub fn is_incomplete(&self) -> bool {
        !self.nodes.incomplete.is_empty()
            || self.nodes.missing.as_ref().is_some_and(|nodes| !nodes.is_empty())
    }
}

impl NodeSet {
    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Everything that `gpumap fleet --html` shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetPage {
    /// The report.
    pub fleet: Fleet,
    /// The nodes that have a section, those that need attention first.
    pub nodes: Vec<FleetNode>,
    /// What was left out for its size.
    pub cuts: Vec<PageCut>,
}

/// A node on the page of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetNode {
    /// Its name.
    pub name: String,
    /// When it was looked at, RFC 3339; the answer of `node` and that of `audit` may be
    /// of two moments.
    pub taken_at: Vec<Time>,
    /// How many findings of each severity it has, the most severe first.
    pub counts: Vec<(Severity, usize)>,
    /// Whether everything could be seen there.
    pub complete: bool,
    /// Its properties, such as `kernel` and `gpus`, with their values.
    pub properties: Vec<(String, String)>,
    /// Its findings, the most severe first; `None` if there is no audit of it.
    pub findings: Option<Vec<FleetNodeFinding>>,
    /// Who has what; `None` if there is an audit of it alone.
    pub owners: Option<FleetOwners>,
    /// What was not known there.
    pub problems: Vec<FleetNodeProblem>,
    /// What of it is not on the page.
    pub cuts: Vec<PageCut>,
}

/// A finding of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetNodeFinding {
    /// The severity.
    pub severity: Severity,
    /// Stable id.
    pub id: String,
    /// What it says.
    pub summary: String,
    /// The cgroup that it is about, if it is about one.
    pub cgroup: Option<String>,
    /// What to do.
    pub advice: String,
    /// Why the node's configuration accepts it; `None` if it counts.
    pub accepted: Option<String>,
}

/// What could not be seen on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetNodeProblem {
    /// The code, such as `no-right`.
    pub code: String,
    /// How many there are.
    pub count: usize,
    /// One of them.
    pub example: String,
}

/// The owners of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetOwners {
    /// By which numbers the sets name GPUs.
    pub numbers: GpuNumbers,
    /// The owners; those inside of another follow it.
    pub rows: Vec<FleetOwner>,
}

/// By which numbers GPUs are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum GpuNumbers {
    /// NVML indexes, as nvidia-smi has them.
    Nvml,
    /// Minor numbers of device nodes.
    Minor,
    /// Places in the node's list of GPUs, from 0.
    #[default]
    Place,
}

/// An owner on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetOwner {
    /// Who it is: `slurm job 4711`; below the first level its own part alone: `step 0`.
    pub name: String,
    /// Its depth: 0 for a job, 1 for its steps.
    pub depth: u8,
    /// How many processes it has.
    pub processes: usize,
    /// What the scheduler allocated.
    pub allocated: FleetSet,
    /// What its processes may open.
    pub allowed: FleetSet,
    /// What they ask for.
    pub asked: FleetSet,
    /// What they have open.
    pub held: FleetSet,
    /// The GPUs of which two sets contradict each other, and how.
    pub contradictions: Vec<(CellState, String)>,
}

/// A set of GPUs of one node, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetSet {
    /// Those that are in it, by number: `0-1,3`; empty if none is. `None` if nothing is
    /// known of the set.
    pub gpus: Option<String>,
    /// Those that may be in it.
    pub maybe: String,
    /// Whether only the owner's own environment says so.
    pub claimed: bool,
}
