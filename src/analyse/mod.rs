//! Turns facts into answers: pure functions from an observation to a report.
//!
//! `policies` decodes each stack of programs once. `joined_node` looks up owners, GPUs
//! and policies of one observation. The other files make the answer of one
//! command each.

mod activity;
mod allocated;
mod asked_order;
mod attachment;
mod cgroup_gpus;
mod cgroups;
mod change;
mod check;
mod compiled;
mod diff;
mod explain;
mod gpu_verdicts;
mod held;
mod holdings;
mod inspection;
mod job_claim;
mod joined_node;
mod killable;
mod leftovers;
mod levels;
mod limits;
mod moves;
mod node;
mod node_diff;
mod owners;
mod policies;
mod processes;
mod programs;
mod rules;
mod sets;
mod sharing;
mod stack;
mod verification;
mod writer;

use crate::observation::{Cgroup, Observation, Program, Text};

pub use crate::policy::Question;
pub use activity::Follower;
pub use cgroup_gpus::CgroupGpus;
pub use cgroups::cgroups;
pub use change::{Comparison, change};
pub use check::Checker;
pub use compiled::{NoProgram, compiled};
pub use diff::diff;
pub use explain::explain;
pub use holdings::{Holdings, denied_of};
pub use inspection::Inspection;
pub use leftovers::leftovers;
pub use limits::limits;
pub use moves::{MovedReach, left_owner};
pub use node::{CallerAllocation, node, without_partial_jobs};
pub use node_diff::node_diff;
pub use programs::programs;
pub use rules::rule as rule_of;
pub use stack::{InForce, Stack, stack};
pub use verification::{ToVerify, to_verify};

/// The subject of a question about a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The programs in force on one cgroup of the observation, by path
    /// relative to the cgroup root with a leading `/`.
    Cgroup(Text),
    /// Programs of the observation by id, run in this order.
    Programs(Vec<u32>),
}

/// Why analysis cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum AnalyseError {
    /// The observation does not hold the cgroup.
    #[error("the observation has no cgroup {0:?}")]
    NoCgroup(Text),
    /// The observation does not hold the program.
    #[error("the observation has no program {0}")]
    NoProgram(u32),
    /// `--allocated` names no GPU of this node.
    #[error("--allocated: {0}")]
    Allocated(String),
}

fn cgroup<'a>(observation: &'a Observation, path: &Text) -> Result<&'a Cgroup, AnalyseError> {
    let found = observation.cgroups.iter().find(|cgroup| cgroup.path == *path);
    found.ok_or_else(|| AnalyseError::NoCgroup(path.clone()))
}

fn program(observation: &Observation, id: u32) -> Result<&Program, AnalyseError> {
    observation.programs.iter().find(|program| program.id == id).ok_or(AnalyseError::NoProgram(id))
}
