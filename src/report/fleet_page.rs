//! One page about many nodes: the report, and what is known of each node.

use serde::{Deserialize, Serialize};

use super::fleet::Fleet;
use super::page_file::PageCut;
use crate::model::{CellState, Severity};

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
    pub taken_at: Vec<String>,
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
