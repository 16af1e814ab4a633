//! Facts that are kept up to date: which programs cgroups have, and which
//! processes there are.

pub mod cgroups;
mod node;
mod processes;

pub use node::{NodeChanges, NodeMonitor, NodeMonitorError};
pub use processes::{DeviceChange, ProcessChanges, ProcessMonitor};
