//! What the settings of systemd's units mean for devices.
//!
//! Text and facts in, rules out: nothing here touches the system. What
//! cannot be resolved exactly makes a verdict unknown, never a guess.

mod glob;
mod lines;
mod names;
mod resolve;
mod rules;
mod settings;

pub use lines::{Setting, device_lines, settings};
pub use names::{drop_in_names, of_cgroup, section};
pub use rules::{Filter, Meaning, Rule, meaning};
pub use settings::{Allow, Policy, Settings};
