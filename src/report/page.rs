//! One page about a node: what it has besides the answers of `node` and `audit`.
//!
//! The page refers to those answers by place: a row to an owner, a stack to cgroups, a
//! process to its cgroup. So every fact stands once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::answers::NodeAnswer;
use super::audit::{Audit, Counts, Finding};
use super::document::Document;
use super::matrix::{MatrixActivity, MatrixCell};
use super::page_file::PageCut;
use super::program::ProgramProof;
use crate::model::{AttachFlag, GpuKey, Verdict};
use crate::observation::Problem;

/// Everything that `gpumap report` shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Page {
    /// The answer of `node`.
    pub document: Document<NodeAnswer>,
    /// The findings of the audit, the most severe first.
    pub findings: Vec<Finding>,
    /// The data of the audit besides them.
    pub audit: Audit,
    /// The columns of the matrix: each GPU, followed by its MIG instances.
    pub columns: Vec<PageColumn>,
    /// The rows of the matrix.
    pub rows: Vec<PageRow>,
    /// What decides, for each set of cgroups in which the same programs are in force.
    pub stacks: Vec<PageStack>,
    /// Ways through programs, each once.
    pub proofs: Vec<PageProof>,
    /// Processes that the page lists.
    pub processes: Vec<PageProcess>,
    /// The numbers at its top.
    pub summary: PageSummary,
    /// For each finding, the stack of the cgroup that it is about.
    pub finding_stacks: Vec<Option<usize>>,
    /// The stacks of each policy, by its key in `policies`.
    pub policy_stacks: BTreeMap<String, Vec<usize>>,
    /// What could not be observed, those alike as one.
    pub problems: Vec<PageProblem>,
    /// Why sets of owners are not known, or empty.
    pub reasons: Vec<PageReason>,
    /// What was left out for its size.
    pub cuts: Vec<PageCut>,
    /// The observation that all of it was made of.
    pub evidence: Evidence,
}

/// One column of the matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageColumn {
    /// Key of the GPU or `KEY/GI/CI` of the instance.
    pub key: GpuKey,
    /// Place of the GPU in the inventory.
    pub gpu: usize,
    /// Place of the instance among those of the GPU; `None` for the GPU itself.
    pub instance: Option<usize>,
    /// What is asked of the programs, in rule notation: `c 195:3 rw`. Empty for a GPU
    /// without a device node.
    pub questions: Vec<String>,
}

/// One row of the matrix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PageRow {
    /// Place of the owner in `owners`.
    pub owner: usize,
    /// Its cells, one for each column.
    pub cells: Vec<PageCell>,
    /// What it does with its GPUs, where its calls are counted.
    pub activity: Option<MatrixActivity>,
}

/// One cell of the matrix: one GPU or instance in the four sets of one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageCell {
    /// The four sets, as `gpumap top` has them.
    pub sets: MatrixCell,
    /// Place of the stack that decides; `None` where no cgroup of the owner is known or
    /// its stack was left out.
    pub stack: Option<usize>,
}

/// Cgroups in which the same programs are in force, attached at the same places.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageStack {
    /// Places of the cgroups in `cgroups`, in walk order.
    pub cgroups: Vec<usize>,
    /// Places in `owners` of the owners that these cgroups count for.
    pub owners: Vec<usize>,
    /// The levels from the root to the first of the cgroups.
    pub levels: Vec<PageLevel>,
    /// The verdict on each column.
    pub verdicts: Vec<PageVerdict>,
    /// How the kernel combines the programs, one sentence.
    pub rule: String,
    /// Key into `policies`.
    pub policy: String,
    /// Why the programs in force could not be asked.
    pub unknown: Option<String>,
}

/// One cgroup on the way from the root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageLevel {
    /// Its path; empty for the unknown place of programs that are in force.
    pub path: String,
    /// Programs that are attached here.
    pub programs: Vec<PageProgram>,
}

/// A program attached to a level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageProgram {
    /// Key into `programs`.
    pub id: u32,
    /// With which flags.
    pub flags: Vec<AttachFlag>,
    /// Its place in the run order, from 1; `None` if another program runs instead.
    pub order: Option<usize>,
    /// What it returns for each column; empty if it is not in force.
    pub returns: Vec<PageReturn>,
}

/// What one program returns for one column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageReturn {
    /// `allow` if it returns 1 for all questions of the column, `deny` if it returns 0
    /// for one of them.
    pub verdict: Verdict,
    /// The way of each question through the program; `None` for one that was left out.
    pub proofs: Vec<Option<usize>>,
}

/// The verdict on one column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageVerdict {
    /// The verdict for using it.
    pub verdict: Verdict,
    /// Why it is unknown, or why it cannot be used.
    pub why: Option<String>,
    /// The part of the v1 devices controller, where it is mounted.
    pub devices_v1: Option<String>,
}

/// The way of one question through a program. Programs with the same instructions take
/// the same way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageProof {
    /// The question: `c 195:3 rw`.
    pub question: String,
    /// The programs that take it.
    pub programs: Vec<u32>,
    /// The way, as the first of them takes it.
    pub way: ProgramProof,
    /// How many instructions of `way` were left out.
    pub folded: usize,
    /// How many of those that are there stand before them.
    pub folded_after: usize,
}

/// A process of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageProcess {
    /// Place of its cgroup in `cgroups`.
    pub cgroup: usize,
    /// Its place there.
    pub process: usize,
    /// Place of its innermost owner in `owners`.
    pub owner: Option<usize>,
    /// Place of the owner around all others.
    pub outermost: Option<usize>,
    /// The GPUs and instances that its cgroup allows, by key.
    pub allowed: Vec<GpuKey>,
    /// Those of which it is not known.
    pub unknown: Vec<GpuKey>,
}

/// The observation as the page has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The JSON document, packed by gzip, in base64.
    pub packed: String,
    /// Bytes of the JSON document.
    pub bytes: usize,
    /// SHA-256 of the JSON document, hexadecimal.
    pub sha256: String,
}

/// The numbers at the top of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageSummary {
    /// Findings that count.
    pub findings: Counts,
    /// GPUs, and how many of them somebody on the page holds open.
    pub gpus: usize,
    /// How many of them somebody on the page holds open.
    pub held: usize,
    /// Owners that are inside of no other.
    pub owners: usize,
    /// Cells of the matrix whose sets contradict each other.
    pub contradictions: usize,
    /// Cgroups that were looked at.
    pub cgroups: usize,
    /// Processes that were looked at.
    pub processes: usize,
}

/// Problems that differ only in the thing that they are about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageProblem {
    /// One of them.
    pub first: Problem,
    /// The things, the first ones of them.
    pub things: Vec<String>,
    /// How many things there are.
    pub count: usize,
}

/// Why sets of owners are not known, or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageReason {
    /// The set that it is about.
    pub set: PageSet,
    /// The reason.
    pub why: String,
    /// Places in `owners` of the first owners that it holds of.
    pub owners: Vec<usize>,
    /// How many owners there are.
    pub count: usize,
}

/// One of the four sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PageSet {
    /// What the scheduler granted.
    #[default]
    Allocated,
    /// What it may open.
    Allowed,
    /// What it asks for.
    Asked,
    /// What it has open.
    Held,
}
