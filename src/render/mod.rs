//! Prints answers: tables for people, JSON for programs.
//!
//! Both show the same [`crate::report`] value. Rendering lays out and computes
//! nothing. Every string that came from the system passes [`sanitize`].

mod activity;
mod audit;
mod beside;
mod cgroup;
mod denied;
mod diff;
mod explain;
mod fleet;
mod free;
mod gpus;
mod html;
mod job;
pub mod json;
mod leftovers;
mod matrix;
mod metrics;
mod nagios;
mod names;
mod node;
mod own_access;
mod owner;
mod pid;
mod problems;
mod process;
mod prog;
mod repair;
mod rules;
pub mod sanitize;
mod table;
mod top;
mod vgpu;
mod watch;
mod wrap;

pub use activity::{Told, write as activity, write_next as next_activity, write_totals as activity_totals};
pub use audit::{
    in_short as findings_in_short, list as finding_list, write as audit, write_page as finding_pages,
};
pub use cgroup::{write as cgroups, write_summary as summary};
pub use diff::write as diff;
pub use explain::write as explain;
pub use fleet::write as fleet;
pub use free::write as free;
pub use html::{fleet_page, page as html_page};
pub use job::{write as jobs, write_all as jobs_here};
pub use leftovers::{notes, porcelain, write as leftovers};
pub use matrix::{MatrixStyle, glyphs, write as matrix};
pub use metrics::{MetricsFormat, write as metrics};
pub use nagios::{Nagios, unknown as nagios_unknown, write as nagios};
pub use node::{write as node, write_with_findings as node_with_findings};
pub use pid::write as pids;
pub use problems::{
    line as problem, write as problems, write_checks as doctor, write_page_file as page_file,
};
pub use prog::write as prog;
pub use repair::{write as repair, write_all as repairs, write_journals as journals};
pub use table::Style;
pub use top::{Cells, Colors, KEYS, Theme, draw as top};
pub use vgpu::{write as region, write_limits as limits};
pub use watch::{line as policy_event, not_seen, write as event};
pub use wrap::Wrapping;

#[cfg(test)]
mod tests;
