//! Keeps facts up to date: which programs cgroups have, and which processes there
//! are. A refresh costs only what has to be read again, and tells what changed.

pub mod cgroups;
mod node;
mod processes;

pub use node::{NodeChanges, NodeMonitor, NodeMonitorError};
pub use processes::{DeviceChange, ProcessChanges, ProcessMonitor};
