//! What the device settings of systemd's units mean.
//!
//! Text and facts go in, rules come out; nothing here makes a system call.
//! Where a setting cannot be resolved exactly, the verdict is unknown.

mod device_rules;
mod lines;
mod settings;
#[cfg(test)]
mod tests;

pub use device_rules::{DeviceRules, Filter, FilterRule, device_rules, names_of_nothing};
pub use lines::{Setting, device_lines, settings};
pub use settings::{Allow, Policy, Settings, UnitKind, drop_in_names, of_cgroup};
