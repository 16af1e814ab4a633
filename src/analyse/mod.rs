//! Turns facts into answers: pure functions from an observation to a report.
//!
//! `policies` decodes each stack of programs once. `joined_node` looks up owners, GPUs
//! and policies of one observation, `scope` makes the cgroups and owners of all that was
//! observed. The other files make the answer of one command each.

mod activity;
mod allocated;
mod attachment;
mod cgroup_gpus;
mod check;
mod diff;
mod explain;
mod gpu_verdicts;
mod incomplete;
mod joined_node;
mod leftovers;
mod levels;
mod limits;
mod matrix;
mod moves;
mod node;
mod owners;
mod page;
mod policies;
mod processes;
mod programs;
mod refusal;
mod scope;
mod sets;
mod subject;
mod writer;

pub use crate::policy::{Question, TimeLimit};
pub use activity::{Follower, activity_summary};
pub use allocated::CallerAllocation;
pub use attachment::is_preorder;
pub use cgroup_gpus::{CgroupGpus, Holdings, denied_of};
pub use check::Checker;
pub use diff::{diff, node_diff};
pub use explain::explain;
pub use incomplete::{CommandAnswer, unknown_parts};
pub use leftovers::{cgroups_of_job, is_in_cgroup_of, leftovers};
pub use limits::limits;
pub use matrix::{add_rates, allocation_cell, matrix, matrix_cell};
pub use moves::{MovedReach, NodeComparison, change, is_unchanged, left_owner};
pub(crate) use node::questions;
pub use node::{Inspection, ToVerify, node, to_verify, without_partial_jobs};
pub use page::{evidence, page, tell_problems};
pub use programs::{NoProgram, ProgramInForce, Stack, compiled, policies_below, programs, stack};
pub use refusal::{Refusal, refusals};
pub use scope::cgroups;
pub use subject::{AnalyseError, Subject};
