//! Keeps facts up to date: which programs cgroups have, and which processes there
//! are. A refresh reads only what may have changed, and reports the changes.

pub mod cgroups;
mod node;
mod processes;

pub use node::{NodeChanges, NodeMonitor, NodeMonitorError};
pub use processes::{DeviceChange, ProcessChanges, ProcessMonitor};
