//! Cgroups and their lists of programs, kept up to date.

mod change;
mod check;
mod children;
mod lists;
mod map_contents;
mod monitor;
mod nodes;
mod notification;
mod replacements;
mod state;

pub use change::ProgramsChange;
pub use lists::{ListSource, Listed, ListsError, Walk, Walked};
pub use monitor::CgroupMonitor;
pub use notification::Notification;
