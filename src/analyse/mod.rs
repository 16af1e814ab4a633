//! Turns facts into answers: pure functions from an observation to a report.
//!
//! `policies` decodes each stack of programs once. `joined_node` looks up owners, GPUs
//! and policies of one observation, `scope` makes the cgroups and owners of all that was
//! observed. The other files make the answer of one command each.

mod activity;
mod allocated;
mod asked_order;
mod attachment;
mod cgroup_gpus;
mod cgroups;
mod check;
mod compiled;
mod diff;
mod error;
mod explain;
mod gpu_verdicts;
mod held;
mod holdings;
mod incomplete;
mod inspection;
mod job_claim;
mod joined_node;
mod leftovers;
mod levels;
mod limits;
mod matrix;
mod moves;
mod node;
mod node_diff;
mod owners;
mod page;
mod policies;
mod process_limits;
mod processes;
mod programs;
mod refusal;
mod rules;
mod scope;
mod sets;
mod sharing;
mod stack;
mod subject;
mod writer;

pub use crate::policy::{Question, TimeLimit};
pub use activity::{Follower, activity_summary};
pub use allocated::CallerAllocation;
pub use attachment::is_preorder;
pub use cgroup_gpus::CgroupGpus;
pub use cgroups::cgroups;
pub use check::Checker;
pub use compiled::{NoProgram, compiled};
pub use diff::diff;
pub use error::AnalyseError;
pub use explain::explain;
pub use holdings::{Holdings, denied_of};
pub use incomplete::{CommandAnswer, unknown_parts};
pub(crate) use inspection::questions;
pub use inspection::{Inspection, ToVerify, to_verify};
pub use leftovers::{cgroups_of_job, is_in_cgroup_of, leftovers};
pub use limits::limits;
pub use matrix::{add_rates, allocation_cell, matrix, matrix_cell};
pub use moves::{MovedReach, NodeComparison, change, left_owner};
pub use node::{node, without_partial_jobs};
pub use node_diff::node_diff;
pub use page::{evidence, page, tell_problems};
pub use programs::programs;
pub use refusal::{Refusal, refusal};
pub use stack::{ProgramInForce, Stack, policies_below, stack};
pub use subject::Subject;
