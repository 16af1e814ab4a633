//! Prints answers: tables for people, JSON for programs.
//!
//! Both show the same [`crate::report`] value. Rendering lays out and computes
//! nothing. Every string that came from the system passes [`sanitize`].

mod activity;
mod audit;
mod cell;
mod cgroup;
mod counted;
mod diff;
mod doctor;
mod explain;
mod finding;
mod finding_pages;
mod fleet;
mod free;
mod gpu_names;
mod gpus;
mod html;
mod inventory;
mod job;
mod journals;
pub mod json;
mod leftovers;
mod limits;
mod matrix;
mod metrics;
mod nagios;
mod names;
mod node;
mod node_diff;
mod owner;
mod page_file;
mod pid;
mod problems;
mod process;
mod process_facts;
mod prog;
mod programs;
mod repair;
mod rules;
pub mod sanitize;
mod sets;
mod style;
mod summary;
mod table;
mod top;
mod vgpu;
mod vgpu_bytes;
mod watch;
mod watch_move;
mod watch_policy;
mod wrap;

pub use activity::{Told, write as activity, write_next as next_activity, write_totals as activity_totals};
pub use audit::{in_short as findings_in_short, write as audit};
pub use cell::glyphs;
pub use cgroup::write as cgroups;
pub use diff::write as diff;
pub use doctor::write as doctor;
pub use explain::write as explain;
pub use finding_pages::{list as finding_list, write as finding_pages};
pub use fleet::write as fleet;
pub use free::write as free;
pub use html::{fleet_page, page as html_page};
pub use job::{write as jobs, write_all as jobs_here};
pub use journals::write as journals;
pub use leftovers::{notes, porcelain, write as leftovers};
pub use limits::write as limits;
pub use matrix::{MatrixStyle, write as matrix};
pub use metrics::{MetricsFormat, write as metrics};
pub use nagios::{Nagios, unknown as nagios_unknown, write as nagios};
pub use node::write as node;
pub use page_file::write as page_file;
pub use pid::write as pids;
pub use problems::{line as problem, write as problems};
pub use prog::write as prog;
pub use repair::write as repair;
pub use style::Style;
pub use summary::write as summary;
pub use top::{Cells, Colors, KEYS, Theme, draw as top};
pub use vgpu::write as region;
pub use watch::{not_seen, write as event};
pub use watch_policy::line as policy_event;

#[cfg(test)]
mod tests;
