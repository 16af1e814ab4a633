//! Cgroups and their lists of programs, kept up to date.

mod change;
mod check;
mod lists;
mod monitor;
mod nodes;
mod state;

pub use change::ProgramsChange;
pub use lists::{ListSource, Listed, ListsError, Walk, Walked};
pub use monitor::CgroupMonitor;
pub use state::Notification;
