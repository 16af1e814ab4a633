//! Turns facts into answers: pure functions from an observation to a report.
//!
//! `policies` decodes each stack of programs once. `joined_node` looks up owners, GPUs
//! and policies of one observation, `scope` makes the cgroups and owners of all that was
//! observed. The other files make the answer of one command each.

mod activity;
mod check;
mod compiled;
mod diff;
mod error;
mod explain;
mod gpu_verdicts;
mod held;
mod incomplete;
mod inspection;
mod joined_node;
mod leftovers;
mod limits;
mod matrix;
mod moves;
mod owners;
mod page;
mod policies;
mod processes;
mod programs;
mod rules;
mod scope;
mod sets;
mod stack;
mod writer;

pub use crate::policy::{Question, TimeLimit};
pub use activity::{Follower, activity_summary};
pub use check::{Checker, Subject};
pub use compiled::{NoProgram, compiled};
pub use diff::{diff, node_diff};
pub use error::AnalyseError;
pub use explain::explain;
pub use gpu_verdicts::CgroupGpus;
pub use held::{Holdings, denied_of};
pub use incomplete::{has_unknown, unknown_parts};
pub(crate) use inspection::questions;
pub use inspection::{Inspection, ToVerify, to_verify};
pub use leftovers::{cgroups_of_job, leftovers};
pub use limits::limits;
pub use matrix::{add_rates, allocation_cell, matrix, matrix_cell};
pub use moves::{MovedReach, NodeComparison, change, left_owner};
pub use page::{evidence, page, tell_problems};
pub use programs::programs;
pub use scope::{cgroups, node, without_partial_jobs};
pub use sets::CallerAllocation;
pub use stack::{ProgramInForce, Stack, is_preorder, policies_below, stack};
