//! What the device settings of systemd's units mean.
//!
//! Text and facts go in, rules come out; nothing here makes a system call.
//! Where a setting cannot be resolved exactly, the verdict is unknown.

mod device_names;
mod device_rules;
mod filter;
mod lines;
mod settings;
#[cfg(test)]
mod tests;
mod unit_names;

pub use device_rules::{DeviceRules, device_rules, names_of_nothing};
pub use filter::{Filter, FilterRule};
pub use lines::{Setting, device_lines, settings};
pub use settings::{Allow, Policy, Settings};
pub use unit_names::{UnitKind, drop_in_names, of_cgroup};
