//! Processes: who they are, their environment, the devices that they hold.

pub(super) mod ancestors;
pub(super) mod by_pid;
pub(crate) mod by_threads;
pub(super) mod collect;
pub(crate) mod credentials;
pub(super) mod descriptor_tables;
mod detail;
pub(super) mod devices;
pub(crate) mod environment;
pub(crate) mod environment_poll;
pub(super) mod helpers;
mod kept;
mod look;
pub(crate) mod mapped_files;
pub(super) mod memory;
mod reader;
pub(super) mod refusals;
pub(super) mod step_daemon;
pub(super) mod users;
mod vgpu;
pub(super) mod wanted;
