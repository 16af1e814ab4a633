//! What a page says of the node as a whole, and what of it was not known.

use serde::{Deserialize, Serialize};

use super::audit::Counts;
use crate::observation::Problem;

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
